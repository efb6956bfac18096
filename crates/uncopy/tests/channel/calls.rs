//! Calls and answers.

use std::io::IoSlice;
use std::time::Duration;

use testbed::{LONG, Transport, carried};
use uncopy::channel::{
    Channel, Deadline, Disposition, EventPair, Handle, Kind, Object, Rights, Signals, Status,
};

use crate::channel::{is_orphan, moved, past, send};

/// Answers the next message with its own first four bytes and `body`.
fn answer(channel: &Channel, body: &[u8]) -> [u8; 4] {
    channel.wait_one(Signals::READABLE, Deadline::after(LONG)).unwrap();
    let request = channel.read().unwrap();
    let txid = *request.first_chunk::<4>().unwrap();
    channel.write(&[IoSlice::new(&txid), IoSlice::new(body)], vec![]).unwrap();
    txid
}

pub(crate) fn the_transaction_id_replaces_only_the_first_four_bytes_of_the_message(
    over: Transport,
) {
    let (near, far) = over.channels();
    let (head, middle, rest) = (*b"\0", *b"\0\0", *b"\0request");
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let regions = [&head[..], &middle, &rest].map(IoSlice::new);
            near.call(&regions, vec![], Deadline::after(LONG))
        });
        far.wait_one(Signals::READABLE, Deadline::after(LONG)).unwrap();
        let request = far.read().unwrap();
        let (txid, body) = request.split_first_chunk::<4>().unwrap();
        assert_ne!(u32::from_ne_bytes(*txid) & 0x8000_0000, 0);
        assert_eq!(body, b"request");
        far.write(&[IoSlice::new(txid), IoSlice::new(b"answer")], vec![]).unwrap();
        assert_eq!(&caller.join().unwrap().unwrap()[4..], b"answer");
    });
    assert_eq!((head, middle, &rest), (*b"\0", *b"\0\0", b"\0request"));
    assert_eq!(near.signals(), Signals::WRITABLE, "an answer is never READABLE");
}

/// Messages and signals around an answer are neither lost nor kept from the next wait.
pub(crate) fn a_call_leaves_what_is_behind_its_answer_to_the_next_wait(over: Transport) {
    let (near, far) = over.channels();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            send(&far, b"before").unwrap();
            answer(&far, b"answer");
            far.signal_peer(Signals::empty(), Signals::USER_1).unwrap();
            send(&far, b"behind").unwrap();
        });
        let soon = || Deadline::after(LONG);
        assert_eq!(&near.call(&[IoSlice::new(b"0000")], vec![], soon()).unwrap()[4..], b"answer");
        assert!(near.wait_one(Signals::USER_1, soon()).unwrap().contains(Signals::READABLE));
        assert_eq!(&*near.receive(soon()).unwrap(), b"before");
        assert_eq!(&*near.receive(soon()).unwrap(), b"behind");
    });
}

pub(crate) fn a_call_that_spins_is_answered_or_times_out(over: Transport) {
    for spin in [LONG, Duration::from_micros(20)] {
        let (near, far) = over.channels();
        std::thread::scope(|scope| {
            scope.spawn(|| answer(&far, b"answer"));
            let deadline = Deadline::after(LONG).spinning(spin);
            let answer = near.call(&[IoSlice::new(b"0000")], vec![], deadline).unwrap();
            assert_eq!(&answer[4..], b"answer", "{spin:?}");
        });
        let soon = Deadline::after(Duration::from_millis(2)).spinning(spin);
        let unanswered = near.call(&[IoSlice::new(b"0000")], vec![], soon);
        assert_eq!(unanswered.unwrap_err(), Status::TimedOut, "{spin:?}");
        drop(far);
        let deadline = Deadline::after(LONG).spinning(spin);
        let closed = near.call(&[IoSlice::new(b"0000")], vec![], deadline);
        assert_eq!(closed.unwrap_err(), Status::PeerClosed, "{spin:?}");
    }
}

