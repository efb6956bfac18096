//! Tests notifiers and cancellation over a real ring.

use std::sync::Arc;
use std::time::Duration;

use testbed::{Case, by_extent, cases, seeded};
use uncopy::send::{
    FallbackReason, Fate, Message, Mode, PageSize, Pool, PoolSlice, Ring, RingSocket,
};
use uncopy::{Objection, Reason};

use crate::send::receiver::{expect, tcp, to_the_end, udp};
use crate::send::{LONG, register, ring, ring_options, run, sender};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        [] flushed_notifiers_come_in_sequence,
        [] unflushed_notifiers_post_nothing,
        [] several_slots_at_once,
        [] unregistering_slots_flushes_bound_sends,
        [] a_failed_send_counts_as_released,
        [] sends_of_every_kind_share_a_notifier,
        [] a_refused_send_returns_its_buffers,
        [] a_send_is_canceled_before_it_is_submitted,
        [] a_send_on_a_full_stream_is_canceled,
        [] releases_that_were_not_posted_are_returned,
        [] rings_of_several_threads_share_their_pools,
        [] a_full_stream_without_io_uring_does_not_block,
        [] a_ring_counts_each_reason_for_a_copy_once,
        [] a_send_on_a_full_stream_without_io_uring_is_canceled,
    ]
}

fn flushed_notifiers_come_in_sequence() {
    let (receiver, socket) = udp(false);
    let mut ring = ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    ring.register_slots(&[10, 11]).unwrap();
    let mut notifications = Vec::new();
    for round in 0..50 {
        let message = Message::new(vec![round as u8; 600]);
        match round % 3 {
            0 => ring.send(socket, message.bind_and_flush(1)).map(drop).unwrap(),
            _ => {
                ring.send(socket, message.bind(1)).map(drop).unwrap();
                ring.flush(&[1]).unwrap();
            }
        }
        notifications.extend(run(&mut ring).notifications);
        expect(&receiver, &[round as u8; 600]);
    }
    let found: Vec<_> = notifications.iter().map(|n| (n.tag, n.sequence, n.result)).collect();
    let expected: Vec<_> = (0..50).map(|sequence| (11, sequence, 0)).collect();
    assert_eq!(found, expected);
    for (notification, round) in notifications.into_iter().zip(0u8..) {
        let [release] = <[_; 1]>::try_from(notification.releases.into_vec()).unwrap();
        assert_eq!(release.payload.into_one().unwrap(), vec![round; 600]);
    }
}

fn unflushed_notifiers_post_nothing() {
    let (_receiver, socket) = udp(false);
    let mut ring = ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    ring.register_slots(&[10]).unwrap();
    for _ in 0..20 {
        ring.send(socket, Message::new(vec![1; 600]).bind(0)).unwrap();
    }
    let events = run(&mut ring);
    assert_eq!((events.results.len(), events.releases.len()), (20, 0));
    assert!(events.notifications.is_empty());
    ring.flush(&[0]).unwrap();
    let events = run(&mut ring);
    assert_eq!(events.notifications[0].releases.len(), 20);
}

fn several_slots_at_once() {
    let (_receiver, socket) = udp(false);
    let mut ring = ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    let tags: Vec<u64> = (0..64).map(|n| u64::MAX - n).collect();
    ring.register_slots(&tags).unwrap();
    assert_eq!(objection(ring.register_slots(&[1])), Some(Objection::SlotsRegistered));
    for slot in (0..64).chain(0..32) {
        ring.send(socket, Message::new(vec![1; 100]).bind(slot)).unwrap();
    }
    assert_eq!(objection(ring.flush(&[0, 64])), Some(Objection::NoSuchSlot { slots: 64 }));
    ring.flush(&(0..64).collect::<Vec<_>>()).unwrap();
    let mut notifications = run(&mut ring).notifications;
    assert_eq!(notifications.len(), 64);
    notifications.sort_by_key(|notification| u64::MAX - notification.tag);
    for (slot, notification) in notifications.iter().enumerate() {
        assert_eq!(notification.tag, tags[slot]);
        assert_eq!(notification.releases.len(), if slot < 32 { 2 } else { 1 });
    }
}

