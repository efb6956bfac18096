//! Tests that sends arrive byte for byte, for every kind of send.

use std::net::UdpSocket;
use std::sync::Arc;

use testbed::{Case, cases, seeded};
use uncopy::send::{Fate, InetSocket, Message, Mode, PageSize, Payload, Pool, StableBytes};

use crate::send::receiver::{expect, tcp, to_the_end, udp};
use crate::send::{LONG, all_releases, fates, here, register, ring, ring_options, run, sender};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        [] datagrams_of_every_size,
        [] datagrams_with_addresses,
        [] streams_of_every_size,
        [] streams_of_whole_and_partial_calls,
        [] a_stream_longer_than_the_socket_holds,
        [] many_buffers_are_one_message,
        [] more_regions_than_a_packet_has_room_for,
        [] more_regions_than_a_call_takes,
        [] owners_of_every_kind,
        [] datagrams_through_a_ring,
        [] streams_through_a_ring,
        [] registered_and_normal_buffers_mixed,
        [] trains_of_segments,
        [] trains_longer_than_a_packet,
        [] a_ring_sends_more_than_a_train,
        [] datagrams_that_a_ring_joins_to_trains,
        [] batches_of_trains_under_one_notification,
        [] without_io_uring,
    ]
}

const SIZES: [usize; 9] = [0, 1, 600, 1500, 4000, 8000, 16_384, 40_000, 64_000];
const MODES: [Mode; 3] = [Mode::Auto, Mode::Zerocopy, Mode::Copy];

fn bytes(seed: usize, length: usize) -> Vec<u8> {
    seeded(seed as u64, 0, length as u64)
}

fn datagrams_of_every_size() {
    for (is_v6, mode) in [false, true].into_iter().flat_map(|v6| MODES.map(|mode| (v6, mode))) {
        let (receiver, socket) = udp(is_v6);
        let mut sender = sender(socket, mode);
        for (seed, length) in SIZES.into_iter().enumerate() {
            let sent = sender.send(bytes(seed, length));
            assert_eq!(sent.result.unwrap(), length, "{mode:?}");
            expect(&receiver, &bytes(seed, length));
        }
        let mut releases = all_releases(&mut sender);
        releases.sort_by_key(|release| release.id);
        for ((seed, length), release) in SIZES.into_iter().enumerate().zip(releases) {
            assert_eq!(release.id.get(), seed as u64);
            // Every kind of send is copied over loopback.
            assert_eq!((release.fate, release.bytes), (Fate::Copied, length), "{mode:?}");
            assert!(release.payload.into_one().unwrap() == bytes(seed, length));
        }
        assert_eq!(sender.counters().sends, SIZES.len() as u64);
        assert_eq!(sender.counters().bytes, SIZES.iter().sum::<usize>() as u64);
    }
}

fn datagrams_with_addresses() {
    for is_v6 in [false, true] {
        let receivers = [0, 1, 2].map(|_| UdpSocket::bind(here(is_v6)).unwrap());
        for receiver in &receivers {
            receiver.set_read_timeout(Some(LONG)).unwrap();
        }
        let mut ring = ring(Mode::Zerocopy);
        let through = ring.add(InetSocket::bind_udp(here(is_v6)).unwrap());
        let mut sender = sender(InetSocket::bind_udp(here(is_v6)).unwrap(), Mode::Zerocopy);
        for (seed, receiver) in receivers.iter().enumerate() {
            let to = receiver.local_addr().unwrap();
            assert_eq!(sender.send_to(bytes(seed, 3000), to).result.unwrap(), 3000);
            ring.send(through, Message::new(bytes(seed + 10, 5000)).to(to)).unwrap();
            assert_eq!(run(&mut ring).sent_bytes(), [5000]);
            expect(receiver, &bytes(seed, 3000));
            expect(receiver, &bytes(seed + 10, 5000));
        }
        assert!(sender.counters().fallbacks.is_empty(), "{:?}", sender.counters());
        let counters = ring.counters(through).unwrap();
        assert!(counters.fallbacks.is_empty(), "{counters:?}");
        // The socket is not connected, and the send has no address.
        let error = sender.send(bytes(0, 1)).result.unwrap_err();
        assert_eq!(error.errno(), Some(uncopy::Errno::EDESTADDRREQ), "{error}");
        assert!(error.to_string().contains("name a destination"), "{error}");
        assert_eq!(all_releases(&mut sender).last().unwrap().fate, Fate::Unsent);
    }
}