pub(crate) fn a_call_with_dispositions_is_answered_and_keeps_duplicated_handles(over: Transport) {
    let (near, far) = over.channels();
    let (moved, moved_peer) = EventPair::pair();
    let (kept, kept_peer) = EventPair::pair();
    let (kept, request) = (Handle::from(kept), [IoSlice::new(b"0000request")]);
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let mut sent = [
                Disposition::moving(moved),
                Disposition { rights: Some(Rights::TRANSFER), ..Disposition::duplicating(&kept) },
            ];
            near.call_etc(&request, &mut sent, Deadline::after(LONG))
        });
        far.wait_one(Signals::READABLE, Deadline::after(LONG)).unwrap();
        let mut received = far.read().unwrap();
        let (txid, body) = received.split_first_chunk::<4>().unwrap();
        assert_eq!(body, b"request");
        far.write(&[IoSlice::new(txid), IoSlice::new(b"answer")], vec![]).unwrap();
        assert_eq!(&caller.join().unwrap().unwrap()[4..], b"answer");
        let handles = received.take_handles();
        assert_eq!((handles.len(), handles[1].rights()), (2, Rights::TRANSFER));
    });
    assert!(is_orphan(&moved_peer) && !is_orphan(&kept_peer));
    drop(kept);
    assert!(is_orphan(&kept_peer));
}

pub(crate) fn a_call_with_a_disposition_that_fails_sends_nothing(over: Transport) {
    let (near, far) = over.channels();
    let (moved, moved_peer) = EventPair::pair();
    let mut sent = [
        Disposition::moving(moved),
        Disposition { kind: Some(Kind::Fifo), ..Disposition::moving(EventPair::pair().0) },
    ];
    let result = near.call_etc(&[IoSlice::new(b"0000")], &mut sent, Deadline::after(LONG));
    assert_eq!(result.unwrap_err(), Status::WrongType);
    assert_eq!((sent[0].result, sent[1].result), (Ok(()), Err(Status::WrongType)));
    assert!(is_orphan(&moved_peer), "consumed even so");
    assert_eq!(far.read().unwrap_err(), Status::ShouldWait);
}

pub(crate) fn several_callers_each_get_their_own_answer(over: Transport) {
    const CALLERS: u8 = 8;
    let (near, far) = over.channels();
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|n| {
                let near = &near;
                scope.spawn(move || {
                    let message = [0, 0, 0, 0, n];
                    let answer = near.call(&[IoSlice::new(&message)], vec![], Deadline::INFINITE);
                    assert_eq!(answer.unwrap()[4], n);
                })
            })
            .collect();
        let mut requests = Vec::new();
        while requests.len() < usize::from(CALLERS) {
            far.wait_one(Signals::READABLE, Deadline::after(LONG)).unwrap();
            requests.push(far.read().unwrap());
        }
        for request in requests.iter().rev() {
            send(&far, request).unwrap();
        }
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
}

pub(crate) fn a_deadline_in_the_past_still_sends_and_a_late_answer_is_queued(over: Transport) {
    let (near, far) = over.channels();
    let result = near.call(&[IoSlice::new(b"0000late")], vec![], past());
    assert_eq!(result.unwrap_err(), Status::TimedOut);
    let txid = answer(&far, b"too late");
    let queued = near.read().unwrap();
    assert_eq!((&queued[..4], &queued[4..]), (&txid[..], &b"too late"[..]));
}

/// Both ends counted from the same number: over a socket the request of one was the answer to the other.
pub(crate) fn a_request_of_the_other_end_is_no_answer_to_a_later_call(over: Transport) {
    let (near, far) = over.channels();
    let call = |from: &Channel, body| from.call(&[IoSlice::new(body)], vec![], past());
    for _ in 0..3 {
        assert_eq!(call(&far, b"0000of far").unwrap_err(), Status::TimedOut);
        assert_eq!(call(&near, b"0000of near").unwrap_err(), Status::TimedOut);
        assert_eq!(&near.read().unwrap()[4..], b"of far");
        assert_eq!(&far.read().unwrap()[4..], b"of near");
    }
}

/// An end that arrived counted from the beginning: the late answer to a call from before was that to its first call.
pub(crate) fn an_end_that_moved_gives_no_transaction_id_again(over: Transport) {
    let id = |near: &Channel, far: &Channel| {
        near.call(&[IoSlice::new(b"0000")], vec![], past()).unwrap_err();
        u32::from_ne_bytes(*far.read().unwrap().first_chunk().unwrap())
    };
    let (near, far) = over.channels();
    let first = id(&near, &far);
    let near = carried(near);
    let second = id(&near, &far);
    assert_eq!(second, first.wrapping_add(1) | 1 << 31);
    let near = moved(near);
    assert!(![first, second].contains(&id(&near, &far)));
}

