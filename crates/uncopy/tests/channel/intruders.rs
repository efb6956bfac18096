//! A peer in another process that breaks the rules of packets.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use uncopy::channel::{Channel, Object, Signals, Status};

const MESSAGE: u8 = 0;
const SIGNALS: u8 = 1;
const BACKLOG: u8 = 3;

/// Returns the raw socket of one end, and the other end.
fn raw_socket_and_channel() -> (OwnedFd, Channel) {
    let (near, far) = Channel::pair();
    (near.into_fd().unwrap(), far)
}

fn sockets() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn packet(content: u8, handles: u16, body: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(body.len()).unwrap() - u32::from(handles) * 16;
    let header = [&[0xc1, content][..], &handles.to_ne_bytes(), &bytes.to_ne_bytes()].concat();
    [&header, body].concat()
}

fn send(socket: &OwnedFd, packet: &[u8], fds: &[&OwnedFd]) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(packet)], &mut control, flags)
}

#[test]
fn an_unexpected_backlog_ends_the_channel() {
    let (reader, writer) = sockets();
    drop(writer);
    for (what, packets, fds) in [
        ("a second one", vec![packet(BACKLOG, 0, &[]), packet(BACKLOG, 0, &[])], vec![&reader]),
        ("behind a message", vec![packet(MESSAGE, 0, b"x"), packet(BACKLOG, 0, &[])], vec![]),
        ("of something else", vec![packet(BACKLOG, 0, &[])], vec![]),
    ] {
        let (socket, far) = raw_socket_and_channel();
        let file = OwnedFd::from(tempfile::tempfile().unwrap());
        for packet in packets {
            let fds = if what == "of something else" { vec![&file] } else { fds.clone() };
            send(&socket, &packet, &fds).unwrap();
        }
        while far.read().is_ok() {}
        assert_eq!(far.read().unwrap_err(), Status::PeerClosed, "{what}");
        assert!(send(&socket, &packet(MESSAGE, 0, b"x"), &[]).is_err(), "{what}");
    }
}

/// An empty packet looks like the end of a closed socket to the receiver.
#[test]
fn an_empty_packet_ends_the_channel_for_both_ends() {
    let (socket, far) = raw_socket_and_channel();
    send(&socket, &packet(MESSAGE, 0, b"before"), &[]).unwrap();
    send(&socket, &[], &[&socket]).unwrap();
    assert_eq!(&*far.read().unwrap(), b"before");
    assert_eq!(far.read().unwrap_err(), Status::PeerClosed);
    assert_eq!(far.write(&[], vec![]), Err(Status::PeerClosed));
    assert!(send(&socket, &packet(MESSAGE, 0, b"x"), &[]).is_err());
}

/// A reader that handled them by recursion would recurse without end.
#[test]
fn many_backlogs_end_the_channel() {
    let (socket, far) = raw_socket_and_channel();
    while send(&socket, &packet(BACKLOG, 0, &[]), &[]).is_ok() {}
    assert_eq!(far.read().unwrap_err(), Status::PeerClosed);
}

/// A backlog in a backlog, and one whose writing end is still open.
#[test]
fn an_invalid_backlog_ends_the_channel() {
    for body in [Some(packet(BACKLOG, 0, &[])), None] {
        let (reader, writer) = sockets();
        if let Some(body) = body {
            send(&writer, &body, &[]).unwrap();
        }
        let (socket, far) = raw_socket_and_channel();
        send(&socket, &packet(BACKLOG, 0, &[]), &[&reader]).unwrap();
        assert_eq!(far.read().unwrap_err(), Status::PeerClosed);
        drop(writer);
    }
}

/// Signals take no room in the queue, which would stop the receiver otherwise.
#[test]
fn a_peer_that_only_sends_signals_does_not_delay_the_reader() {
    let (socket, far) = raw_socket_and_channel();
    let body = [[0; 4], Signals::USER_1.bits().to_ne_bytes()].concat();
    send(&socket, &packet(SIGNALS, 0, &body), &[]).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flood = || {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = send(&socket, &packet(SIGNALS, 0, &body), &[]);
            }
        };
        scope.spawn(flood);
        scope.spawn(flood);
        // Each call may receive as much as a socket can hold.
        for _ in 0..4 {
            assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(far.signals().contains(Signals::USER_1));
}