fn streams_of_every_size() {
    for (is_v6, mode) in [false, true].into_iter().flat_map(|v6| MODES.map(|mode| (v6, mode))) {
        let (stream, socket) = tcp(is_v6);
        let received = to_the_end(stream);
        let mut sender = sender(socket, mode);
        let mut expected = Vec::new();
        for (seed, length) in SIZES.into_iter().enumerate() {
            expected.extend(bytes(seed, length));
            assert_eq!(sender.send(bytes(seed, length)).result.unwrap(), length);
        }
        let (releases, counters) = sender.close(Some(LONG)).unwrap();
        assert_eq!(releases.len(), SIZES.len());
        assert_eq!(counters.bytes as usize, expected.len());
        assert!(received.join().unwrap() == expected, "{mode:?}");
    }
}

/// Sends that one call takes whole, before and after those that take several.
fn streams_of_whole_and_partial_calls() {
    const LENGTHS: [usize; 10] = [0, 1, 600, 3 << 20, 600, 600, 2 << 20, 16_384, 0, 4000];
    for (is_v6, mode) in [false, true].into_iter().flat_map(|v6| MODES.map(|mode| (v6, mode))) {
        let (stream, socket) = tcp(is_v6);
        socket.set_send_buffer_bytes(64 << 10).unwrap();
        let received = to_the_end(stream);
        let mut sender = sender(socket, mode);
        let mut expected = Vec::new();
        for (seed, length) in LENGTHS.into_iter().enumerate() {
            expected.extend(bytes(seed, length));
            let sent = sender.send(bytes(seed, length));
            assert_eq!((sent.id.get() as usize, sent.result.unwrap()), (seed, length), "{mode:?}");
            let counters = sender.counters();
            assert_eq!(
                (counters.sends, counters.bytes as usize),
                (seed as u64 + 1, expected.len())
            );
            assert_eq!(sender.outstanding().bytes, expected.len(), "{mode:?}");
        }
        let (mut releases, counters) = sender.close(Some(LONG)).unwrap();
        let in_order = releases.is_sorted_by_key(|release| release.id);
        assert!(in_order || mode != Mode::Copy, "what is copied is released in order");
        releases.sort_by_key(|release| release.id);
        assert_eq!(releases.len(), LENGTHS.len());
        for (seed, release) in releases.into_iter().enumerate() {
            assert_eq!((release.id.get() as usize, release.bytes), (seed, LENGTHS[seed]));
            assert!(release.payload.into_one().unwrap() == bytes(seed, LENGTHS[seed]));
        }
        // Over loopback whatever was lent is copied later.
        let copied = (counters.copied_sends, counters.copied_bytes as usize);
        assert_eq!(copied, (LENGTHS.len() as u64, expected.len()), "{mode:?}");
        assert!(received.join().unwrap() == expected, "{mode:?}");
    }
}

fn a_stream_longer_than_the_socket_holds() {
    let (stream, socket) = tcp(false);
    socket.set_send_buffer_bytes(64 << 10).unwrap();
    let mut sender = sender(socket, Mode::Zerocopy);
    let content = bytes(3, 20 << 20);
    let received = to_the_end(stream);
    assert_eq!(sender.send(content.clone()).result.unwrap(), content.len());
    let (releases, _) = sender.close(Some(LONG)).unwrap();
    assert_eq!(releases[0].bytes, content.len());
    assert!(received.join().unwrap() == content);
}

