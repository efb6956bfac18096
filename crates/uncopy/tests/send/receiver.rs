//! Receivers for the tests.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread::JoinHandle;
use std::time::Duration;

use uncopy::send::InetSocket;

use crate::send::{LONG, here};

/// Makes a UDP receiver, and a socket that sends to it.
pub(crate) fn udp(is_v6: bool) -> (UdpSocket, InetSocket) {
    let receiver = UdpSocket::bind(here(is_v6)).unwrap();
    receiver.set_read_timeout(Some(LONG)).unwrap();
    let socket = InetSocket::connect_udp(receiver.local_addr().unwrap()).unwrap();
    (receiver, socket)
}

/// Makes a UDP port that refuses what others send to it, and that nobody else is given: its socket is connected
/// to another peer, so that no datagram from here is its own.
pub(crate) fn refusing_port(is_v6: bool) -> UdpSocket {
    let (peer, port) =
        (UdpSocket::bind(here(is_v6)).unwrap(), UdpSocket::bind(here(is_v6)).unwrap());
    port.connect(peer.local_addr().unwrap()).unwrap();
    port
}

/// Calls what returns the number of refusals that it saw, until it saw one: the kernel sends at most so many a
/// second for the whole machine (`icmp_msgs_per_sec`, icmp(7)), and other tests have some of them.
#[track_caller]
pub(crate) fn until_refused(send: impl Fn() -> usize) {
    for _ in 0..200 {
        if send() > 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no refusal in 200 attempts: the refusal of a datagram is the error of the next one");
}

/// Receives the next datagram.
#[track_caller]
pub(crate) fn datagram(receiver: &UdpSocket) -> Vec<u8> {
    let mut bytes = vec![0; 65_536];
    let length = receiver.recv(&mut bytes).unwrap();
    bytes.truncate(length);
    bytes
}

/// Makes both ends of a TCP connection.
pub(crate) fn tcp(is_v6: bool) -> (TcpStream, InetSocket) {
    let listener = TcpListener::bind(here(is_v6)).unwrap();
    tcp_to(&listener, listener.local_addr().unwrap())
}

fn tcp_to(listener: &TcpListener, address: SocketAddr) -> (TcpStream, InetSocket) {
    let socket = InetSocket::connect_tcp(address).unwrap();
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    (stream, socket)
}

/// Reads the stream to its end, in a thread.
pub(crate) fn to_the_end(mut stream: TcpStream) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Receives the next datagram, and checks its content.
#[track_caller]
pub(crate) fn expect(receiver: &UdpSocket, expected: &[u8]) {
    let got = datagram(receiver);
    let differs = got.iter().zip(expected).position(|(a, b)| a != b);
    assert!(
        got == expected,
        "{} bytes of {}, different from {differs:?}",
        got.len(),
        expected.len()
    );
}
