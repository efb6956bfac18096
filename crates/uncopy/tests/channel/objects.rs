//! Fifos, sockets, memory.

use std::os::fd::AsFd;

use uncopy::channel::{Fifo, Object, Rights, Signals, Socket, SocketKind, Status, Vmo};

#[test]
fn fifo_sizes() {
    for (count, size, expected) in [
        (1, 1, None),
        (512, 8, None),
        (1, 4096, None),
        (0, 8, Some(Status::OutOfRange)),
        (8, 0, Some(Status::OutOfRange)),
        (513, 8, Some(Status::OutOfRange)),
        (usize::MAX, 2, Some(Status::OutOfRange)),
    ] {
        assert_eq!(Fifo::pair(count, size).err(), expected, "{count} x {size}");
    }
}

#[test]
fn a_fifo_takes_whole_elements_and_says_how_many() {
    let (near, far) = Fifo::pair(3, 2).unwrap();
    assert_eq!(near.signals(), Signals::WRITABLE);
    assert_eq!(near.write(b"aab"), Err(Status::OutOfRange));
    assert_eq!(near.write(b""), Err(Status::OutOfRange));
    assert_eq!(near.write(b"aabbccdd"), Ok(3));
    assert_eq!(near.signals(), Signals::empty());
    assert_eq!(near.write(b"dd"), Err(Status::ShouldWait));
    let mut two = [0; 4];
    assert_eq!(far.read(&mut two), Ok(2));
    assert_eq!(&two, b"aabb");
    assert_eq!(near.signals(), Signals::WRITABLE);
    assert_eq!(far.read(&mut [0; 3]), Err(Status::OutOfRange));
    drop(near);
    assert_eq!(far.signals(), Signals::READABLE | Signals::PEER_CLOSED);
    assert_eq!(far.read(&mut two), Ok(1));
    assert_eq!(far.read(&mut two), Err(Status::PeerClosed));
    assert_eq!(far.write(b"xx"), Err(Status::PeerClosed));
}

#[test]
fn a_stream_runs_together_and_writes_what_fits() {
    let (near, far) = Socket::pair(SocketKind::Stream);
    assert_eq!(far.read(&mut [0; 4]), Err(Status::ShouldWait));
    assert_eq!((near.write(b"abc"), near.write(b"def"), near.write(b"")), (Ok(3), Ok(3), Ok(0)));
    let mut four = [0; 4];
    assert_eq!((far.peek(&mut four), &four), (Ok(4), b"abcd"));
    assert_eq!((far.read(&mut four), &four), (Ok(4), b"abcd"));
    assert_eq!(far.read(&mut four), Ok(2));
    assert_eq!(far.signals(), Signals::WRITABLE);
    let large = vec![1; 300 << 10];
    assert_eq!(near.write(&large), Ok(256 << 10));
    assert_eq!((near.signals(), near.write(b"x")), (Signals::empty(), Err(Status::ShouldWait)));
    assert_eq!(far.read(&mut four), Ok(4));
    assert_eq!(near.signals(), Signals::WRITABLE);
}

#[test]
fn a_datagram_is_whole_or_cut_off() {
    let (near, far) = Socket::pair(SocketKind::Datagram);
    assert_eq!(near.write(b""), Err(Status::InvalidArgs));
    assert_eq!(near.write(&vec![0; (64 << 10) + 1]), Err(Status::OutOfRange));
    near.write(b"first").unwrap();
    near.write(b"second").unwrap();
    let mut three = [0; 3];
    assert_eq!((far.read(&mut three), &three), (Ok(3), b"fir"));
    let mut all = [0; 16];
    assert_eq!((far.read(&mut all), &all[..6]), (Ok(6), &b"second"[..]));
    for length in [64 << 10, 64 << 10, 64 << 10, (64 << 10) - 1] {
        near.write(&vec![0; length]).unwrap();
    }
    assert_eq!(near.write(b"xx"), Err(Status::ShouldWait));
}

#[test]
fn disabled_writing_is_told_to_both_ends() {
    let (near, far) = Socket::pair(SocketKind::Stream);
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

#[test]
fn memory_is_shared_by_duplicates_and_ends_at_its_size() {
    let vmo = Vmo::new(5000).unwrap();
    assert_eq!(vmo.size(), 8192);
    let reader = vmo.duplicate(Some(Rights::READ)).unwrap();
    vmo.write(b"shared", 8186).unwrap();
    let mut bytes = [0; 6];
    reader.read(&mut bytes, 8186).unwrap();
    assert_eq!(&bytes, b"shared");
    assert_eq!(reader.write(b"x", 0), Err(Status::AccessDenied));
    assert_eq!(reader.read(&mut bytes, 8187), Err(Status::OutOfRange));
    assert_eq!(vmo.write(b"xx", u64::MAX), Err(Status::OutOfRange));
    assert_eq!(Vmo::new(u64::MAX).map(drop), Err(Status::OutOfRange));
}

#[test]
fn memory_of_a_fixed_size_keeps_it_whoever_has_the_descriptor() {
    let vmo = Vmo::new(8192).unwrap();
    assert!(!vmo.rights().contains(Rights::RESIZE));
    assert_eq!(vmo.set_size(4096), Err(Status::AccessDenied));
    for size in [4096, 16_384] {
        assert_eq!(rustix::fs::ftruncate(vmo.as_fd(), size), Err(rustix::io::Errno::PERM));
    }
}

/// In this process and, as far as anybody can tell, in another.
#[test]
fn a_new_size_is_everybodys() {
    let vmo = Vmo::resizable(5000).unwrap();
    vmo.write(b"old", 4096).unwrap();
    let twin = vmo.duplicate(None).unwrap();
    let poor = vmo.duplicate(Some(Rights::READ | Rights::WRITE)).unwrap();
    let (near, far) = crate::socket_pair();
    near.write(&[], vec![vmo.duplicate(None).unwrap().into()]).unwrap();
    let there = Vmo::try_from(far.read().unwrap().take_handles().remove(0)).unwrap();
    assert!(there.rights().contains(Rights::RESIZE));
    assert_eq!(poor.set_size(0), Err(Status::AccessDenied));
    assert_eq!(vmo.set_size(u64::MAX), Err(Status::OutOfRange));
    for (size, pages) in [(20_000, 5), (4096, 1), (0, 0), (4097, 2)] {
        there.set_size(size).unwrap();
        for vmo in [&vmo, &twin, &poor, &there] {
            assert_eq!(vmo.size(), pages * 4096);
            assert_eq!(vmo.write(b"xx", pages * 4096 - pages.min(1)), Err(Status::OutOfRange));
            assert_eq!(vmo.read(&mut [0; 2], pages * 4096), Err(Status::OutOfRange));
        }
    }
    let mut bytes = [1; 3];
    vmo.read(&mut bytes, 4096).unwrap();
    assert_eq!(bytes, [0; 3], "what was cut off is gone");
    // Another holder of the descriptor may make it shorter by itself: an error, never a signal.
    rustix::fs::ftruncate(there.as_fd(), 100).unwrap();
    assert_eq!(vmo.read(&mut [0; 8], 4096), Err(Status::OutOfRange));
}