fn many_buffers_are_one_message() {
    let parts: Vec<Vec<u8>> = (0..7).map(|n| bytes(n, n * 900)).collect();
    let whole = parts.concat();
    for mode in MODES {
        let (receiver, socket) = udp(true);
        let mut sender = sender(socket, mode);
        assert_eq!(sender.send(parts.clone()).result.unwrap(), whole.len());
        expect(&receiver, &whole);
        let release = all_releases(&mut sender).remove(0);
        assert!(release.payload == Payload::Many(parts.clone()));
    }
}

fn more_regions_than_a_packet_has_room_for() {
    // Each region is in a page of its own: 17 fit, 18 do not.
    for (count, is_copied) in [(17, false), (18, true), (40, true)] {
        let parts: Vec<Vec<u8>> = (0..count).map(|n| bytes(n, 100)).collect();
        let pool = Pool::new(count, 100, PageSize::Base).unwrap();
        let slices = || -> Vec<_> {
            let fill = |part: &Vec<u8>| {
                let mut slice = pool.take().unwrap();
                slice.copy_from_slice(part);
                slice
            };
            parts.iter().map(fill).collect()
        };
        let reason = uncopy::send::FallbackReason::TooManyRegions;
        let (receiver, socket) = udp(false);
        let mut sender = sender(socket, Mode::Zerocopy);
        assert_eq!(sender.send(slices()).result.unwrap(), count * 100);
        expect(&receiver, &parts.concat());
        drop(all_releases(&mut sender));
        assert_eq!(sender.counters().fallbacks_for(reason), u64::from(is_copied), "{count}");

        let (receiver, socket) = udp(false);
        let mut ring = ring(Mode::Zerocopy);
        let socket = ring.add(socket);
        ring.send(socket, Message::new(slices())).unwrap();
        let events = run(&mut ring);
        assert_eq!(events.sent_bytes(), [count * 100], "one result");
        assert_eq!(events.releases.len(), 1);
        expect(&receiver, &parts.concat());
        let counters = ring.counters(socket).unwrap();
        assert_eq!(counters.fallbacks_for(reason), u64::from(is_copied), "{count}");
    }
}

fn more_regions_than_a_call_takes() {
    let parts: Vec<Vec<u8>> = (0..3000).map(|n| bytes(n, 1 + n % 13)).collect();
    let whole = parts.concat();
    for mode in MODES {
        let (receiver, socket) = udp(false);
        let mut datagrams = sender(socket, mode);
        assert_eq!(datagrams.send(parts.clone()).result.unwrap(), whole.len());
        expect(&receiver, &whole);

        let (stream, socket) = tcp(false);
        let received = to_the_end(stream);
        let mut through_stream = sender(socket, mode);
        assert_eq!(through_stream.send(parts.clone()).result.unwrap(), whole.len());
        drop(through_stream.close(Some(LONG)).unwrap());
        assert!(received.join().unwrap() == whole);

        let (receiver, socket) = udp(false);
        let mut ring = ring(mode);
        let socket = ring.add(socket);
        ring.send(socket, Message::new(parts.clone())).unwrap();
        assert_eq!(run(&mut ring).sent_bytes(), [whole.len()]);
        expect(&receiver, &whole);
    }
}

fn owners_of_every_kind() {
    let (receiver, socket) = udp(false);
    let mut sender = sender(socket, Mode::Zerocopy);
    let pool = Pool::new(1, 6, PageSize::Base).unwrap();
    let mut slice = pool.take().unwrap();
    slice.copy_from_slice(b"pooled");
    let owners: Vec<(Box<dyn StableBytes>, &[u8])> = vec![
        (Box::new(b"vector".to_vec()), b"vector"),
        (Box::new("string".to_owned()), b"string"),
        (Box::new("constant"), b"constant"),
        (Box::new(Arc::<[u8]>::from(&b"shared"[..])), b"shared"),
        (Box::new(slice), b"pooled"),
    ];
    for (owner, expected) in owners {
        assert_eq!(sender.send(owner).result.unwrap(), expected.len());
        expect(&receiver, expected);
    }
    assert_eq!(pool.free_slices(), 0);
    drop(all_releases(&mut sender));
    assert_eq!(pool.free_slices(), 1, "the slice returns with its release");
}

