//! Zircon's sockets.

use std::sync::atomic::{AtomicUsize, Ordering};

use testbed::{LONG, Transport, by_extent, carried};
use uncopy::channel::{Deadline, Object, Rights, Signals, Socket, SocketKind, Status};

pub(crate) fn a_stream_keeps_no_boundaries(over: Transport) {
    let (near, far) = over.sockets(SocketKind::Stream);
    assert_eq!(far.read(&mut [0; 4]), Err(Status::ShouldWait));
    assert_eq!((near.write(b"abc"), near.write(b"def"), near.write(b"")), (Ok(3), Ok(3), Ok(0)));
    let mut four = [0; 4];
    assert_eq!((far.peek(&mut four), &four), (Ok(4), b"abcd"));
    assert_eq!((far.read(&mut four), &four), (Ok(4), b"abcd"));
    assert_eq!(far.read(&mut four), Ok(2));
    assert_eq!(far.signals(), Signals::WRITABLE);
    assert_eq!(far.write(b"back"), Ok(4));
    assert_eq!((near.read(&mut four), &four), (Ok(4), b"back"));
    let mute = far.duplicate(Some(Rights::SOCKET - Rights::WRITE)).unwrap();
    assert_eq!(mute.write(b"x"), Err(Status::AccessDenied));
    drop(near);
    assert_eq!(far.read(&mut four), Err(Status::PeerClosed));
    assert_eq!(far.write(b"x"), Err(Status::PeerClosed));
    assert_eq!(far.signals(), Signals::PEER_CLOSED);
}

pub(crate) fn a_full_stream_loses_nothing_and_becomes_writable_after_a_read(over: Transport) {
    let (near, far) = over.sockets(SocketKind::Stream);
    let body: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let mut written = 0;
    loop {
        match near.write(&body[written % 251..]) {
            Ok(count) => written += count,
            Err(status) => break assert_eq!(status, Status::ShouldWait),
        }
    }
    if over.is_local() {
        assert_eq!(written, 256 << 10);
    }
    assert!(!near.signals().contains(Signals::WRITABLE));
    let (mut found, mut piece) = (0, vec![0; 100_000]);
    while let Ok(count) = far.read(&mut piece) {
        let expected = &body[found % 251..][..count];
        assert!(piece[..count] == *expected, "{found}");
        found += count;
    }
    assert_eq!(found, written);
    assert_eq!(near.wait_one(Signals::WRITABLE, Deadline::after(LONG)), Ok(Signals::WRITABLE));
    assert_eq!(near.write(b"x"), Ok(1));
}

pub(crate) fn a_datagram_is_read_whole_or_cut_off(over: Transport) {
    let (near, far) = over.sockets(SocketKind::Datagram);
    assert_eq!(near.write(b""), Err(Status::InvalidArgs));
    assert_eq!(near.write(&vec![0; (64 << 10) + 1]), Err(Status::OutOfRange));
    near.write(b"first").unwrap();
    near.write(b"second").unwrap();
    assert_eq!((far.read(&mut []), far.peek(&mut [])), (Ok(0), Ok(0)), "nothing is taken");
    let mut three = [0; 3];
    assert_eq!((far.peek(&mut three), &three), (Ok(3), b"fir"));
    assert_eq!((far.read(&mut three), &three), (Ok(3), b"fir"));
    let mut all = [0; 16];
    assert_eq!((far.read(&mut all), &all[..6]), (Ok(6), &b"second"[..]));
    assert_eq!(far.read(&mut all), Err(Status::ShouldWait));
    assert_eq!(far.read(&mut []), Err(Status::ShouldWait));
}

pub(crate) fn a_datagram_is_sent_whole_or_not_at_all(over: Transport) {
    let (near, far) = over.sockets(SocketKind::Datagram);
    let mut sent = 0;
    while near.write(&vec![sent as u8; (64 << 10) - 1]).is_ok() {
        sent += 1;
    }
    if over.is_local() {
        assert_eq!(sent, 4);
    }
    let mut bytes = vec![0; 64 << 10];
    for number in 0..sent {
        assert_eq!(far.read(&mut bytes), Ok((64 << 10) - 1));
        assert!(bytes[..(64 << 10) - 1].iter().all(|byte| *byte == number as u8));
    }
    assert_eq!(far.read(&mut bytes), Err(Status::ShouldWait));
}