fn unregistering_slots_flushes_bound_sends() {
    let (_receiver, socket) = udp(false);
    let mut ring = ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    ring.register_slots(&[10, 11]).unwrap();
    for _ in 0..3 {
        ring.send(socket, Message::new(vec![1; 600]).bind(1)).unwrap();
    }
    ring.unregister_slots();
    assert_eq!(objection(ring.flush(&[1])), Some(Objection::NoSuchSlot { slots: 0 }));
    ring.register_slots(&[12]).unwrap();
    let notifications = run(&mut ring).notifications;
    assert_eq!(notifications.len(), 1, "no send was bound to the other slot");
    assert_eq!((notifications[0].tag, notifications[0].releases.len()), (11, 3));
}

/// Returns why slots were refused.
fn objection(result: uncopy::Result<()>) -> Option<Objection> {
    match result.unwrap_err().reason() {
        Reason::Refused(objection) => Some(objection.clone()),
        _ => None,
    }
}

fn a_failed_send_counts_as_released() {
    let (_receiver, socket) = udp(false);
    let mut ring = ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    ring.register_slots(&[10]).unwrap();
    ring.send(socket, Message::new(vec![1; 600]).bind(0)).unwrap();
    ring.send(socket, Message::new(vec![2; 70_000]).bind(0)).unwrap();
    ring.send(socket, Message::new(vec![3; 600]).bind_and_flush(0)).unwrap();
    let events = run(&mut ring);
    let failed = events.results.iter().filter(|(_, result)| result.is_err()).count();
    assert_eq!((failed, events.results.len()), (1, 3));
    let releases = &events.notifications[0].releases;
    let unsent = releases.iter().find(|release| release.fate == Fate::Unsent).unwrap();
    assert_eq!((releases.len(), unsent.id.get()), (3, 1));
}

fn sends_of_every_kind_share_a_notifier() {
    let (receiver, socket) = udp(false);
    let (stream, stream_socket) = tcp(true);
    let received = to_the_end(stream);
    let mut ring = ring(Mode::Auto);
    let (datagrams, through) = (ring.add(socket), ring.add(stream_socket));
    ring.register_slots(&[10]).unwrap();
    let to = receiver.local_addr().unwrap();
    // A copied, a lent, a vectored and an addressed datagram, and a stream.
    let parts = |seed, lengths: &[u64]| -> Vec<Vec<u8>> {
        lengths.iter().map(|length| seeded(seed, 0, *length)).collect()
    };
    let sends = [&[100][..], &[30_000], &[100, 9000], &[9000], &[9000]];
    for (seed, lengths) in (0..).zip(sends) {
        let message = Message::new(parts(seed, lengths));
        let message = if seed == 3 { message.to(to) } else { message };
        let taken = match seed {
            4 => ring.send(through, message.bind_and_flush(0)),
            _ => ring.send(datagrams, message.bind(0)),
        };
        assert_eq!(taken.unwrap().get(), seed);
    }
    let events = run(&mut ring);
    assert_eq!(events.sent_bytes().iter().sum::<usize>(), 100 + 30_000 + 9100 + 9000 + 9000);
    assert_eq!(events.notifications[0].releases.len(), 5);
    for (seed, lengths) in (0..4).zip(sends) {
        expect(&receiver, &parts(seed, lengths).concat());
    }
    drop(ring);
    assert!(received.join().unwrap() == seeded(4, 0, 9000));
}

