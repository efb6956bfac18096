//! Payloads: bytes of any length, and what their receipts say.

use std::io::IoSlice;

use uncopy::Cost;
use uncopy::channel::{
    Channel, Deadline, MAX_BYTES, MemoryRefusal, PayloadChannel, PayloadOptions, PayloadReason,
    PayloadReceipt, PayloadWay, Status, Vmo,
};

use crate::channel::{past, send, send_handles, socket_pair};

const LONG: Deadline = Deadline::INFINITE;
/// Bytes of a header.
const HEADER: usize = 32;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

/// Returns both ends, and whether a socket is between them.
fn pairs() -> [(PayloadChannel, PayloadChannel, bool); 2] {
    let ends =
        |(near, far), is_wired| (PayloadChannel::new(near), PayloadChannel::new(far), is_wired);
    [ends(Channel::pair(), false), ends(socket_pair(), true)]
}

fn said(receipt: PayloadReceipt) -> (PayloadWay, Cost, PayloadReason) {
    (receipt.way, receipt.cost, receipt.reason)
}

#[test]
fn short_payloads_are_messages_and_long_ones_are_cut() {
    for (mut near, mut far, is_wired) in pairs() {
        let edge = MAX_BYTES - HEADER;
        for length in [0, 1, edge, edge + 1, edge + MAX_BYTES, edge + MAX_BYTES + 1, 3 << 20] {
            let bytes = pattern(length);
            std::thread::scope(|scope| {
                let sent = scope.spawn(|| near.send(&bytes, LONG).unwrap());
                let payload = far.receive(LONG).unwrap();
                assert!(payload.bytes() == bytes, "{length}");
                assert_eq!((payload.len(), payload.is_empty()), (length, length == 0));
                assert!(payload.pieces().collect::<Vec<_>>().concat() == bytes);
                let (way, reason) = match length <= edge {
                    true => (PayloadWay::Message, PayloadReason::Short),
                    false => (PayloadWay::Messages, PayloadReason::Cut),
                };
                let [paid, got] = match is_wired {
                    true => [Cost::KernelCopied; 2],
                    false => [Cost::UserCopied, Cost::Shared],
                };
                let sent = sent.join().unwrap();
                assert_eq!((said(sent), sent.bytes), ((way, paid, reason), length as u64));
                assert_eq!(said(payload.receipt()), (way, got, reason));
            });
        }
    }
}

#[test]
fn regions_are_sent_from_where_they_lie() {
    // Few and long, and more than go into a message or two.
    for (length, region) in [(200_000, 70_001), (20_000, 1), (8191, 1), (8192, 1), (100_000, 3)] {
        for (mut near, mut far, _) in pairs() {
            let bytes = pattern(length);
            let regions: Vec<_> = bytes.chunks(region).map(IoSlice::new).collect();
            std::thread::scope(|scope| {
                scope.spawn(|| near.send_regions(&regions, LONG).unwrap());
                assert!(far.receive(LONG).unwrap().bytes() == bytes, "{length} in {region}");
            });
        }
    }
}

#[test]
fn sealed_memory_is_shared_and_forwarded() {
    for (mut near, mut far, _) in pairs() {
        let memory = Vmo::new(100_000).unwrap();
        memory.write(&pattern(100_000), 0).unwrap();
        let unsealed = near.send_memory(&memory, 100_000, LONG).unwrap_err();
        assert_eq!(unsealed, MemoryRefusal::NotSealed.into());
        memory.seal().unwrap();
        assert_eq!(near.send_memory(&memory, 1 << 20, LONG).unwrap_err(), Status::OutOfRange);
        let shared = (PayloadWay::Memory, Cost::Shared, PayloadReason::Sealed);
        assert_eq!(said(near.send_memory(&memory, 100_000, LONG).unwrap()), shared);
        let payload = far.receive(LONG).unwrap();
        assert_eq!(said(payload.receipt()), shared);
        let (mut next, mut last, _) = pairs().into_iter().next_back().unwrap();
        assert_eq!(said(next.forward(&payload, LONG).unwrap()), shared);
        drop((payload, memory));
        assert!(last.receive(LONG).unwrap().bytes() == pattern(100_000));
        // A message is sent as bytes.
        near.send(b"short", LONG).unwrap();
        next.forward(&far.receive(LONG).unwrap(), LONG).unwrap();
        assert_eq!(last.receive(LONG).unwrap().bytes(), b"short");
    }
}