pub(crate) fn disabled_writing_is_signaled_at_both_ends(over: Transport) {
    let (near, far) = over.sockets(SocketKind::Stream);
    near.write(b"last").unwrap();
    near.disable_write().unwrap();
    assert_eq!(near.signals(), Signals::WRITE_DISABLED);
    assert_eq!(near.write(b"x"), Err(Status::BadState));
    assert!(far.signals().contains(Signals::PEER_WRITE_DISABLED | Signals::READABLE));
    assert_eq!(far.read(&mut [0; 8]), Ok(4));
    assert_eq!(far.read(&mut [0; 8]), Err(Status::BadState));
    assert_eq!(near.signals(), Signals::WRITE_DISABLED, "room does not make it writable again");
    drop(near);
    assert_eq!(far.read(&mut [0; 8]), Err(Status::PeerClosed));
}

/// Reads until that fails; returns the bytes and the error.
fn read_all(socket: &Socket) -> (Vec<u8>, Status) {
    let (mut all, mut piece) = (Vec::new(), vec![0; 1 << 17]);
    loop {
        match socket.read(&mut piece) {
            Ok(count) => all.extend_from_slice(&piece[..count]),
            Err(status) => return (all, status),
        }
    }
}

/// Each write is longer than a packet.
pub(crate) fn writes_of_several_threads_are_not_interleaved(over: Transport) {
    for _ in 0..by_extent([30, 300, 20_000]) {
        let (near, far) = over.sockets(SocketKind::Stream);
        std::thread::scope(|threads| {
            for byte in *b"ab" {
                let near = &near;
                threads.spawn(move || near.write(&vec![byte; 80_000]));
            }
        });
        let (all, _) = read_all(&far);
        let changes = all.windows(2).filter(|two| two[0] != two[1]).count();
        assert!(changes <= 1, "{changes} changes");
    }
}

pub(crate) fn what_was_written_before_the_end_arrives_and_nothing_else(over: Transport) {
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        for round in 0..by_extent([50, 1000, 100_000]) {
            let (near, far) = over.sockets(kind);
            far.write(b"reply").unwrap();
            let written = AtomicUsize::new(0);
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    loop {
                        match near.write(b"0123456789") {
                            Ok(count) => drop(written.fetch_add(count, Ordering::Relaxed)),
                            Err(Status::ShouldWait) => std::thread::yield_now(),
                            Err(_) => break,
                        }
                    }
                });
                for _ in 0..(round % 977) * 3 {
                    std::hint::spin_loop();
                }
                while near.disable_write() == Err(Status::ShouldWait) {
                    far.signals();
                }
            });
            let (all, status) = read_all(&far);
            let expected = (written.into_inner(), Status::BadState);
            assert_eq!((all.len(), status), expected, "{kind:?}, round {round}");
            assert_eq!(near.read(&mut [0; 8]), Ok(5), "{kind:?}, round {round}");
        }
    }
}

/// The writer does not know that the end was written.
#[test]
fn what_another_process_writes_behind_the_end_is_dropped() {
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        let (near, far) = Socket::pair(kind);
        let elsewhere = carried(near.duplicate(None).unwrap());
        far.write(b"reply").unwrap();
        near.write(b"first").unwrap();
        near.disable_write().unwrap();
        elsewhere.write(b"second").unwrap();
        assert_eq!(read_all(&far), (b"first".to_vec(), Status::BadState));
        assert_eq!(far.write(b"more"), Ok(4));
        assert!(!far.signals().contains(Signals::PEER_CLOSED));
        let replies: Vec<u8> = [&near, &near].iter().flat_map(|end| read_all(end).0).collect();
        assert_eq!(replies, b"replymore");
        assert_eq!(elsewhere.signals(), Signals::WRITABLE);
        assert_eq!(near.signals(), Signals::WRITE_DISABLED);
    }
}
