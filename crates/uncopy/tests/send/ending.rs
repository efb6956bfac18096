//! Tests how the streams of a ring end: all bytes that were reported as sent arrive, and then the end.

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use testbed::{Case, cases, in_a_child, seeded, wait_for};
use uncopy::Errno;
use uncopy::send::{Message, Mode, Ring, RingEvent, RingSocket, Sender, StableBytes};

use crate::send::receiver::{tcp, to_the_end};
use crate::send::{LONG, ring_options, run, sender};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        [] what_was_sent_arrives_after_the_ring_is_dropped,
        [] each_stream_of_a_dropped_ring_ends_separately,
        [] a_stream_ends_although_a_child_has_its_descriptor,
        [] a_send_that_has_begun_is_finished_by_the_thread,
        [] a_stream_of_two_owners_ends_with_the_last,
        [] closing_one_of_two_owners_aborts_nothing,
        [] a_stream_that_is_cut_off_is_reset,
        [] closing_makes_all_sends,
        [] closing_reports_unfinished_sends,
        [] closing_reports_failures_that_were_not_taken,
    ]
}

const MODES: [Mode; 3] = [Mode::Copy, Mode::Zerocopy, Mode::Auto];
const BYTES: usize = 64 << 10;
const SENDS: usize = 20;
/// Number of sends that any socket has room for: until Linux 6.15 a send buffer may only hold 416 KiB.
const FEW: usize = 3;

/// Makes a ring for every engine and mode.
fn rings<B: StableBytes>() -> impl Iterator<Item = (Ring<B>, String)> {
    [false, true].into_iter().flat_map(|without_io_uring| {
        MODES.map(|mode| {
            let mut options = ring_options(mode);
            options.without_io_uring = without_io_uring;
            (Ring::new(&options), format!("{mode:?}, without io_uring: {without_io_uring}"))
        })
    })
}

fn content() -> Vec<u8> {
    seeded(3, 0, (SENDS * BYTES) as u64)
}

fn take_in(ring: &mut Ring<Vec<u8>>, socket: RingSocket) {
    for chunk in content().chunks(BYTES) {
        ring.send(socket, Message::new(chunk.to_vec())).unwrap();
    }
}

/// Sends the first [`FEW`] parts, until all of these sends have succeeded; releases may be outstanding.
#[track_caller]
fn send_few(ring: &mut Ring<Vec<u8>>, socket: RingSocket) {
    for chunk in content().chunks(BYTES).take(FEW) {
        ring.send(socket, Message::new(chunk.to_vec())).unwrap();
    }
    let mut sent = 0;
    while sent < FEW {
        ring.wait(Some(LONG)).unwrap();
        while let Some(event) = ring.next_event() {
            if let RingEvent::Sent(result) = event {
                assert_eq!(result.result.unwrap(), BYTES);
                sent += 1;
            }
        }
    }
}

/// Reads a stream to its end, after a delay in which its socket becomes full.
fn read_late(stream: TcpStream) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(100));
        to_the_end(stream).join().unwrap()
    })
}

fn what_was_sent_arrives_after_the_ring_is_dropped() {
    for (mut ring, kind) in rings() {
        let (stream, socket) = tcp(false);
        socket.set_send_buffer_bytes(4 << 20).unwrap();
        let socket = ring.add(socket);
        send_few(&mut ring, socket);
        drop(ring);
        // This thread uses no ring meanwhile, so no completions are taken in.
        assert!(read_late(stream).join().unwrap() == content()[..FEW * BYTES], "{kind}");
    }
}

fn each_stream_of_a_dropped_ring_ends_separately() {
    for (mut ring, kind) in rings() {
        let ([first, second], [near, beside]) = {
            let ((first, near), (second, beside)) = (tcp(false), tcp(true));
            ([first, second], [near, beside])
        };
        beside.set_send_buffer_bytes(16 << 10).unwrap();
        let (near, beside) = (ring.add(near), ring.add(beside));
        ring.send(near, Message::new(vec![7; 5000])).unwrap();
        ring.send(beside, Message::new(vec![8; 16 << 20])).unwrap();
        ring.submit().unwrap();
        wait_for("result", || {
            ring.submit().unwrap();
            matches!(ring.next_event(), Some(RingEvent::Sent(_)))
        });
        drop(ring);
        // The other stream is not read.
        assert_eq!(to_the_end(first).join().unwrap(), [7; 5000], "{kind}");
        drop(second);
    }
}