fn datagrams_through_a_ring() {
    testbed::need(testbed::KernelFeature::RingReports);
    for (is_v6, mode) in [false, true].into_iter().flat_map(|v6| MODES.map(|mode| (v6, mode))) {
        let (receiver, socket) = udp(is_v6);
        let mut ring = ring(mode);
        let socket = ring.add(socket);
        for (seed, length) in SIZES.into_iter().enumerate() {
            let id = ring.send(socket, Message::new(bytes(seed, length))).unwrap();
            assert_eq!(id.get(), seed as u64);
            let events = run(&mut ring);
            assert_eq!(events.sent_bytes(), [length], "{mode:?}");
            assert_eq!(fates(&events.releases), [Fate::Copied]);
            expect(&receiver, &bytes(seed, length));
        }
    }
}

fn streams_through_a_ring() {
    for (is_v6, mode) in [false, true].into_iter().flat_map(|v6| MODES.map(|mode| (v6, mode))) {
        let (stream, socket) = tcp(is_v6);
        socket.set_send_buffer_bytes(32 << 10).unwrap();
        let mut ring = ring(mode);
        let socket = ring.add(socket);
        let mut expected = Vec::new();
        // The socket is full long before all sends are taken in, and they keep their order.
        for seed in 0..200 {
            let content = bytes(seed, 10_000 + seed * 100);
            expected.extend_from_slice(&content);
            ring.send(socket, Message::new(content)).unwrap();
        }
        ring.submit().unwrap();
        let received = to_the_end(stream);
        let events = run(&mut ring);
        assert_eq!(events.sent_bytes().iter().sum::<usize>(), expected.len(), "{mode:?}");
        ring.socket(socket).unwrap().finish().unwrap();
        assert!(received.join().unwrap() == expected, "{mode:?} v6 {is_v6}");
    }
}

fn registered_and_normal_buffers_mixed() {
    let (receiver, socket) = udp(false);
    let mut ring = ring::<Box<dyn StableBytes>>(Mode::Zerocopy);
    let socket = ring.add(socket);
    let registered = Pool::new(8, 2000, PageSize::HugeIfPossible).unwrap();
    let other = Pool::new(8, 2000, PageSize::Base).unwrap();
    register(&mut ring, &registered);
    register(&mut ring, &registered);
    ring.register_slots(&[42]).unwrap();
    let mut expected = Vec::new();
    for seed in 0..12 {
        let content = bytes(seed, 2000 - seed);
        let from_pool = |pool: &Pool| {
            let mut slice = pool.take().unwrap();
            slice.truncate(content.len());
            slice.copy_from_slice(&content);
            slice
        };
        let owner: Box<dyn StableBytes> = match seed % 3 {
            0 => Box::new(content.clone()),
            1 => Box::new(from_pool(&registered)),
            _ => Box::new(from_pool(&other)),
        };
        let message = Message::new(owner);
        let message = if seed < 11 { message.bind(0) } else { message.bind_and_flush(0) };
        ring.send(socket, message).unwrap();
        expected.push(content);
    }
    let events = run(&mut ring);
    assert_eq!(events.sent_bytes().len(), 12);
    assert!(events.releases.is_empty(), "they come with the notification");
    let [notification] = &events.notifications[..] else { panic!("one was flushed") };
    assert_eq!((notification.tag, notification.sequence, notification.result), (42, 0, 0));
    assert_eq!(notification.releases.len(), 12);
    for content in expected {
        expect(&receiver, &content);
    }
    assert_eq!(registered.free_slices(), 4);
    drop(events);
    assert_eq!(registered.free_slices(), 8);
}

