//! Fifos.

use testbed::{LONG, Transport, carried};
use uncopy::channel::{Deadline, Fifo, Object, Rights, Signals, Status};

use crate::channel::{is_orphan, past};

pub(crate) fn a_fifo_takes_whole_elements_and_returns_how_many(over: Transport) {
    let (near, far) = over.fifos(3, 2);
    assert_eq!(near.signals(), Signals::WRITABLE);
    assert_eq!((near.element_bytes(), far.element_bytes()), (Ok(2), Ok(2)));
    assert_eq!(near.write(b"aab"), Err(Status::OutOfRange));
    assert_eq!(near.write(b""), Err(Status::OutOfRange));
    assert_eq!(near.write(b"aabbccdd"), Ok(3));
    let mut two = [0; 4];
    assert_eq!(far.read(&mut two), Ok(2));
    assert_eq!(&two, b"aabb");
    assert_eq!(far.read(&mut [0; 3]), Err(Status::OutOfRange));
    assert_eq!(far.read(&mut []), Err(Status::OutOfRange));
    drop(near);
    assert_eq!(far.signals(), Signals::READABLE | Signals::PEER_CLOSED);
    assert_eq!(far.read(&mut two), Ok(1));
    assert_eq!(far.read(&mut two), Err(Status::PeerClosed));
    assert_eq!(far.write(b"xx"), Err(Status::PeerClosed));
}

/// Writes elements until there is no room; returns how many.
fn fill(fifo: &Fifo) -> u32 {
    let mut written = 0;
    while fifo.write(&u32::to_ne_bytes(written)) != Err(Status::ShouldWait) {
        written += 1;
    }
    written
}

pub(crate) fn a_full_fifo_loses_nothing_and_becomes_writable_after_a_read(over: Transport) {
    let (near, far) = over.fifos(8, 4);
    let written = fill(&near);
    if over.is_local() {
        assert_eq!(written, 8);
    }
    assert!(!near.signals().contains(Signals::WRITABLE));
    assert!(far.signals().contains(Signals::READABLE | Signals::WRITABLE));
    let mut found = 0;
    let mut elements = [0; 12];
    while let Ok(count) = far.read(&mut elements) {
        for element in elements[..4 * count].chunks_exact(4) {
            assert_eq!(element, u32::to_ne_bytes(found));
            found += 1;
        }
    }
    assert_eq!(found, written);
    assert_eq!(far.signals(), Signals::WRITABLE);
    assert_eq!(near.wait_one(Signals::WRITABLE, Deadline::after(LONG)), Ok(Signals::WRITABLE));
    assert_eq!(near.write(b"more"), Ok(1));
}

pub(crate) fn a_fifo_needs_the_rights_to_read_and_write(over: Transport) {
    let (near, far) = over.fifos(3, 2);
    let mute = near.duplicate(Some(Rights::FIFO - Rights::WRITE)).unwrap();
    let deaf = far.duplicate(Some(Rights::FIFO - Rights::READ - Rights::WAIT)).unwrap();
    assert_eq!(mute.write(b"xx"), Err(Status::AccessDenied));
    near.write(b"xx").unwrap();
    assert_eq!(deaf.read(&mut [0; 2]), Err(Status::AccessDenied));
    assert_eq!(deaf.wait_one(Signals::READABLE, past()), Err(Status::AccessDenied));
    drop(near);
    assert!(!is_orphan(&far), "there is a duplicate");
    drop(mute);
    assert!(is_orphan(&far));
}

/// An end with a socket takes in packets while it is not full, so that it may hold almost twice its
/// capacity.
#[test]
fn an_end_that_holds_more_than_its_capacity_moves_with_all_of_it() {
    let (near, far) = Transport::Socket.fifos(4, 4);
    assert_eq!(near.write(b"one.two."), Ok(2));
    assert_eq!(near.write(b"threfourfivesix."), Ok(4));
    assert!(far.wait_one(Signals::READABLE, past()).is_ok());
    let far = carried(carried(far));
    let mut elements = [0; 28];
    let mut found = 0;
    while let Ok(count) = far.read(&mut elements[found..]) {
        found += 4 * count;
    }
    assert_eq!(&elements[..found], b"one.two.threfourfivesix.");
    assert_eq!(near.write(b"more"), Ok(1));
    assert_eq!(far.read(&mut elements), Ok(1));
    assert_eq!(far.write(b"back"), Ok(1));
    assert_eq!(near.read(&mut elements), Ok(1));
}
