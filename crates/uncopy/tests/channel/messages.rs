//! Writing and reading: limits, order of checks, messages that stay queued.

use std::io::{IoSlice, IoSliceMut};

use testbed::{LONG, Transport};
use uncopy::channel::{
    BatchShape, Bounds, Channel, Deadline, Event, EventPair, Filling, Handle, Lengths, Lent,
    MAX_BYTES, MAX_HANDLES, MAX_REGIONS, Object, Oversized, Region, Rights, Signals, Status,
};

use crate::channel::{is_orphan, past, send, send_handles};

fn events(count: usize) -> Vec<Handle> {
    (0..count).map(|_| Event::new().into()).collect()
}

pub(crate) fn regions_are_gathered_in_order_without_padding(over: Transport) {
    let (near, far) = over.channels();
    let region = |bytes| IoSlice::new(bytes);
    near.write(&[region(b"a"), region(b""), region(b"bcd"), region(b"a"), region(b"")], vec![])
        .unwrap();
    near.write(&[], vec![]).unwrap();
    far.write(&[region(b"back")], vec![]).unwrap();
    assert_eq!(&*far.read().unwrap(), b"abcda");
    assert_eq!(&*far.read().unwrap(), b"");
    assert_eq!(&*near.read().unwrap(), b"back");
}

pub(crate) fn a_message_at_a_limit_is_sent_and_one_past_it_is_refused(over: Transport) {
    let large = vec![7; MAX_BYTES + 1];
    let whole = IoSlice::new(&large[..MAX_BYTES]);
    let byte = IoSlice::new(&large[..1]);
    let empty = IoSlice::new(&[]);
    for (what, regions, handles, expected) in [
        ("all bytes", vec![whole], 0, Ok(())),
        ("all handles", vec![empty], MAX_HANDLES, Ok(())),
        ("all regions", vec![byte; MAX_REGIONS], 0, Ok(())),
        ("empty regions count", vec![empty; MAX_REGIONS + 1], 0, Err(Status::OutOfRange)),
        ("one byte more", vec![IoSlice::new(&large)], 0, Err(Status::OutOfRange)),
        ("a sum one more", vec![byte, whole], 0, Err(Status::OutOfRange)),
        ("a sum far above 32 bits' half", vec![whole; MAX_REGIONS], 0, Err(Status::OutOfRange)),
        ("one handle more", vec![empty], MAX_HANDLES + 1, Err(Status::OutOfRange)),
    ] {
        let (near, far) = over.channels();
        assert_eq!(near.write(&regions, events(handles)), expected, "{what}");
        let length: usize = regions.iter().map(|r| r.len()).sum();
        match far.read() {
            Ok(message) => {
                assert_eq!((message.len(), message.handles().len()), (length, handles), "{what}");
            }
            Err(status) => assert_eq!(
                (Err(Status::ShouldWait), status),
                (expected.map_err(|_| Status::ShouldWait), Status::ShouldWait),
                "{what}"
            ),
        }
    }
}

/// A region that lends other than its length.
struct Liar {
    bytes: Vec<u8>,
    lent: usize,
}

impl Region for Liar {
    fn length(&self) -> usize {
        self.bytes.len() - 1
    }

    fn append_to(&self, from: usize, filling: &mut Filling<'_>) -> Result<(), Status> {
        Ok(filling.append(&self.bytes[from..self.lent])?)
    }

    fn lend(&self, from: usize) -> Lent<'_> {
        Lent::of(&self.bytes[from..self.lent])
    }
}

/// One byte fewer would end the peer's end, and one more would, too.
pub(crate) fn regions_of_more_or_fewer_bytes_than_they_say_are_refused(over: Transport) {
    for (length, lent) in [(5000, 4999), (5000, 5001), (100, 99), (100, 101), (5000, 0)] {
        let (near, far) = over.channels();
        let liar = |lent| Liar { bytes: vec![1; length + 1], lent };
        let regions = [liar(length), liar(lent)];
        let total = 2 * length;
        let refused = near.write_regions(total, &regions, &mut vec![]);
        assert_eq!(refused, Err(Status::InvalidArgs), "{length} {lent}");
        let regions = [liar(length), liar(lent), liar(length)];
        let at = |region: &Liar| regions.iter().position(|other| std::ptr::eq(other, region));
        let shape = |region: &Liar| BatchShape {
            bytes: length,
            message: at(region).unwrap() as u16,
            handles: 0,
        };
        let error = near.write_batch_regions(&regions, shape, &mut vec![]).unwrap_err();
        assert_eq!((error.sent, error.status), (1, Status::InvalidArgs), "{length} {lent}");
        assert_eq!(far.read().unwrap().len(), length);
        assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
    }
}