#[test]
fn long_payloads_become_memory_if_the_options_ask_for_it() {
    for (near, far) in [Channel::pair(), socket_pair()] {
        let options = PayloadOptions::new().memory_from(Some(100_000));
        let mut near = PayloadChannel::with_options(near, options);
        let mut far = PayloadChannel::new(far);
        for (length, way) in [(99_999, PayloadWay::Messages), (100_000, PayloadWay::Memory)] {
            let sent = near.send(&pattern(length), LONG).unwrap();
            assert_eq!(sent.way, way);
            let payload = far.receive(LONG).unwrap();
            assert!(payload.bytes() == pattern(length));
            assert_eq!(payload.memory().is_some(), way == PayloadWay::Memory);
            if way == PayloadWay::Memory {
                assert_eq!((sent.cost, sent.reason), (Cost::KernelCopied, PayloadReason::Stored));
            }
        }
    }
}

#[test]
fn a_pool_is_used_again() {
    for is_trusted in [false, true] {
        for (mut near, mut far, _) in pairs() {
            assert_eq!(near.draft(1).map(drop), Err(Status::BadState));
            near.share_pool(2, 100_000, LONG).unwrap();
            assert_eq!(near.share_pool(2, 100_000, LONG), Err(Status::BadState));
            if is_trusted {
                far.trust_peer(testbed::trusted_peer());
            }
            for round in 0..5u8 {
                let mut draft = near.draft(100_000).unwrap();
                draft.fill(round);
                let sent = near.send_draft(draft, LONG).unwrap();
                let in_place = (PayloadWay::Pool, Cost::Shared, PayloadReason::InPlace);
                assert_eq!(said(sent), in_place);
                let sent = near.send(&vec![round + 100; 70_000], LONG).unwrap();
                let copied_in = (PayloadWay::Pool, Cost::UserCopied, PayloadReason::CopiedIn);
                assert_eq!(said(sent), copied_in);
                // Both slots are taken, so that the next payload is cut.
                assert_eq!(near.draft(1).map(drop), Err(Status::ShouldWait));
                let sent = near.send(&vec![round + 200; 70_000], LONG).unwrap();
                assert_eq!(sent.way, PayloadWay::Messages);
                let payloads = [(); 3].map(|()| far.receive(LONG).unwrap());
                for (payload, (value, length)) in payloads.iter().zip([
                    (round, 100_000),
                    (round + 100, 70_000),
                    (round + 200, 70_000),
                ]) {
                    assert_eq!(payload.len(), length);
                    assert!(payload.bytes().iter().all(|byte| *byte == value));
                }
                let expected = match is_trusted {
                    true => in_place,
                    false => (PayloadWay::Pool, Cost::KernelCopied, PayloadReason::CopiedOut),
                };
                assert_eq!(said(payloads[0].receipt()), expected);
            }
            let drafts = [near.draft(1).unwrap(), near.draft(1).unwrap()];
            assert_eq!(near.draft(1).map(drop), Err(Status::ShouldWait));
            drop(drafts);
            assert_eq!(near.draft(200_000).map(drop), Err(Status::OutOfRange));
            assert_eq!(
                far.send_draft(near.draft(1).unwrap(), LONG).unwrap_err(),
                Status::InvalidArgs
            );
        }
    }
}

#[test]
fn payloads_above_the_limit_are_refused_alone() {
    for (near, far) in [Channel::pair(), socket_pair()] {
        let mut near = PayloadChannel::new(near);
        let options = PayloadOptions::new().max_bytes(100_000);
        let mut far = PayloadChannel::with_options(far, options);
        let memory = Vmo::new(200_000).unwrap();
        memory.seal().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                near.send(&pattern(300_000), LONG).unwrap();
                near.send_memory(&memory, 200_000, LONG).unwrap();
                near.send(&pattern(100_000), LONG).unwrap();
            });
            for bytes in [300_000, memory.size()] {
                let refusal = MemoryRefusal::TooLarge { bytes, limit: 100_000 };
                assert_eq!(far.receive(LONG).unwrap_err(), refusal.into());
            }
            assert!(far.receive(LONG).unwrap().bytes() == pattern(100_000));
        });
    }
}