fn trains_of_segments() {
    for mode in MODES {
        let (receiver, socket) = udp(false);
        socket.set_segment_bytes(Some(1200)).unwrap();
        let mut sender = sender(socket, mode);
        let content = bytes(1, 40 * 1200 - 7);
        assert_eq!(sender.send(content.clone()).result.unwrap(), content.len());
        for chunk in content.chunks(1200) {
            expect(&receiver, chunk);
        }
        sender.socket().set_segment_bytes(None).unwrap();
        assert_eq!(sender.send(content.clone()).result.unwrap(), content.len());
        expect(&receiver, &content);
    }
}

/// More bytes than a packet holds, in buffers that do not end with datagrams.
fn trains_longer_than_a_packet() {
    for mode in MODES {
        for is_v6 in [false, true] {
            let (receiver, socket) = udp(is_v6);
            socket.set_segment_bytes(Some(700)).unwrap();
            let mut sender = sender(socket, mode);
            // 64 datagrams make a train.
            let content = bytes(3, 70 * 700 + 11);
            let payload: Vec<Vec<u8>> = content.chunks(9999).map(<[u8]>::to_vec).collect();
            let receives = std::thread::spawn(move || {
                content.chunks(700).for_each(|chunk| expect(&receiver, chunk));
            });
            assert_eq!(sender.send(payload).result.unwrap(), 70 * 700 + 11);
            assert_eq!(sender.counters().sends, 1);
            assert_eq!(crate::send::all_releases(&mut sender).len(), 1);
            receives.join().unwrap();
        }
    }
}

fn a_ring_sends_more_than_a_train() {
    testbed::need(testbed::KernelFeature::RingZerocopySends);
    testbed::need(testbed::KernelFeature::RingReports);
    // Three trains, the last cut short.
    let content = bytes(3, 150 * 100 + 11);
    let pool = Pool::new(1, content.len(), PageSize::Base).unwrap();
    for (mode, without_io_uring) in MODES.into_iter().flat_map(|m| [(m, false), (m, true)]) {
        let mut options = ring_options(mode);
        options.without_io_uring = without_io_uring;
        let mut slice = pool.take().unwrap();
        slice.copy_from_slice(&content);
        let parts = content.chunks(999).map(|part| Box::new(part.to_vec()) as _).collect();
        let payloads: [Payload<Box<dyn StableBytes>>; 3] = [
            Payload::One(Box::new(content.clone())),
            Payload::Many(parts),
            Payload::One(Box::new(slice)),
        ];
        let (receiver, socket) = udp(false);
        socket.set_segment_bytes(Some(100)).unwrap();
        let mut ring = uncopy::send::Ring::new(&options);
        // Without io_uring a pool is sent like other memory.
        assert_eq!(ring.register_pool(&pool).is_ok(), !without_io_uring);
        let through = ring.add(socket);
        ring.register_slots(&[9]).unwrap();
        for payload in payloads {
            ring.send(through, Message::new(payload).bind_and_flush(0)).unwrap();
            let events = run(&mut ring);
            assert_eq!(events.sent_bytes(), [content.len()], "one result");
            let [notification] = <[_; 1]>::try_from(events.notifications).unwrap();
            let [release] = <[_; 1]>::try_from(notification.releases.into_vec()).unwrap();
            assert_eq!((release.bytes, release.fate), (content.len(), Fate::Copied));
            content.chunks(100).for_each(|chunk| expect(&receiver, chunk));
        }
        assert_eq!(ring.counters(through).unwrap().sends, 3);
    }
}