/// A write that breaks several rules is refused for the first of them, and consumes its handles.
pub(crate) fn a_write_checks_in_zircons_order(over: Transport) {
    let large = vec![0; MAX_BYTES + 1];
    let no_transfer = || EventPair::pair().0.replace(Some(Rights::WAIT)).unwrap();
    for (right, bytes, transferable, open, expected) in [
        (false, MAX_BYTES + 1, false, false, Status::AccessDenied),
        (true, MAX_BYTES + 1, false, false, Status::OutOfRange),
        (true, 1, false, false, Status::AccessDenied),
        (true, 1, true, false, Status::PeerClosed),
    ] {
        let (near, far) = over.channels();
        let rights = if right { Rights::CHANNEL } else { Rights::CHANNEL - Rights::WRITE };
        let near = near.replace(Some(rights)).unwrap();
        let far = open.then_some(far);
        let (witness, moved) = EventPair::pair();
        let mut handles = vec![moved.into()];
        if !transferable {
            handles.insert(0, no_transfer().into());
        }
        assert_eq!(near.write(&[IoSlice::new(&large[..bytes])], handles), Err(expected));
        assert!(is_orphan(&witness), "{expected}: the handle was not consumed");
        drop(far);
    }
}

pub(crate) fn a_failing_fill_sends_nothing_and_consumes_the_handles(over: Transport) {
    let (near, far) = over.channels();
    for (what, fill_with, error, expected) in [
        ("too little", &b"ab"[..], None, Status::InvalidArgs),
        ("too much", &b"abcd"[..], None, Status::InvalidArgs),
        ("its own error", &b"abc"[..], Some(Status::NoMemory), Status::NoMemory),
    ] {
        let (witness, moved) = EventPair::pair();
        let mut handles = vec![moved.into()];
        let result = near.write_with(
            3,
            |filling| {
                filling.append(fill_with)?;
                error.map_or(Ok(()), Err)
            },
            &mut handles,
        );
        assert_eq!(result, Err(expected), "{what}");
        assert!(handles.is_empty() && is_orphan(&witness), "{what}");
    }
    assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
}

pub(crate) fn a_panicking_fill_leaves_both_ends_unchanged(over: Transport) {
    let (near, far) = over.channels();
    let (witness, moved) = EventPair::pair();
    let mut handles = vec![moved.into()];
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        near.write_with(5, |_| panic!("on purpose"), &mut handles)
    }));
    assert!(unwound.is_err());
    assert!(handles.len() == 1 && !is_orphan(&witness));
    send(&near, b"after").unwrap();
    assert_eq!(&*far.read().unwrap(), b"after");
}

pub(crate) fn reading_an_empty_queue_returns_should_wait_or_peer_closed(over: Transport) {
    let (near, far) = over.channels();
    assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
    send(&near, b"last").unwrap();
    drop(near);
    assert_eq!(far.signals(), Signals::READABLE | Signals::PEER_CLOSED);
    assert_eq!(&*far.read().unwrap(), b"last");
    assert_eq!(far.read().unwrap_err(), Status::PeerClosed);
    assert_eq!(far.signals(), Signals::PEER_CLOSED);
    assert_eq!(send(&far, b"x"), Err(Status::PeerClosed));
}

pub(crate) fn reading_needs_the_right(over: Transport) {
    let (near, far) = over.channels();
    send(&near, b"x").unwrap();
    let deaf = far.replace(Some(Rights::CHANNEL - Rights::WAIT)).unwrap();
    assert_eq!(deaf.receive(past()).unwrap_err(), Status::AccessDenied);
    assert_eq!(&*deaf.read().unwrap(), b"x");
    let far = deaf.replace(Some(Rights::CHANNEL - Rights::READ - Rights::WAIT)).unwrap();
    assert_eq!(far.read().unwrap_err(), Status::AccessDenied);
    assert_eq!(far.receive(past()).unwrap_err(), Status::AccessDenied);
}

/// Each message is received by one call; a wait behind it sees the signals that came between.
pub(crate) fn messages_are_received_one_by_one_up_to_the_end(over: Transport) {
    let (near, far) = over.channels();
    let soon = || Deadline::after(LONG);
    for round in 0..40 {
        assert_eq!(far.receive(past()).unwrap_err(), Status::TimedOut);
        send(&near, b"first").unwrap();
        near.signal_peer(Signals::empty(), Signals::USER_3).unwrap();
        send_handles(&near, events(2)).unwrap();
        assert_eq!(&*far.receive(past()).unwrap(), b"first", "{round}");
        let behind = far.wait_one(Signals::READABLE | Signals::USER_3, past()).unwrap();
        assert_eq!(behind, Signals::READABLE | Signals::WRITABLE | Signals::USER_3);
        assert_eq!(far.receive(soon()).unwrap().handles().len(), 2);
        near.signal_peer(Signals::USER_3, Signals::empty()).unwrap();
    }
    send(&near, b"last").unwrap();
    drop(near);
    assert_eq!(&*far.receive(soon()).unwrap(), b"last");
    assert_eq!(far.receive(soon()).unwrap_err(), Status::PeerClosed);
    assert_eq!(far.receive(past()).unwrap_err(), Status::PeerClosed);
}