fn a_stream_ends_although_a_child_has_its_descriptor() {
    for (mut ring, kind) in rings() {
        let (stream, socket) = tcp(false);
        let socket = ring.add(socket);
        let (near, far) = UnixStream::pair().unwrap();
        let child = std::thread::spawn(move || {
            in_a_child(|| {
                rustix::io::write(&far, b"!").unwrap();
                (&far).read_exact(&mut [0]).is_ok()
            })
        });
        (&near).read_exact(&mut [0]).unwrap();
        let reader = to_the_end(stream);
        take_in(&mut ring, socket);
        assert_eq!(run(&mut ring).sent_bytes(), [BYTES; SENDS], "{kind}");
        drop(ring);
        assert!(reader.join().unwrap() == content(), "{kind}");
        rustix::io::write(&near, b"!").unwrap();
        assert!(child.join().unwrap());
    }
}

/// A message that has begun is not cut off by the drop of its ring or the end of its thread.
fn a_send_that_has_begun_is_finished_by_the_thread() {
    testbed::need(testbed::KernelFeature::RingZerocopySends);
    const LARGE: usize = 32 << 20;
    for mode in MODES {
        let (stream, socket) = tcp(false);
        let sending = std::thread::spawn(move || {
            let mut ring = crate::send::ring(mode);
            let socket = ring.add(socket);
            ring.send(socket, Message::new(vec![7; LARGE])).unwrap();
            ring.submit().unwrap();
            assert!(
                !matches!(ring.next_event(), Some(RingEvent::Sent(_))),
                "the peer does not read"
            );
        });
        assert_eq!(read_late(stream).join().unwrap().len(), LARGE, "{mode:?}");
        sending.join().unwrap();
    }
}

fn a_stream_of_two_owners_ends_with_the_last() {
    let end_sender = |sender: Sender<Vec<u8>>, is_closed| match is_closed {
        true => drop(sender.close(Some(LONG)).unwrap()),
        false => drop(sender),
    };
    let end_ring = |ring: &mut Ring<Vec<u8>>, is_closed| {
        let ended = std::mem::replace(ring, Ring::new(&ring_options(Mode::Copy)));
        match is_closed {
            true => ended.close(Some(LONG)).unwrap(),
            false => drop(ended),
        }
    };
    for (mut ring, kind) in rings::<Vec<u8>>() {
        let orders = [(true, false), (false, false), (true, true), (false, true)];
        for (is_ring_first, is_closed) in orders {
            let (mut stream, socket) = tcp(false);
            let mut lending = sender(socket, Mode::Zerocopy);
            let shared = ring.add_shared(&lending);
            ring.send(shared, Message::new(vec![1; 5000])).unwrap();
            run(&mut ring);
            lending.send(vec![2; 5000]).result.unwrap();
            let mut bytes = vec![0; 10_000];
            stream.read_exact(&mut bytes).unwrap();
            stream.set_nonblocking(true).unwrap();
            let is_open = |mut stream: &TcpStream| {
                let error = stream.read(&mut [0]).map_err(|error| error.kind());
                error == Err(std::io::ErrorKind::WouldBlock)
            };
            if is_ring_first {
                end_ring(&mut ring, is_closed);
                assert!(is_open(&stream), "{kind}: the sender may continue");
                end_sender(lending, is_closed);
            } else {
                end_sender(lending, is_closed);
                assert!(is_open(&stream), "{kind}: the ring may continue");
                ring.send(shared, Message::new(vec![3; 5000])).unwrap();
                assert_eq!(run(&mut ring).sent_bytes(), [5000]);
                bytes.truncate(5000);
                stream.set_nonblocking(false).unwrap();
                stream.read_exact(&mut bytes).unwrap();
                end_ring(&mut ring, is_closed);
            }
            stream.set_nonblocking(false).unwrap();
            let mut rest = Vec::new();
            assert_eq!(stream.read_to_end(&mut rest).unwrap(), 0, "{kind}");
        }
    }
}

