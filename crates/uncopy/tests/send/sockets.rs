//! Tests sockets: accepted, reconnected, queried.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use testbed::{Case, cases};
use uncopy::send::{InetSocket, Mode, Transport};

use crate::send::receiver::{expect, udp};
use crate::send::{LONG, all_releases, here, sender};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        [] an_accepted_connection_sends_and_receives,
        [] a_datagram_socket_is_reconnected,
        [] a_refused_connection_names_the_peer,
        [] the_longest_wait_is_accepted,
    ]
}

fn an_accepted_connection_sends_and_receives() {
    for is_v6 in [false, true] {
        let listener = TcpListener::bind(here(is_v6)).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let socket = InetSocket::accept_tcp(&listener).unwrap();
        assert_eq!(socket.transport(), Transport::Tcp);
        assert_eq!(socket.peer_address(), Some(stream.local_addr().unwrap()));
        stream.write_all(b"asked").unwrap();
        let mut bytes = [0; 10];
        assert_eq!(socket.receive(&mut bytes).unwrap(), 5);
        assert_eq!(&bytes[..5], b"asked");
        let mut sender = sender(socket, Mode::Zerocopy);
        sender.send(vec![7; 20_000]).result.unwrap();
        let mut received = vec![0; 20_000];
        stream.read_exact(&mut received).unwrap();
        assert!(received == [7; 20_000]);
        assert_eq!(all_releases(&mut sender).len(), 1);
        drop(stream);
        assert_eq!(sender.socket().receive(&mut bytes).unwrap(), 0, "the end");
    }
}

fn a_datagram_socket_is_reconnected() {
    let (first, socket) = udp(false);
    let second = UdpSocket::bind(here(false)).unwrap();
    second.set_read_timeout(Some(LONG)).unwrap();
    let mut sender = sender(socket, Mode::Copy);
    sender.send(vec![1; 100]).result.unwrap();
    sender.socket().reconnect(second.local_addr().unwrap()).unwrap();
    assert_eq!(sender.socket().peer_address(), Some(second.local_addr().unwrap()));
    sender.send(vec![2; 100]).result.unwrap();
    expect(&first, &[1; 100]);
    expect(&second, &[2; 100]);
}

fn a_refused_connection_names_the_peer() {
    let listener = TcpListener::bind(here(false)).unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let error = InetSocket::connect_tcp(closed).unwrap_err();
    assert_eq!(error.errno(), Some(uncopy::Errno::ECONNREFUSED));
    assert!(error.to_string().contains(&closed.to_string()), "{error}");
}

fn the_longest_wait_is_accepted() {
    let listener = TcpListener::bind(here(false)).unwrap();
    let to = listener.local_addr().unwrap();
    let socket = InetSocket::connect_tcp_within(to, Duration::MAX).unwrap();
    listener.accept().unwrap().0.write_all(b"bytes").unwrap();
    let mut bytes = [0; 5];
    assert_eq!(socket.receive_within(&mut bytes, Duration::MAX).unwrap(), Some(5));
    assert_eq!(&bytes, b"bytes");
}