pub(crate) fn a_call_checks_in_zircons_order(over: Transport) {
    let large = vec![0; 65_537];
    for (rights, bytes, open, expected) in [
        (Rights::CHANNEL - Rights::READ, 65_537, false, Status::AccessDenied),
        (Rights::CHANNEL - Rights::WRITE, 65_537, false, Status::AccessDenied),
        (Rights::CHANNEL, 65_537, false, Status::OutOfRange),
        (Rights::CHANNEL, 3, false, Status::InvalidArgs),
        (Rights::CHANNEL, 4, false, Status::PeerClosed),
        (Rights::CHANNEL, 4, true, Status::TimedOut),
    ] {
        let (near, far) = over.channels();
        let near = near.replace(Some(rights)).unwrap();
        let far = open.then_some(far);
        let (witness, moved) = EventPair::pair();
        let result = near.call(&[IoSlice::new(&large[..bytes])], vec![moved.into()], past());
        assert_eq!(result.unwrap_err(), expected);
        assert_eq!(is_orphan(&witness), !open, "{expected}: consumed, unless it went");
        drop(far);
    }
}

pub(crate) fn a_call_checks_the_size_before_the_handles(over: Transport) {
    let (near, _far) = over.channels();
    let stuck = EventPair::pair().0.replace(Some(Rights::WAIT)).unwrap();
    let result = near.call(&[IoSlice::new(b"abc")], vec![stuck.into()], past());
    assert_eq!(result.unwrap_err(), Status::InvalidArgs);
}

pub(crate) fn a_closed_peer_and_a_revoked_handle_end_a_call(over: Transport) {
    for (close_peer, expected) in [(true, Status::PeerClosed), (false, Status::Canceled)] {
        let (near, far) = over.channels();
        std::thread::scope(|scope| {
            let caller =
                scope.spawn(|| near.call(&[IoSlice::new(b"0000")], vec![], Deadline::INFINITE));
            far.wait_one(Signals::READABLE, Deadline::after(LONG)).unwrap();
            if close_peer {
                drop(far);
            } else {
                near.revoke();
            }
            assert_eq!(caller.join().unwrap().unwrap_err(), expected);
        });
    }
}

pub(crate) fn only_ids_with_the_high_bit_of_a_waiting_call_are_answers(over: Transport) {
    let (near, far) = over.channels();
    std::thread::scope(|scope| {
        let caller =
            scope.spawn(|| near.call(&[IoSlice::new(b"0000")], vec![], Deadline::INFINITE));
        far.wait_one(Signals::READABLE, Deadline::after(LONG)).unwrap();
        let request = far.read().unwrap();
        for other in [&b"\0\0\0\0"[..], b"abc", b"", &[0xff; 8]] {
            send(&far, other).unwrap();
            near.wait_one(Signals::READABLE, Deadline::after(LONG)).unwrap();
            assert_eq!(&*near.read().unwrap(), other);
        }
        send(&far, &request).unwrap();
        assert_eq!(&*caller.join().unwrap().unwrap(), &*request);
    });
}

/// Writes messages of one byte at `channel` until the queue and the socket before it are full; returns
/// how many.
fn fill(channel: &Channel, other: &Channel) -> usize {
    let mut written = 0;
    loop {
        match channel.write(&[IoSlice::new(b"m")], vec![]) {
            Ok(()) => written += 1,
            Err(Status::ShouldWait) if channel.signals().contains(Signals::WRITABLE) => {}
            Err(Status::ShouldWait) => {
                other.signals();
                if !channel.signals().contains(Signals::WRITABLE) {
                    return written;
                }
            }
            Err(status) => panic!("{status}"),
        }
    }
}

pub(crate) fn an_answer_arrives_while_the_queue_is_full(over: Transport) {
    let (near, far) = over.channels();
    let unread = fill(&far, &near);
    assert!(unread >= 4096);
    std::thread::scope(|scope| {
        let caller =
            scope.spawn(|| near.call(&[IoSlice::new(b"0000")], vec![], Deadline::after(LONG)));
        far.wait_one(Signals::READABLE, Deadline::after(LONG)).unwrap();
        let question = far.read().unwrap();
        let answer = [&question[..4], b"answer"].concat();
        while far.write(&[IoSlice::new(&answer)], vec![]) == Err(Status::ShouldWait) {
            far.wait_one(Signals::WRITABLE, Deadline::after(LONG)).unwrap();
        }
        assert_eq!(&caller.join().unwrap().unwrap()[4..], b"answer");
    });
    for _ in 0..unread {
        assert_eq!(*near.read().unwrap(), *b"m");
    }
    assert_eq!(near.read().unwrap_err(), Status::ShouldWait);
    far.write(&[IoSlice::new(b"later")], vec![]).unwrap();
    assert_eq!(*near.read().unwrap(), *b"later");
}