pub(crate) fn a_message_that_does_not_fit_stays_or_is_discarded(over: Transport) {
    let (near, far) = over.channels();
    let (witness, moved) = EventPair::pair();
    near.write(&[IoSlice::new(b"12345")], vec![moved.into()]).unwrap();
    send(&near, b"next").unwrap();
    let too_small = Err(Status::BufferTooSmall { bytes: 5, handles: 1 });
    assert_eq!(far.read_into(&mut [0; 4], &mut [None]), too_small);
    assert_eq!(far.read_into(&mut [0; 5], &mut []), too_small);
    assert!(!is_orphan(&witness));
    let room = Lengths { bytes: 5, handles: 0 };
    let discarded = far.read_fitting(room, Oversized::Discard).map(|_| Lengths::default());
    assert_eq!(discarded, too_small);
    assert!(is_orphan(&witness), "a discarded message's handles are closed");
    let room = Lengths { bytes: 4, handles: 0 };
    assert_eq!(&*far.read_fitting(room, Oversized::Discard).unwrap(), b"next");
}

pub(crate) fn reads_spread_over_regions_and_split_into_parts(over: Transport) {
    let (near, far) = over.channels();
    let (mut a, mut b, mut c) = ([0; 3], [0; 0], [9; 4]);
    near.write(&[IoSlice::new(b"12345")], events(1)).unwrap();
    let mut slots = [None, None];
    let mut regions = [&mut a[..], &mut b, &mut c].map(IoSliceMut::new);
    let lengths = far.read_scattered(&mut regions, &mut slots).unwrap();
    assert_eq!(lengths, Lengths { bytes: 5, handles: 1 });
    assert_eq!((&a, &c), (b"123", &[b'4', b'5', 9, 9]));
    assert!(slots[0].is_some() && slots[1].is_none());

    near.write(&[IoSlice::new(b"headbody")], events(2)).unwrap();
    let (part, handles) = far.read().unwrap().into_parts();
    let (head, body) = part.split_at(4);
    let (bo, dy) = body.clone().split_at(2);
    drop(body);
    assert_eq!((&*head, &*bo, &*dy, handles.len()), (&b"head"[..], &b"bo"[..], &b"dy"[..], 2));
}

#[test]
fn a_full_queue_returns_should_wait_clears_writable_and_keeps_the_handles() {
    let messages = Bounds::new().messages(3);
    let bytes = Bounds::new().bytes(25);
    let handles = Bounds::new().handles(3);
    for (what, bounds) in [("messages", messages), ("bytes", bytes), ("handles", handles)] {
        let (near, far) = Channel::pair_with(bounds);
        for _ in 0..3 {
            assert!(near.signals().contains(Signals::WRITABLE), "{what}");
            near.write(&[IoSlice::new(&[0; 10])], events(1)).unwrap();
        }
        assert_eq!(near.signals(), Signals::empty(), "{what}");
        assert!(far.signals().contains(Signals::WRITABLE), "the other direction is not full");
        let (witness, moved) = EventPair::pair();
        let mut kept = vec![Handle::from(moved)];
        assert_eq!(near.try_write(&[], &mut kept), Err(Status::ShouldWait), "{what}");
        assert!(kept.len() == 1 && !is_orphan(&witness), "{what}");
        assert_eq!(send_handles(&near, kept), Err(Status::ShouldWait), "{what}");
        assert!(is_orphan(&witness), "{what}");
        drop(far.read().unwrap());
        assert_eq!(near.signals(), Signals::WRITABLE, "{what}");
        send(&near, b"x").unwrap();
    }
}

#[test]
fn default_bounds_take_four_thousand_messages_and_sixteen_mebibytes() {
    let (near, far) = Channel::pair();
    for _ in 0..4096 {
        send(&near, b"").unwrap();
    }
    assert_eq!(send(&near, b""), Err(Status::ShouldWait));
    let large = vec![0; MAX_BYTES];
    for _ in 0..(16 << 20) / MAX_BYTES {
        send(&far, &large).unwrap();
    }
    assert_eq!(send(&far, b""), Err(Status::ShouldWait));
}

pub(crate) fn closing_an_end_closes_the_handles_in_its_queue(over: Transport) {
    let (near, far) = over.channels();
    let (witness, moved) = EventPair::pair();
    send_handles(&near, vec![moved.into()]).unwrap();
    drop(far);
    assert!(is_orphan(&witness));
    assert_eq!(near.signals(), Signals::PEER_CLOSED);
}
