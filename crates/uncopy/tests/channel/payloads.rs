//! Payloads: bytes of any length, and what their receipts say.

use std::io::{IoSlice, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Mutex;
use std::time::Duration;

use uncopy::Cost;
use uncopy::channel::{
    Channel, Deadline, Descriptor, Handle, MAX_BYTES, MemoryRefusal, Object, PayloadChannel,
    PayloadOptions, PayloadReason, PayloadReceipt, PayloadWay, Signals, Status, Vmo,
};

use crate::channel::{past, send, send_handles, socket_pair};

const LONG: Deadline = Deadline::INFINITE;
/// Length from which on payloads go over a stream.
const LONG_BYTES: usize = MAX_BYTES + 4096;
/// Bytes of a header.
const HEADER: usize = 32;
/// Maximum number of bytes behind a header.
const EDGE: usize = MAX_BYTES - 64;

/// Whether a payload of this length is one message, with a header or as a full message without one.
fn is_one_message(length: usize) -> bool {
    length <= EDGE || length == MAX_BYTES
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

/// An end whose long payloads go over a stream.
fn streaming(channel: Channel) -> PayloadChannel {
    PayloadChannel::with_options(channel, PayloadOptions::new().stream_from(Some(LONG_BYTES)))
}

/// Returns both ends, and whether a socket is between them.
fn pairs() -> [(PayloadChannel, PayloadChannel, bool); 2] {
    let ends = |(near, far), is_wired| (streaming(near), streaming(far), is_wired);
    [ends(Channel::pair(), false), ends(socket_pair(), true)]
}

/// Returns both ends of a channel with a socket, the first of which sends long payloads over a stream.
fn with_stream() -> (PayloadChannel, PayloadChannel) {
    let [_, (mut near, mut far, _)] = pairs();
    std::thread::scope(|scope| {
        scope.spawn(|| near.send(&pattern(LONG_BYTES), LONG).unwrap());
        assert!(far.receive(LONG).unwrap().bytes() == pattern(LONG_BYTES));
    });
    (near, far)
}

fn header(kind: u32, a: u64) -> Vec<u8> {
    let words = [0xc2_70_61_79_u32.to_ne_bytes(), kind.to_ne_bytes()].concat();
    [&words[..], &a.to_ne_bytes(), &[0; 16]].concat()
}

/// A peer that makes what it sends by hand, its end of the stream, and the end that it attacks.
fn hostile_sender() -> (Channel, UnixStream, PayloadChannel) {
    let (near, far) = socket_pair();
    let mut far = streaming(far);
    std::thread::scope(|scope| {
        let received = scope.spawn(|| far.receive(LONG).unwrap().len());
        send(&near, &[header(0, LONG_BYTES as u64), vec![1; EDGE]].concat()).unwrap();
        for piece in [1; LONG_BYTES - EDGE].chunks(MAX_BYTES) {
            send(&near, piece).unwrap();
        }
        assert_eq!(received.join().unwrap(), LONG_BYTES);
    });
    let [Handle::Descriptor(offered)] =
        <[_; 1]>::try_from(near.read().unwrap().take_handles()).unwrap()
    else {
        panic!("no stream was offered");
    };
    let stream = UnixStream::from(OwnedFd::from(offered));
    stream.set_nonblocking(false).unwrap();
    (near, stream, far)
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_millis(50))
}

#[test]
fn long_payloads_go_over_a_stream_among_others() {
    let (mut near, mut far) = with_stream();
    let over_stream = (PayloadWay::Stream, Cost::KernelCopied, PayloadReason::Long);
    let lengths = [LONG_BYTES, 3, 5 << 20, 0, LONG_BYTES + 1, 60_000, LONG_BYTES];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for length in lengths {
                let bytes = pattern(length);
                // Regions of all lengths, more than one call takes.
                let regions: Vec<_> = bytes.chunks(1 + length / 3000).map(IoSlice::new).collect();
                let sent = near.send_regions(&regions, LONG).unwrap();
                assert_eq!(said(sent) == over_stream, length >= LONG_BYTES, "{length}");
            }
            near
        });
        let kept: Vec<_> = lengths.map(|_| far.receive(LONG).unwrap()).into();
        for (payload, length) in kept.iter().zip(lengths) {
            assert!(payload.bytes() == pattern(length), "{length}");
            assert_eq!(said(payload.receipt()) == over_stream, length >= LONG_BYTES);
            assert_eq!(payload.pieces().count(), usize::from(length > 0));
        }
    });
}

