//! Tests loopback, over which the kernel copies and reports it.

use testbed::{Case, cases};
use uncopy::send::{FallbackReason, Fate, Message, Mode, PageSize, Pool, PoolSlice, Ring};

use crate::send::receiver::{tcp, to_the_end, udp};
use crate::send::{LONG, all_releases, fates, register, ring, ring_options, run, sender};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        [] auto_stops_lending_over_loopback,
        [] auto_in_a_ring_stops_lending_over_loopback,
        [] auto_in_a_ring_stops_lending_streams_over_loopback,
        [] zerocopy_over_loopback_is_copied_and_reported,
        [] huge_pages_arrive_over_loopback,
        [] a_local_socket_is_refused,
        [] a_filter_that_forbids_io_uring,
        [] errors_name_the_operation_and_the_next_step,
    ]
}

fn auto_stops_lending_over_loopback() {
    let (_receiver, socket) = udp(false);
    let mut sender = sender(socket, Mode::Auto);
    for _ in 0..300 {
        sender.send(vec![1; 40_000]).result.unwrap();
        assert_eq!(fates(&all_releases(&mut sender)), [Fate::Copied]);
    }
    let counters = sender.counters();
    let rested = counters.fallbacks_for(FallbackReason::PathCopies);
    assert!(rested > 250, "{counters:?}");
    assert_eq!((counters.copied_sends, counters.copied_bytes), (300, 300 * 40_000));
}

fn auto_in_a_ring_stops_lending_over_loopback() {
    testbed::need(testbed::KernelFeature::RingReports);
    let (_receiver, socket) = udp(true);
    let mut ring = ring(Mode::Auto);
    let socket = ring.add(socket);
    let pool = Pool::new(1, 40_000, PageSize::Base).unwrap();
    register(&mut ring, &pool);
    for _ in 0..300 {
        ring.send(socket, Message::new(pool.take().unwrap())).unwrap();
        assert_eq!(fates(&run(&mut ring).releases), [Fate::Copied]);
    }
    let counters = ring.counters(socket).unwrap();
    assert!(counters.fallbacks_for(FallbackReason::PathCopies) > 250, "{counters:?}");
}

/// The reports of joined sends are unreliable; tested with one send at a time, and with many.
fn auto_in_a_ring_stops_lending_streams_over_loopback() {
    testbed::need(testbed::KernelFeature::RingReports);
    for at_once in [1, 32] {
        let (stream, socket) = tcp(false);
        let received = to_the_end(stream);
        let mut ring = ring(Mode::Auto);
        let socket = ring.add(socket);
        let rounds = 3200 / at_once;
        for _ in 0..rounds {
            for _ in 0..at_once {
                ring.send(socket, Message::new(vec![1; 40_000])).unwrap();
            }
            let fates = fates(&run(&mut ring).releases);
            assert!(!fates.contains(&Fate::NotCopied), "{fates:?}");
            assert!(at_once > 1 || fates == [Fate::Copied], "{fates:?}");
        }
        let counters = ring.counters(socket).unwrap();
        // Both kinds may have been tried before the path was known to copy.
        let tried = counters.fallbacks_for(FallbackReason::CopyingIsCheaper);
        let rested = counters.fallbacks_for(FallbackReason::PathCopies) + tried;
        assert!(rested > 1600, "{at_once} at once: {counters:?}");
        drop(ring);
        assert_eq!(received.join().unwrap().len(), 3200 * 40_000);
    }
}

fn zerocopy_over_loopback_is_copied_and_reported() {
    let (stream, socket) = tcp(false);
    let received = to_the_end(stream);
    let mut sender = sender(socket, Mode::Zerocopy);
    for _ in 0..50 {
        sender.send(vec![1; 30_000]).result.unwrap();
    }
    assert!(fates(&all_releases(&mut sender)).iter().all(|fate| *fate == Fate::Copied));
    drop(sender.close(Some(LONG)).unwrap());
    assert_eq!(received.join().unwrap().len(), 50 * 30_000);

    // io_uring's reports of copies over TCP are unreliable.
    let (stream, socket) = tcp(false);
    let received = to_the_end(stream);
    let mut ring = ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    for _ in 0..50 {
        ring.send(socket, Message::new(vec![1; 30_000])).unwrap();
    }
    let events = run(&mut ring);
    assert!(!fates(&events.releases).contains(&Fate::NotCopied));
    drop(ring);
    assert_eq!(received.join().unwrap().len(), 50 * 30_000);
}

