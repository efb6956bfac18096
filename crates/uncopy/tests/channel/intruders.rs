//! Another process that keeps to no rule.

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

/// The bare socket of one end, and the other.
fn intruded() -> (OwnedFd, Channel) {
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
fn a_backlog_where_none_belongs_is_the_end() {
    let (reader, writer) = sockets();
    drop(writer);
    for (what, packets, fds) in [
        ("a second one", vec![packet(BACKLOG, 0, &[]), packet(BACKLOG, 0, &[])], vec![&reader]),
        ("behind a message", vec![packet(MESSAGE, 0, b"x"), packet(BACKLOG, 0, &[])], vec![]),
        ("of something else", vec![packet(BACKLOG, 0, &[])], vec![]),
    ] {
        let (socket, far) = intruded();
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

/// To the one who receives it looks like the end of a closed socket.
#[test]
fn a_packet_of_nothing_is_the_end_for_both() {
    let (socket, far) = intruded();
    send(&socket, &packet(MESSAGE, 0, b"before"), &[]).unwrap();
    send(&socket, &[], &[&socket]).unwrap();
    assert_eq!(&*far.read().unwrap(), b"before");
    assert_eq!(far.read().unwrap_err(), Status::PeerClosed);
    assert_eq!(far.write(&[], vec![]), Err(Status::PeerClosed));
    assert!(send(&socket, &packet(MESSAGE, 0, b"x"), &[]).is_err());
}

/// Empty ones that never end would have the reader call itself without end.
#[test]
fn a_flood_of_backlogs_is_the_end() {
    let (socket, far) = intruded();
    while send(&socket, &packet(BACKLOG, 0, &[]), &[]).is_ok() {}
    assert_eq!(far.read().unwrap_err(), Status::PeerClosed);
}

/// A backlog in a backlog, and one whose writer is still there.
#[test]
fn a_backlog_that_breaks_its_rules_is_the_end() {
    for body in [Some(packet(BACKLOG, 0, &[])), None] {
        let (reader, writer) = sockets();
        if let Some(body) = body {
            send(&writer, &body, &[]).unwrap();
        }
        let (socket, far) = intruded();
        send(&socket, &packet(BACKLOG, 0, &[]), &[&reader]).unwrap();
        assert_eq!(far.read().unwrap_err(), Status::PeerClosed);
        drop(writer);
    }
}

/// They take no room in the queue.
#[test]
fn a_peer_that_does_nothing_but_signal_does_not_hold_the_reader_up() {
    let (socket, far) = intruded();
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
        // Each may take in as much as a socket can hold.
        for _ in 0..4 {
            assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(far.signals().contains(Signals::USER_1));
}