#[test]
fn payloads_of_two_threads_are_whole() {
    let (near, mut far) = with_stream();
    let near = Mutex::new(near);
    std::thread::scope(|scope| {
        for value in [1u8, 2] {
            let near = &near;
            scope.spawn(move || {
                for length in [LONG_BYTES, 10, 200_000] {
                    near.lock().unwrap().send(&vec![value; length], LONG).unwrap();
                }
            });
        }
        let mut counts = [0; 3];
        for _ in 0..6 {
            let payload = far.receive(LONG).unwrap();
            let value = payload.bytes()[0];
            assert!(payload.bytes().iter().all(|byte| *byte == value));
            counts[usize::from(value)] += payload.len();
        }
        assert_eq!(counts, [0, LONG_BYTES + 200_010, LONG_BYTES + 200_010]);
    });
}

/// It is received in parts, none of which is lost by a deadline.
#[test]
fn a_deadline_in_the_middle_of_a_stream_loses_nothing() {
    let (near, mut stream, mut far) = hostile_sender();
    let bytes = pattern(LONG_BYTES);
    send(&near, &header(5, bytes.len() as u64)).unwrap();
    for part in bytes.chunks(10_000) {
        assert_eq!(far.receive(past()).unwrap_err(), Status::TimedOut);
        assert!(far.is_receiving());
        stream.write_all(part).unwrap();
    }
    assert!(far.receive(past()).unwrap().bytes() == bytes);
    assert!(!far.is_receiving());
}

#[test]
fn a_sender_that_stalls_or_is_gone_ends_its_payload_alone() {
    // It keeps both open, closes the stream alone, the channel alone, and both.
    for (keeps_channel, keeps_stream, expected) in [
        (true, true, Status::TimedOut),
        (true, false, Status::PeerClosed),
        (false, true, Status::PeerClosed),
        (false, false, Status::PeerClosed),
    ] {
        let (near, mut stream, mut far) = hostile_sender();
        send(&near, &header(5, 1 << 20)).unwrap();
        stream.write_all(&[1; 1000]).unwrap();
        let _near = keeps_channel.then_some(near);
        let _stream = keeps_stream.then_some(stream);
        let deadline = if keeps_channel && keeps_stream { soon() } else { LONG };
        assert_eq!(far.receive(deadline).unwrap_err(), expected);
    }
}

/// Everything that it sent before it closed is received.
#[test]
fn a_stream_is_read_to_its_end_after_the_sender_is_gone() {
    let (near, mut stream, mut far) = hostile_sender();
    send(&near, &header(5, 100_000)).unwrap();
    stream.write_all(&pattern(100_000)).unwrap();
    drop((near, stream));
    assert!(far.receive(LONG).unwrap().bytes() == pattern(100_000));
    assert_eq!(far.receive(LONG).unwrap_err(), Status::PeerClosed);
}

/// More and less than the announced bytes, and bytes without an announcement, are bytes of its own payloads.
#[test]
fn a_sender_that_lies_about_a_length_changes_only_its_own_payloads() {
    let (near, mut stream, mut far) = hostile_sender();
    stream.write_all(b"unannounced").unwrap();
    send(&near, &[header(0, 5), b"other".to_vec()].concat()).unwrap();
    assert_eq!(far.receive(LONG).unwrap().bytes(), b"other");
    assert_eq!(far.receive(past()).unwrap_err(), Status::TimedOut);
    for announced in [2, 9] {
        send(&near, &header(5, announced)).unwrap();
        assert_eq!(far.receive(LONG).unwrap().len() as u64, announced);
    }
    send(&near, &header(5, 1)).unwrap();
    assert_eq!(far.receive(soon()).unwrap_err(), Status::TimedOut);
}

#[test]
fn a_streamed_payload_above_the_limit_is_refused_alone() {
    let (near, mut stream, mut far) = hostile_sender();
    let bytes = (256 << 20) + 1;
    send(&near, &header(5, bytes)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let zeroes = vec![0; 1 << 20];
            let mut left = bytes as usize;
            while left > 0 {
                left -= stream.write(&zeroes[..left.min(zeroes.len())]).unwrap();
            }
            send(&near, &[header(0, 5), b"other".to_vec()].concat()).unwrap();
            near
        });
        // It could go on forever, also past the deadline.
        assert_eq!(far.receive(past()).unwrap_err(), Status::TimedOut);
        let refusal = MemoryRefusal::TooLarge { bytes, limit: 256 << 20 };
        assert_eq!(far.receive(LONG).unwrap_err(), refusal.into());
        assert_eq!(far.receive(LONG).unwrap().bytes(), b"other");
    });
}