/// Sent as registered memory, the first datagram would fill the receive buffer, and the stream would stall.
fn huge_pages_arrive_over_loopback() {
    const SLICES: usize = 300;
    let length = 8000;
    let pool = Pool::new(SLICES, length, PageSize::HugeIfPossible).unwrap();
    let mut content = Vec::new();
    let mut ring = ring::<PoolSlice>(Mode::Zerocopy);
    register(&mut ring, &pool);
    let (receiver, socket) = udp(false);
    let (stream, stream_socket) = tcp(true);
    let (datagrams, through) = (ring.add(socket), ring.add(stream_socket));
    let received = to_the_end(stream);
    // From the beginning of the first page to the middle of the second.
    let slices: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    for (seed, mut slice) in slices.into_iter().enumerate() {
        slice.copy_from_slice(&testbed::seeded(seed as u64, 0, length as u64));
        content.push(slice.to_vec());
        ring.send(through, Message::new(slice)).unwrap();
    }
    let events = run(&mut ring);
    assert_eq!(events.sent_bytes(), [length; SLICES]);
    let mut sent = Vec::new();
    for release in events.releases.into_iter().skip(SLICES - 16) {
        let slice = release.payload.into_one().unwrap();
        sent.push(slice.to_vec());
        ring.send(datagrams, Message::new(slice)).unwrap();
    }
    run(&mut ring);
    sent.iter().for_each(|datagram| crate::send::receiver::expect(&receiver, datagram));
    for (socket, sends) in [(through, SLICES), (datagrams, 16)] {
        let expected = if pool.pages().are_huge() { sends as u64 } else { 0 };
        assert_eq!(ring.counters(socket).unwrap().huge_pages_unnamed, expected);
    }
    drop(ring);
    assert!(received.join().unwrap() == content.concat());
}

fn a_local_socket_is_refused() {
    let error = testbed::network::refusal_of_a_local_socket().to_string();
    assert!(error.contains("local socket") && error.contains("plain write"), "{error}");
}

fn a_filter_that_forbids_io_uring() {
    crate::send::filter::under([crate::send::filter::io_uring()], uncopy::Errno::EPERM, || {
        let (receiver, socket) = udp(false);
        let mut ring = Ring::new(&ring_options(Mode::Zerocopy));
        assert_eq!(ring.io_uring_refusal(), Some(uncopy::Errno::EPERM));
        let pool = Pool::new(1, 3000, PageSize::Base).unwrap();
        let error = ring.register_pool(&pool).unwrap_err();
        assert_eq!(error.errno(), Some(uncopy::Errno::EOPNOTSUPP));
        let socket = ring.add(socket);
        ring.send(socket, Message::new(pool.take().unwrap())).unwrap();
        assert_eq!(run(&mut ring).sent_bytes(), [3000]);
        crate::send::receiver::expect(&receiver, &[0; 3000]);
    });
}

fn errors_name_the_operation_and_the_next_step() {
    let (receiver, socket) = tcp(false);
    let address = receiver.local_addr().unwrap();
    drop((receiver, socket));
    let error = uncopy::send::InetSocket::connect_tcp(address).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot connect to tcp {address}: ")), "{error}");
    assert!(error.contains("ECONNREFUSED") && error.contains("; start the receiver"), "{error}");
    let elsewhere = "192.0.2.1:5".parse().unwrap();
    let error = uncopy::send::InetSocket::bind_udp(elsewhere).unwrap_err().to_string();
    assert!(error.contains("cannot bind udp 192.0.2.1:5") && error.contains("address"), "{error}");
}