/// The sender's close times out while the peer does not read, but the stream also belongs to the ring.
fn closing_one_of_two_owners_aborts_nothing() {
    // More than the peer buffers unread.
    const LENT: usize = 300_000;
    for (mut ring, kind) in rings::<Vec<u8>>() {
        let (stream, socket) = tcp(true);
        socket.set_send_buffer_bytes(1 << 20).unwrap();
        let mut lending = sender(socket, Mode::Zerocopy);
        let shared = ring.add_shared(&lending);
        lending.send(vec![1; LENT]).result.unwrap();
        let (releases, _) = lending.close(Some(Duration::from_millis(20))).unwrap();
        assert!(releases.is_empty(), "{kind}: the peer does not read");
        ring.send(shared, Message::new(vec![2; BYTES])).unwrap();
        ring.submit().unwrap();
        let reader = read_late(stream);
        assert_eq!(run(&mut ring).sent_bytes(), [BYTES], "{kind}");
        drop(ring);
        let read = reader.join().unwrap();
        assert!(read[..LENT].iter().all(|byte| *byte == 1), "{kind}");
        assert_eq!(read[LENT..], [2; BYTES], "{kind}");
    }
}

/// The thread of a dropped ring lives on and uses no ring, so nothing continues the send; nor does anybody
/// without io_uring.
fn a_stream_that_is_cut_off_is_reset() {
    const LARGE: usize = 16 << 20;
    for (mode, without_io_uring) in MODES.into_iter().flat_map(|m| [(m, false), (m, true)]) {
        let (mut stream, socket) = tcp(false);
        let mut options = ring_options(mode);
        options.without_io_uring = without_io_uring;
        options.drop_timeout = Duration::from_millis(300);
        let mut ring = Ring::new(&options);
        let socket = ring.add(socket);
        ring.send(socket, Message::new(vec![7; LARGE])).unwrap();
        ring.submit().unwrap();
        drop(ring);
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut read = Vec::new();
        let end = stream.read_to_end(&mut read).map_err(|error| error.kind());
        assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset), "{mode:?}: {}", read.len());
        assert!(read.len() < LARGE, "{mode:?}");
    }
}

fn closing_makes_all_sends() {
    for (mut ring, kind) in rings() {
        let (stream, socket) = tcp(false);
        socket.set_send_buffer_bytes(16 << 10).unwrap();
        let socket = ring.add(socket);
        ring.register_slots(&[1]).unwrap();
        // The sends are neither submitted nor flushed.
        take_in(&mut ring, socket);
        ring.send(socket, Message::new(vec![9; 5000]).bind(0)).unwrap();
        let reader = read_late(stream);
        ring.close(Some(LONG)).unwrap_or_else(|unfinished| panic!("{kind}: {unfinished}"));
        let read = reader.join().unwrap();
        assert!(read[..SENDS * BYTES] == content() && read[SENDS * BYTES..] == [9; 5000], "{kind}");
    }
    for (ring, _) in rings::<Vec<u8>>() {
        ring.close(None).unwrap();
    }
}

fn closing_reports_unfinished_sends() {
    for (mut ring, kind) in rings() {
        let (stream, socket) = tcp(false);
        socket.set_send_buffer_bytes(16 << 10).unwrap();
        let socket = ring.add(socket);
        let sizes = [32 << 20, 5, 600];
        for size in sizes {
            ring.send(socket, Message::new(vec![7; size])).unwrap();
        }
        let unfinished = ring.close(Some(Duration::from_millis(20))).unwrap_err();
        assert_eq!((unfinished.sends, unfinished.bytes), (3, sizes.iter().sum()), "{kind}");
        assert!(unfinished.error.is_none(), "{unfinished}");
        assert!(unfinished.to_string().contains("wait longer"), "{unfinished}");
        drop(stream);
    }
}

fn closing_reports_failures_that_were_not_taken() {
    for (mut ring, kind) in rings() {
        let (stream, socket) = tcp(false);
        let socket = ring.add(socket);
        ring.send(socket, Message::new(vec![7; 5000])).unwrap();
        run(&mut ring);
        // With unread data the close of the peer is a reset.
        drop(stream);
        let is_over = || ring.socket(socket).unwrap().receive(&mut [0]).is_err();
        wait_for("reset", is_over);
        for size in [100, 2000] {
            ring.send(socket, Message::new(vec![7; size])).unwrap();
        }
        let unfinished = ring.close(Some(LONG)).unwrap_err();
        assert_eq!((unfinished.sends, unfinished.bytes), (2, 2100), "{kind}");
        let errno = unfinished.error.unwrap().errno();
        assert!(
            [Some(Errno::EPIPE), Some(Errno::ECONNRESET)].contains(&errno),
            "{kind}: {errno:?}"
        );
    }
}