fn datagrams_that_a_ring_joins_to_trains() {
    for without_io_uring in [false, true] {
        let (receiver, socket) = udp(false);
        socket.set_segment_bytes(Some(500)).unwrap();
        let mut options = ring_options(Mode::Zerocopy);
        options.without_io_uring = without_io_uring;
        let mut ring = uncopy::send::Ring::new(&options);
        let through = ring.add(socket);
        ring.register_slots(&[9]).unwrap();
        let lengths = [500, 500, 300, 500, 1000, 100, 500];
        let buffers: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(seed, length)| bytes(seed, *length)).collect();
        ring.send_batch(through, buffers.clone(), 0).unwrap();
        let events = run(&mut ring);
        assert_eq!(events.sent_bytes(), [1300, 1600, 500], "each is cut where a buffer ends");
        let released = events.notifications[0].releases.iter();
        let released: Vec<_> = released.flat_map(|release| release.payload.as_slice()).collect();
        assert_eq!(released.len(), lengths.len());
        for buffer in &buffers {
            buffer.chunks(500).for_each(|chunk| expect(&receiver, chunk));
        }
        ring.send_batch(through, Vec::new(), 0).unwrap();
        let many: Vec<Vec<u8>> = (0..40).map(|seed| bytes(seed, 500)).collect();
        ring.send_batch(through, many.clone(), 0).unwrap();
        let events = run(&mut ring);
        let sent = events.sent_bytes();
        assert!((3..=8).contains(&sent.len()), "as many pages as a packet holds: {sent:?}");
        assert_eq!(events.notifications.len(), 1);
        many.iter().for_each(|buffer| expect(&receiver, buffer));
    }
}

fn batches_of_trains_under_one_notification() {
    let (receiver, socket) = udp(false);
    socket.set_segment_bytes(Some(1200)).unwrap();
    let (stream, stream_socket) = tcp(false);
    let received = to_the_end(stream);
    let mut ring = ring(Mode::Zerocopy);
    let (datagrams, through) = (ring.add(socket), ring.add(stream_socket));
    let length = uncopy::send::train_bytes(1200, false);
    let pool = Pool::new(6, length, PageSize::Base).unwrap();
    register(&mut ring, &pool);
    ring.register_slots(&[5]).unwrap();
    let trains = |seeds: std::ops::Range<usize>| -> Vec<_> {
        let fill = |seed| {
            let mut slice = pool.take().unwrap();
            slice.copy_from_slice(&bytes(seed, length));
            slice
        };
        seeds.map(fill).collect()
    };
    // As many as the receiver's buffer holds.
    for seed in 0..3 {
        ring.send_batch(datagrams, trains(seed..seed + 1), 0).unwrap();
        let events = run(&mut ring);
        assert_eq!(events.sent_bytes(), [length]);
        assert_eq!(events.notifications[0].releases.len(), 1);
        for chunk in bytes(seed, length).chunks(1200) {
            expect(&receiver, chunk);
        }
    }
    ring.send_batch(through, trains(0..6), 0).unwrap();
    let events = run(&mut ring);
    assert_eq!(events.notifications[0].sequence, 3);
    assert_eq!(events.notifications[0].releases.len(), 6);
    drop(ring);
    let expected: Vec<u8> = (0..6).flat_map(|seed| bytes(seed, length)).collect();
    assert!(received.join().unwrap() == expected);
}

fn without_io_uring() {
    let mut options = ring_options(Mode::Zerocopy);
    options.without_io_uring = true;
    let mut ring = uncopy::send::Ring::new(&options);
    assert!(ring.io_uring_refusal().is_some());
    let (receiver, socket) = udp(false);
    let (stream, stream_socket) = tcp(true);
    let (datagrams, through) = (ring.add(socket), ring.add(stream_socket));
    let received = to_the_end(stream);
    ring.register_slots(&[1, 2]).unwrap();
    for seed in 0..10 {
        ring.send(datagrams, Message::new(bytes(seed, 3000)).bind(0)).unwrap();
        ring.send(through, Message::new(bytes(seed, 3000)).bind(1)).unwrap();
    }
    ring.flush(&[1, 0]).unwrap();
    let events = run(&mut ring);
    assert_eq!(events.sent_bytes().len(), 20);
    let mut tags: Vec<_> = events.notifications.iter().map(|n| n.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, [1, 2]);
    assert!(events.notifications.iter().all(|n| n.releases.len() == 10));
    for seed in 0..10 {
        expect(&receiver, &bytes(seed, 3000));
    }
    drop(ring);
    let expected: Vec<u8> = (0..10).flat_map(|seed| bytes(seed, 3000)).collect();
    assert!(received.join().unwrap() == expected);
}