fn a_refused_send_returns_its_buffers() {
    let (_receiver, socket) = udp(false);
    let mut ring = ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    let refused = ring.send(socket, Message::new(vec![7; 10]).bind(0)).unwrap_err();
    assert_eq!(refused.payload.into_one().unwrap(), vec![7; 10]);
    assert!(refused.error.to_string().contains("register more"), "{}", refused.error);
    let mut other = crate::send::ring::<Vec<u8>>(Mode::Zerocopy);
    let refused = other.send(socket, Message::new(vec![7; 10])).unwrap_err();
    assert!(refused.error.to_string().contains("add it first"), "{}", refused.error);
    assert!(other.socket(socket).is_none() && other.counters(socket).is_none());
}

fn a_send_is_canceled_before_it_is_submitted() {
    let (_receiver, socket) = udp(false);
    let mut ring = ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    let id = ring.send(socket, Message::new(vec![7; 10])).unwrap();
    ring.cancel(id);
    ring.cancel(id);
    let events = run(&mut ring);
    let errno = events.results[0].1.as_ref().unwrap_err().errno();
    assert_eq!(errno, Some(uncopy::Errno::ECANCELED));
    assert_eq!((events.releases.len(), events.releases[0].fate), (1, Fate::Unsent));
}

fn a_send_on_a_full_stream_is_canceled() {
    let (stream, socket) = tcp(false);
    socket.set_send_buffer_bytes(16 << 10).unwrap();
    let mut ring = ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    ring.register_slots(&[10]).unwrap();
    let buffer = Arc::new(vec![7; 64 << 20]);
    let id = ring.send(socket, Message::new(buffer.clone()).bind_and_flush(0)).unwrap();
    ring.submit().unwrap();
    assert_eq!(ring.outstanding().sends, 1, "the peer does not read");
    ring.cancel(id);
    ring.wait(Some(LONG)).unwrap();
    // The result is there; some bytes stay in the socket until they are read.
    let received = to_the_end(stream);
    let events = run(&mut ring);
    let release = &events.notifications[0].releases[0];
    assert!(release.bytes < buffer.len());
    let sent = release.bytes;
    ring.socket(socket).unwrap().finish().unwrap();
    assert_eq!(received.join().unwrap().len(), sent);
}

fn releases_that_were_not_posted_are_returned() {
    let (_receiver, socket) = udp(false);
    let mut ring = ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    ring.register_slots(&[10, 11]).unwrap();
    for slot in [0, 0, 1] {
        ring.send(socket, Message::new(vec![7; 10]).bind(slot)).unwrap();
    }
    ring.send(socket, Message::new(vec![7; 10])).unwrap();
    while ring.outstanding().sends > 0 {
        ring.wait(Some(LONG)).unwrap();
    }
    ring.flush(&[1]).unwrap();
    assert_eq!(ring.into_releases().len(), 4);
}

fn rings_of_several_threads_share_their_pools() {
    let pools = [1000, 3000].map(|bytes| Pool::new(8, bytes, PageSize::Base).unwrap());
    let mut first = ring::<PoolSlice>(Mode::Zerocopy);
    pools.iter().for_each(|pool| register(&mut first, pool));
    let shared = first.registered_pools().unwrap();
    let send_all = |mut ring: Ring<PoolSlice>| {
        let (receiver, socket) = udp(false);
        let socket = ring.add(socket);
        for (pool, byte) in pools.iter().zip(1..) {
            let mut slice = pool.take().unwrap();
            slice.fill(byte);
            let length = slice.len();
            ring.send(socket, Message::new(slice)).unwrap();
            assert_eq!(run(&mut ring).sent_bytes(), [length]);
            expect(&receiver, &vec![byte; length]);
        }
    };
    std::thread::scope(|scope| {
        for is_first_dropped in [false, true] {
            let (shared, send_all) = (&shared, &send_all);
            let thread = scope.spawn(move || {
                let mut ring = ring::<PoolSlice>(Mode::Zerocopy);
                ring.register_pools_of(shared).unwrap();
                // A second time: each pool is registered already.
                ring.register_pools_of(shared).unwrap();
                send_all(ring);
            });
            thread.join().unwrap();
            if !is_first_dropped {
                send_all(std::mem::replace(&mut first, crate::send::ring(Mode::Zerocopy)));
            }
        }
    });
    assert!(pools.iter().all(|pool| pool.free_slices() == 8));
}

