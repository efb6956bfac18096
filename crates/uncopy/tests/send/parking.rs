//! Tests memory whose sender was dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use testbed::network::{End, NEEDS, Network, isolated};
use testbed::{Case, cases};
use uncopy::send::{InetSocket, Message, Mode, Ring, Sender};

use crate::send::receiver::{tcp, to_the_end, udp};
use crate::send::{LONG, options, ring, ring_options, sender};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![
        [] buffers_come_free_after_the_sender_is_dropped,
        [] a_panic_releases_nothing_early,
        [] a_forgotten_sender_keeps_its_buffers,
        [] a_ring_that_is_dropped_before_it_submits,
        [] completions_are_taken_in_by_the_drop,
    ];
    let named = |name: &str, body: fn()| Case::new(format!("parking::{name}"), NEEDS, body);
    cases.extend([
        named("memory_stays_while_the_device_has_it", memory_stays_while_the_device_has_it),
        named("a_silent_connection_is_aborted", a_silent_connection_is_aborted),
        named("a_dropped_ring_is_parked", a_dropped_ring_is_parked),
        named("a_thread_ends_with_its_rings", a_thread_ends_with_its_rings),
    ]);
    cases
}

/// Returns whether only the test has the buffer.
fn is_free(buffer: &Arc<Vec<u8>>) -> bool {
    Arc::strong_count(buffer) == 1
}

#[track_caller]
fn wait_until_free(buffer: &Arc<Vec<u8>>) {
    let begin = Instant::now();
    while !is_free(buffer) {
        assert!(begin.elapsed() < LONG, "it is never released");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn buffers_come_free_after_the_sender_is_dropped() {
    for _ in 0..20 {
        let (stream, socket) = tcp(false);
        let received = to_the_end(stream);
        let mut sender = sender(socket, Mode::Zerocopy);
        let buffer = Arc::new(vec![5; 300_000]);
        sender.send(buffer.clone()).result.unwrap();
        drop(sender);
        wait_until_free(&buffer);
        assert_eq!(received.join().unwrap(), *buffer, "and what was sent arrives");
    }
}

fn a_panic_releases_nothing_early() {
    let (receiver, socket) = udp(false);
    let buffer = Arc::new(vec![5; 3000]);
    let inside = buffer.clone();
    let ended = std::thread::spawn(move || {
        let mut sender = sender(socket, Mode::Zerocopy);
        sender.send(inside).result.unwrap();
        std::panic::resume_unwind(Box::new("on purpose"));
    })
    .join();
    assert!(ended.is_err());
    wait_until_free(&buffer);
    crate::send::receiver::expect(&receiver, &buffer);
}

fn a_forgotten_sender_keeps_its_buffers() {
    let (_receiver, socket) = udp(false);
    let buffer = Arc::new(vec![5; 3000]);
    let mut sender = sender(socket, Mode::Zerocopy);
    sender.send(buffer.clone()).result.unwrap();
    std::mem::forget(sender);
    std::thread::sleep(Duration::from_millis(20));
    assert!(!is_free(&buffer));
}

fn a_ring_that_is_dropped_before_it_submits() {
    let (receiver, socket) = udp(false);
    receiver.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let buffer = Arc::new(vec![5; 3000]);
    let mut ring = ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    ring.send(socket, Message::new(buffer.clone())).unwrap();
    drop(ring);
    assert!(is_free(&buffer));
    assert!(receiver.recv(&mut [0; 10]).is_err(), "nothing was sent");
}

fn memory_stays_while_the_device_has_it() {
    isolated(|network| {
        network.sink();
        // Delays the second datagram by a minute.
        network.tc("qdisc add dev sink root tbf rate 8kbit burst 10000 limit 10000000");
        let mut options = options(Mode::Zerocopy);
        options.park_timeout = Duration::from_millis(1);
        let socket = InetSocket::connect_udp(End::Far.address(false, 9)).unwrap();
        let mut sender = Sender::new(socket, &options);
        let buffers: Vec<_> = (0..3).map(|n| Arc::new(vec![n; 9000])).collect();
        for buffer in &buffers {
            sender.send(buffer.clone()).result.unwrap();
        }
        drop(sender);
        std::thread::sleep(Duration::from_millis(700));
        assert!(!is_free(&buffers[2]), "the device still reads it after the timeout");
        assert!(uncopy::send::parked() >= 1);
        network.tc("qdisc del dev sink root");
        buffers.iter().for_each(wait_until_free);
    });
}

fn a_silent_connection_is_aborted() {
    isolated(|network| {
        network.sink();
        let mut options = options(Mode::Zerocopy);
        options.park_timeout = Duration::from_millis(50);
        let mut sender = Sender::new(network.silent_connection(true, 4000), &options);
        let buffer = Arc::new(vec![5; 60_000]);
        sender.send(buffer.clone()).result.unwrap();
        assert!(!is_free(&buffer), "it is not acknowledged");
        let begin = Instant::now();
        drop(sender);
        wait_until_free(&buffer);
        assert!(begin.elapsed() >= options.park_timeout, "not before the timeout");
    });
}

/// Makes a ring with a buffer that is never acknowledged, and a drop timeout of 300 ms.
fn waiting_ring(network: &Network, buffer: &Arc<Vec<u8>>) -> Ring<Arc<Vec<u8>>> {
    let mut options = ring_options(Mode::Zerocopy);
    options.drop_timeout = Duration::from_millis(300);
    let mut ring = Ring::new(&options);
    let socket = ring.add(network.silent_connection(false, 4000));
    ring.send(socket, Message::new(buffer.clone())).unwrap();
    ring.submit().unwrap();
    assert!(!is_free(buffer), "it is not acknowledged");
    ring
}

fn a_dropped_ring_is_parked() {
    isolated(|network| {
        network.sink();
        let buffer = Arc::new(vec![5; 60_000]);
        let ring = waiting_ring(network, &buffer);
        let begin = Instant::now();
        drop(ring);
        assert!(!is_free(&buffer) && uncopy::send::parked() >= 1, "{:?}", begin.elapsed());
        // The parking thread aborts the connection in time; using any ring takes in the release.
        let mut other = crate::send::ring::<Vec<u8>>(Mode::Copy);
        while !is_free(&buffer) {
            assert!(begin.elapsed() < LONG, "it is never released");
            std::thread::sleep(Duration::from_millis(5));
            other.submit().unwrap();
        }
        assert!(begin.elapsed() >= Duration::from_millis(300), "not before the timeout");
    });
}

fn a_thread_ends_with_its_rings() {
    let buffer = Arc::new(vec![5; 60_000]);
    // `isolated` runs in a thread of its own.
    isolated(|network| {
        network.sink();
        drop(waiting_ring(network, &buffer));
        assert!(!is_free(&buffer));
    });
    wait_until_free(&buffer);
}

fn completions_are_taken_in_by_the_drop() {
    let (_receiver, socket) = udp(false);
    let buffer = Arc::new(vec![5; 3000]);
    let mut ring = crate::send::ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    for _ in 0..100 {
        ring.send(socket, Message::new(buffer.clone())).unwrap();
    }
    ring.submit().unwrap();
    drop(ring);
    let mut other = crate::send::ring::<Vec<u8>>(Mode::Copy);
    other.submit().unwrap();
    assert!(is_free(&buffer));
}