#[test]
fn announcements_cost_no_memory() {
    let (near, _stream, mut far) = hostile_sender();
    let resident = || {
        let fields = std::fs::read_to_string("/proc/self/statm").unwrap();
        fields.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let before = resident();
    send(&near, &header(5, 256 << 20)).unwrap();
    assert_eq!(far.receive(soon()).unwrap_err(), Status::TimedOut);
    assert!(resident() < before + (128 << 20), "{before}, {}", resident());
}

#[test]
fn a_receiver_that_stalls_or_is_gone_makes_the_sender_unusable() {
    for (is_kept, expected) in [(true, Status::TimedOut), (false, Status::PeerClosed)] {
        let (mut near, far) = with_stream();
        std::thread::scope(|scope| {
            let sent = scope.spawn(move || {
                let deadline = if is_kept { soon() } else { LONG };
                (near.send(&vec![1; 8 << 20], deadline).unwrap_err(), near)
            });
            // Begun, and not read.
            far.channel().wait_one(Signals::READABLE, LONG).unwrap();
            let kept = is_kept.then_some(far);
            let (status, mut near) = sent.join().unwrap();
            assert_eq!(status, expected);
            assert_eq!(near.send(b"x", LONG).unwrap_err(), Status::BadState);
            // The stream has ended.
            if let Some(mut far) = kept {
                assert_eq!(far.receive(LONG).unwrap_err(), Status::PeerClosed);
                assert_eq!(far.receive(LONG).unwrap_err(), Status::BadState);
            }
        });
    }
}

#[test]
fn an_offered_stream_is_the_end_of_a_pair() {
    let folder = tempfile::tempdir().unwrap();
    let _service = UnixListener::bind(folder.path().join("socket")).unwrap();
    let connected = UnixStream::connect(folder.path().join("socket")).unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let (pair, _other) = UnixStream::pair().unwrap();
    for (fd, is_good) in
        [(OwnedFd::from(connected), false), (OwnedFd::from(file), false), (pair.into(), true)]
    {
        let (near, far) = socket_pair();
        let mut far = streaming(far);
        near.write(&[IoSlice::new(&header(4, 0))], vec![Descriptor::from(fd).into()]).unwrap();
        // By the end that sends, and by one that receives.
        let expected = if is_good { Status::TimedOut } else { Status::BadState };
        let sent = far.send(&pattern(8 << 20), soon());
        let received = far.receive(soon()).map(|_| ()).unwrap_err();
        if is_good {
            assert_eq!(sent.unwrap_err(), expected);
        } else {
            assert_eq!((sent.unwrap_err(), received), (expected, expected));
        }
    }
}

/// Two ends that both send long payloads do not hang.
#[test]
fn both_ends_may_send_at_once_until_their_deadlines() {
    let (mut near, mut far) = with_stream();
    std::thread::scope(|scope| {
        scope.spawn(|| far.send(&pattern(32 << 20), soon()).unwrap_err());
        assert_eq!(near.send(&pattern(32 << 20), soon()).unwrap_err(), Status::TimedOut);
    });
}

fn said(receipt: PayloadReceipt) -> (PayloadWay, Cost, PayloadReason) {
    (receipt.way, receipt.cost, receipt.reason)
}

#[test]
fn short_payloads_are_messages_and_long_ones_are_cut() {
    let around_a_message = [EDGE, EDGE + 1, MAX_BYTES - 1, MAX_BYTES, MAX_BYTES + 1];
    let longer = [LONG_BYTES - 1, LONG_BYTES, EDGE + MAX_BYTES, EDGE + MAX_BYTES + 1, 3 << 20];
    for length in [0, 1].into_iter().chain(around_a_message).chain(longer) {
        for (mut near, mut far, is_wired) in pairs() {
            let bytes = pattern(length);
            std::thread::scope(|scope| {
                let sent = scope.spawn(|| near.send(&bytes, LONG).unwrap());
                let payload = far.receive(LONG).unwrap();
                assert!(payload.bytes() == bytes, "{length}");
                assert_eq!((payload.len(), payload.is_empty()), (length, length == 0));
                assert!(payload.pieces().collect::<Vec<_>>().concat() == bytes);
                let (way, reason) = match length {
                    _ if is_one_message(length) => (PayloadWay::Message, PayloadReason::Short),
                    // The peer offers a stream when the first long one comes.
                    LONG_BYTES.. if is_wired => (PayloadWay::Messages, PayloadReason::NoStream),
                    _ => (PayloadWay::Messages, PayloadReason::Cut),
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
    let few = [(200_000, 70_001), (MAX_BYTES, 8), (MAX_BYTES, 30_001)];
    let many = [(20_000, 1), (8191, 1), (8192, 1), (100_000, 3), (MAX_BYTES, 7)];
    for (length, region) in few.into_iter().chain(many) {
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
        let mut far = streaming(far);
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
fn payloads_go_over_a_stream_from_the_length_that_both_ends_ask_for() {
    assert_eq!(PayloadOptions::default().stream_from, None);
    const BORDER: usize = 300_000;
    for (sending, receiving) in [
        (None, None),
        (None, Some(0)),
        (Some(0), None),
        (Some(BORDER), Some(BORDER)),
        (Some(0), Some(0)),
    ] {
        let (near, far) = socket_pair();
        let with =
            |end, from| PayloadChannel::with_options(end, PayloadOptions::new().stream_from(from));
        let (mut near, mut far) = (with(near, sending), with(far, receiving));
        let lengths = [100, EDGE, EDGE + 1, MAX_BYTES, BORDER - 1, BORDER];
        for length in lengths.into_iter().chain(lengths.into_iter().rev()) {
            let way = std::thread::scope(|scope| {
                let received = scope.spawn(|| far.receive(LONG).unwrap());
                let sent = near.send(&pattern(length), LONG).unwrap();
                let payload = received.join().unwrap();
                assert!(payload.bytes() == pattern(length));
                assert_eq!(payload.receipt().way, sent.way);
                sent.way
            });
            let is_streamed = way == PayloadWay::Stream;
            assert_eq!(way == PayloadWay::Message, is_one_message(length));
            let shortest = sending.zip(receiving).map(|(a, b)| a.max(b).max(EDGE + 1));
            assert!(!is_streamed || shortest.is_some_and(|from| length >= from), "{length}");
        }
        let sent = std::thread::scope(|scope| {
            let received = scope.spawn(|| drop(far.receive(LONG).unwrap()));
            let sent = near.send(&pattern(BORDER), LONG).unwrap();
            received.join().unwrap();
            sent
        });
        let expected = if sending.is_some() && receiving.is_some() {
            PayloadWay::Stream
        } else {
            PayloadWay::Messages
        };
        assert_eq!(sent.way, expected, "{sending:?} {receiving:?}");
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
                // Both slots are taken, so that the next payload goes another way.
                assert_eq!(near.draft(1).map(drop), Err(Status::ShouldWait));
                let sent = near.send(&vec![round + 200; 70_000], LONG).unwrap();
                assert!(matches!(sent.way, PayloadWay::Messages | PayloadWay::Stream));
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
        let mut near = streaming(near);
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

/// Its bytes are those of the program, and a header that they begin with is none.
#[test]
fn a_full_message_is_a_payload_whatever_it_begins_with() {
    for kind in 0..6 {
        for (mut near, mut far, _) in pairs() {
            let full = [header(kind, 1), pattern(MAX_BYTES - HEADER)].concat();
            near.send(&full, LONG).unwrap();
            // Looks for an offered stream among what has come.
            far.send(&pattern(LONG_BYTES), LONG).unwrap();
            let payload = far.receive(LONG).unwrap();
            assert!(payload.bytes() == full, "{kind}");
            assert_eq!((payload.pieces().count(), payload.receipt().way), (1, PayloadWay::Message));
            assert!(near.receive(LONG).unwrap().bytes() == pattern(LONG_BYTES));
        }
    }
}

#[test]
fn a_full_message_above_the_limit_is_refused_alone() {
    for (near, far) in [Channel::pair(), socket_pair()] {
        let limit = MAX_BYTES as u64 - 1;
        let options = PayloadOptions::new().max_bytes(limit);
        let (mut near, mut far) = (streaming(near), PayloadChannel::with_options(far, options));
        near.send(&pattern(MAX_BYTES), LONG).unwrap();
        near.send(b"short", LONG).unwrap();
        let refusal = MemoryRefusal::TooLarge { bytes: MAX_BYTES as u64, limit };
        assert_eq!(far.receive(LONG).unwrap_err(), refusal.into());
        assert_eq!(far.receive(LONG).unwrap().bytes(), b"short");
    }
}

#[test]
fn a_deadline_while_receiving_loses_nothing() {
    let (near, far) = socket_pair();
    let mut far = streaming(far);
    // A header alone, then two pieces: none is whole.
    send(&near, &header(0, 20_000)).unwrap();
    assert_eq!(far.receive(past()).unwrap_err(), Status::BadState);
    let (near, far) = socket_pair();
    let mut far = streaming(far);
    let bytes = pattern(20_000);
    send(&near, &[&header(0, 20_000), &bytes[..10_000]].concat()).unwrap();
    assert_eq!(far.receive(past()).unwrap_err(), Status::TimedOut);
    send(&near, &bytes[10_000..]).unwrap();
    assert!(far.receive(LONG).unwrap().bytes() == bytes);
}

/// A peer that never stops would keep the receiver past its deadline.
#[test]
fn receiving_ends_after_the_deadline_whatever_comes() {
    let (near, far) = Channel::pair();
    let mut far = streaming(far);
    let bytes = pattern(400 * 8192);
    for (number, piece) in bytes.chunks(8192).enumerate() {
        let begin = if number == 0 { header(0, bytes.len() as u64) } else { vec![] };
        send(&near, &[&begin, piece].concat()).unwrap();
    }
    assert_eq!(far.receive(past()).unwrap_err(), Status::TimedOut);
    assert!(far.is_receiving());
    assert!(far.receive(past()).unwrap().bytes() == bytes);
}

/// Each message costs the receiver some 240 bytes, however short it is.
#[test]
fn a_payload_in_tiny_messages_is_refused() {
    for (first, second, third, is_good) in [
        (8191, 8191, 1, true),
        (8190, 8191, 1, false),
        (8191, 8190, 1, false),
        (1, 1, 1, false),
        (0, 8191, 8191, false),
    ] {
        let (near, far) = socket_pair();
        let mut far = streaming(far);
        let length = first + second + third;
        let begin = [header(0, length as u64), pattern(first)].concat();
        for message in [begin, pattern(second), pattern(third)] {
            send(&near, &message).unwrap();
        }
        let received = far.receive(LONG);
        assert_eq!(received.map(|payload| payload.len()).ok(), is_good.then_some(length));
        let after = if is_good { Status::TimedOut } else { Status::BadState };
        assert_eq!(far.receive(past()).unwrap_err(), after);
    }
}

/// Each of these ends the payloads, and none of them the process.
#[test]
fn a_peer_that_breaks_the_rules_of_payloads_makes_the_end_unusable() {
    let header = |kind: u32, a: u64, b: u64| {
        let words = [0xc2_70_61_79_u32.to_ne_bytes(), kind.to_ne_bytes()].concat();
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
        ("a stream without a handle", header(4, 0, 0), vec![], Status::BadState),
        ("a stream that is memory", header(4, 0, 0), vec![vmo().into()], Status::BadState),
        ("bytes in a stream that is not there", header(5, 1, 0), vec![], Status::BadState),
        (
            "bytes beyond the length",
            [header(0, 1, 0), vec![1; 2]].concat(),
            vec![],
            Status::BadState,
        ),
        ("bytes with a handle", header(0, 0, 0), vec![vmo().into()], Status::BadState),
        ("a full message with a handle", vec![1; MAX_BYTES], vec![vmo().into()], Status::BadState),
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
        let mut far = streaming(far);
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
            let mut near = streaming(near);
            let mut far = streaming(far);
            near.share_pool(1, 4096, LONG).unwrap();
            if is_trusted {
                far.trust_peer(testbed::trusted_peer());
            }
            let mut message = [0; HEADER];
            message[..4].copy_from_slice(&0xc2_70_61_79_u32.to_ne_bytes());
            message[4..8].copy_from_slice(&2_u32.to_ne_bytes());
            message[8..16].copy_from_slice(&u64::to_ne_bytes(length));
            message[16..24].copy_from_slice(&u64::to_ne_bytes(slot));
            send(near.channel(), &message).unwrap();
            let received = far.receive(LONG).map(|payload| payload.len() as u64);
            assert_eq!(received, if is_good { Ok(length) } else { Err(Status::BadState) });
        }
    }
}