/// A ring whose stream is full as soon as something is sent.
struct FullStream {
    ring: Ring<Arc<Vec<u8>>>,
    socket: RingSocket,
    peer: std::net::TcpStream,
}

/// Makes rings without io_uring, over their own socket and over one that a sender owns.
fn full_streams() -> [FullStream; 2] {
    let mut options = ring_options(Mode::Zerocopy);
    options.without_io_uring = true;
    [false, true].map(|is_shared| {
        let (stream, socket) = tcp(false);
        socket.set_send_buffer_bytes(16 << 10).unwrap();
        let mut ring = Ring::new(&options);
        let socket = match is_shared {
            false => ring.add(socket),
            true => ring.add_shared(&sender::<Vec<u8>>(socket, Mode::Copy)),
        };
        FullStream { ring, socket, peer: stream }
    })
}

fn a_full_stream_without_io_uring_does_not_block() {
    for FullStream { mut ring, socket, peer } in full_streams() {
        let sizes = [by_extent([1, 8, 8]) << 20, 3, 100_000];
        for (size, byte) in sizes.into_iter().zip(1..) {
            ring.send(socket, Message::new(Arc::new(vec![byte; size]))).unwrap();
        }
        // One thread sends and reads: waiting for room here would never end.
        ring.submit().unwrap();
        ring.wait(Some(Duration::from_millis(5))).unwrap();
        assert!(ring.next_event().is_none(), "the peer has not read");
        let received = to_the_end(peer);
        let events = run(&mut ring);
        assert_eq!(events.sent_bytes(), sizes);
        drop(ring);
        let expected: Vec<u8> =
            sizes.into_iter().zip(1..).flat_map(|(size, byte)| vec![byte; size]).collect();
        assert!(received.join().unwrap() == expected);
    }
}

fn a_send_on_a_full_stream_without_io_uring_is_canceled() {
    for FullStream { mut ring, socket, peer } in full_streams() {
        let buffer = Arc::new(vec![7; 64 << 20]);
        let id = ring.send(socket, Message::new(buffer.clone())).unwrap();
        ring.send(socket, Message::new(buffer.clone())).unwrap();
        ring.submit().unwrap();
        ring.cancel(id);
        let received = to_the_end(peer);
        let events = run(&mut ring);
        let errnos = events.results.iter().map(|(_, result)| result.as_ref().unwrap_err().errno());
        assert_eq!(errnos.collect::<Vec<_>>(), [Some(uncopy::Errno::ECANCELED); 2], "no gap");
        let sent: usize = events.releases.iter().map(|release| release.bytes).sum();
        assert!(0 < sent && sent < buffer.len(), "{sent}");
        drop(ring);
        assert_eq!(received.join().unwrap().len(), sent, "the bytes reported as sent arrive");
    }
}

/// The engines share the ledger of a socket: neither adds a reason that was counted already.
fn a_ring_counts_each_reason_for_a_copy_once() {
    for without_io_uring in [false, true] {
        for (mode, bytes, reason) in [
            (Mode::Copy, 3000, FallbackReason::CopyRequested),
            (Mode::Auto, 100, FallbackReason::TooSmall),
        ] {
            let (_receiver, socket) = udp(false);
            let mut options = ring_options(mode);
            options.without_io_uring = without_io_uring;
            let mut ring = Ring::new(&options);
            let socket = ring.add(socket);
            for _ in 0..3 {
                ring.send(socket, Message::new(vec![7; bytes])).unwrap();
            }
            assert_eq!(run(&mut ring).sent_bytes(), [bytes; 3]);
            let counters = ring.counters(socket).unwrap();
            assert_eq!(counters.fallbacks_for(reason), 3, "{counters:?}");
            assert_eq!((counters.fallbacks.len(), counters.sends), (1, 3), "{counters:?}");
        }
    }
}