#[test]
fn a_deadline_while_receiving_loses_nothing() {
    let (near, far) = socket_pair();
    let mut far = PayloadChannel::new(far);
    let mut first = [0; HEADER];
    first[..4].copy_from_slice(&0xc1_70_61_79_u32.to_ne_bytes());
    first[8..16].copy_from_slice(&10_u64.to_ne_bytes());
    send(&near, &first[..]).unwrap();
    // A header alone, then two pieces: none is whole.
    assert_eq!(far.receive(past()).unwrap_err(), Status::BadState);
    let (near, far) = socket_pair();
    let mut far = PayloadChannel::new(far);
    send(&near, &[&first[..], b"five5"].concat()).unwrap();
    assert_eq!(far.receive(past()).unwrap_err(), Status::TimedOut);
    send(&near, b"other").unwrap();
    assert_eq!(far.receive(LONG).unwrap().bytes(), b"five5other");
}

/// Each of these ends the payloads, and none of them the process.
#[test]
fn a_peer_that_breaks_the_rules_of_payloads_makes_the_end_unusable() {
    let header = |kind: u32, a: u64, b: u64| {
        let words = [0xc1_70_61_79_u32.to_ne_bytes(), kind.to_ne_bytes()].concat();
        [&words[..], &a.to_ne_bytes(), &b.to_ne_bytes(), &[0; 8]].concat()
    };
    let vmo = || Vmo::new(4096).unwrap();
    let sealed = || {
        let memory = vmo();
        memory.seal().unwrap();
        memory
    };
    for (what, message, handles, expected) in [
        ("no header", b"hello".to_vec(), vec![], Status::BadState),
        ("an unknown kind", header(9, 0, 0), vec![], Status::BadState),
        (
            "bytes beyond the length",
            [header(0, 1, 0), vec![1; 2]].concat(),
            vec![],
            Status::BadState,
        ),
        ("bytes with a handle", header(0, 0, 0), vec![vmo().into()], Status::BadState),
        ("memory without a handle", header(1, 1, 0), vec![], Status::BadState),
        ("memory beyond its end", header(1, 4097, 0), vec![sealed().into()], Status::BadState),
        ("a slot without a pool", header(2, 1, 0), vec![], Status::BadState),
        ("a pool of one handle", header(3, 1, 4096), vec![vmo().into()], Status::BadState),
        (
            "a pool of more than the limit",
            header(3, 1024, 1 << 20),
            vec![vmo().into(), vmo().into()],
            MemoryRefusal::TooLarge { bytes: 1 << 30, limit: 256 << 20 }.into(),
        ),
        (
            "a pool that is not allocated",
            header(3, 1, 4096),
            vec![vmo().into(), vmo().into()],
            MemoryRefusal::HasHoles { bytes: 4096, allocated: 0 }.into(),
        ),
        (
            "a pool of odd slots",
            header(3, 1, 100),
            vec![vmo().into(), vmo().into()],
            Status::OutOfRange,
        ),
    ] {
        let (near, far) = socket_pair();
        let mut far = PayloadChannel::new(far);
        if handles.is_empty() {
            send(&near, &message).unwrap();
        } else {
            near.write(&[IoSlice::new(&message)], handles).unwrap();
        }
        assert_eq!(far.receive(LONG).unwrap_err(), expected, "{what}");
        send_handles(&near, vec![]).unwrap();
        assert_eq!(far.receive(LONG).unwrap_err(), Status::BadState, "{what}");
        assert_eq!(far.send(b"x", LONG).unwrap_err(), Status::BadState, "{what}");
    }
}

/// Slots beyond the pool, and lengths beyond a slot.
#[test]
fn slots_of_a_pool_are_checked() {
    for (slot, length, is_good) in [(0, 4096, true), (1, 4096, false), (0, 4097, false)] {
        for is_trusted in [false, true] {
            let (near, far) = socket_pair();
            let mut near = PayloadChannel::new(near);
            let mut far = PayloadChannel::new(far);
            near.share_pool(1, 4096, LONG).unwrap();
            if is_trusted {
                far.trust_peer(testbed::trusted_peer());
            }
            let mut message = [0; HEADER];
            message[..4].copy_from_slice(&0xc1_70_61_79_u32.to_ne_bytes());
            message[4..8].copy_from_slice(&2_u32.to_ne_bytes());
            message[8..16].copy_from_slice(&u64::to_ne_bytes(length));
            message[16..24].copy_from_slice(&u64::to_ne_bytes(slot));
            send(near.channel(), &message).unwrap();
            let received = far.receive(LONG).map(|payload| payload.len() as u64);
            assert_eq!(received, if is_good { Ok(length) } else { Err(Status::BadState) });
        }
    }
}
