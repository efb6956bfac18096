//! Tests other entries in the error queue, and sends that are refused below the socket: the count of lent
//! sends must continue with the right number, or buffers that the kernel still reads would be released.

use std::sync::Arc;

use testbed::network::{End, NEEDS, Network, Reports, isolated, reporting};
use testbed::{Case, Need, cases, seeded};
use uncopy::Errno;
use uncopy::send::{FallbackReason, Fate, InetSocket, Message, Mode, Ring, Sender};

use crate::send::receiver::{expect, refusing_port, tcp, to_the_end, udp, until_refused};
use crate::send::{LONG, all_releases, fates, filter, ring_options, run, sender};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![
        [] refusals_of_the_peers_host_among_lent_sends,
        [] time_stamps_among_lent_sends,
        [] a_refusal_that_makes_the_count_uncertain,
        [] sockets_without_zerocopy_copy,
    ];
    let named = |name: &str, needs: &[Need], body: fn()| {
        Case::new(format!("refusals::{name}"), needs, body)
    };
    let with_nft = [NEEDS, &[Need::Tool("nft")]].concat();
    cases.extend([
        named("time_stamps_over_a_device", NEEDS, time_stamps_over_a_device),
        named("a_full_send_buffer_is_named", NEEDS, a_full_send_buffer_is_named),
        named("segments_above_the_mtu_are_named", NEEDS, segments_above_the_mtu_are_named),
        named("a_firewall_that_drops_some", &with_nft, a_firewall_that_drops_some),
        named("a_firewall_before_a_backlog", &with_nft, a_firewall_before_a_backlog),
    ]);
    cases
}

/// ICMP reports that one port is closed; another port is sent to through the same socket.
fn refusals_of_the_peers_host_among_lent_sends() {
    for is_v6 in [false, true] {
        until_refused(|| refusals_among_sends(is_v6));
    }
}

/// Sends to a closed port and to an open one, and returns the number of refusals that were reported.
fn refusals_among_sends(is_v6: bool) -> usize {
    let (receiver, listening) = udp(is_v6);
    drop(listening);
    let to = receiver.local_addr().unwrap();
    let refusing = refusing_port(is_v6);
    let mut sender =
        sender(reporting(refusing.local_addr().unwrap(), Reports::Refusals), Mode::Zerocopy);
    let (mut refused, mut into_the_void) = (0, 0);
    for seed in 0..60 {
        let content = seeded(seed, 0, 3000);
        let sent = match seed % 2 {
            0 => sender.send(content),
            _ => sender.send_to(content, to),
        };
        match sent.result {
            Ok(_) if seed % 2 == 0 => into_the_void += 1,
            Ok(_) => expect(&receiver, &seeded(seed, 0, 3000)),
            Err(error) => {
                assert_eq!(error.errno(), Some(Errno::ECONNREFUSED), "{error}");
                refused += 1;
            }
        }
    }
    let releases = all_releases(&mut sender);
    assert_eq!(releases.len(), 60);
    let unsent = fates(&releases).iter().filter(|fate| **fate == Fate::Unsent).count();
    let counters = sender.counters();
    assert_eq!((unsent, counters.failed_sends), (refused, refused as u64));
    assert!(counters.foreign_errors <= into_the_void, "{counters:?}");
    assert!(counters.fallbacks.is_empty(), "{counters:?}");
    if counters.foreign_errors > 0 {
        assert_eq!(counters.last_foreign_error, Some(Errno::ECONNREFUSED));
    }
    counters.foreign_errors as usize
}

const STAMPS: [Reports; 2] =
    [Reports::TimeStamps { with_packets: false }, Reports::TimeStamps { with_packets: true }];

/// The report of a time stamp has the number of a send where a report of released memory has its range.
fn time_stamps_among_lent_sends() {
    for (is_v6, reports) in [false, true].into_iter().flat_map(|v6| STAMPS.map(|r| (v6, r))) {
        let (receiver, listening) = udp(is_v6);
        drop(listening);
        let socket = reporting(receiver.local_addr().unwrap(), reports);
        let mut sender = sender(socket, Mode::Zerocopy);
        for seed in 0..60 {
            assert_eq!(sender.send(seeded(seed, 0, 2000)).result.unwrap(), 2000);
            expect(&receiver, &seeded(seed, 0, 2000));
        }
        assert_eq!(fates(&all_releases(&mut sender)), [Fate::Copied; 60]);
        let counters = sender.counters();
        // Two reports for each send, as far as the socket has room for the packets.
        let min_reports = if reports == STAMPS[0] { 120 } else { 30 };
        assert!((min_reports..=120).contains(&counters.foreign_errors), "{reports:?} {counters:?}");
        assert_eq!(counters.last_foreign_error, Some(Errno::from_raw(libc::ENOMSG)));
        assert!(counters.fallbacks.is_empty(), "{counters:?}");
    }
}

/// The device needs no copy, but a time stamp that returns the packet does.
fn time_stamps_over_a_device() {
    isolated(|network| {
        network.sink();
        for (is_v6, reports) in [false, true].into_iter().flat_map(|v6| STAMPS.map(|r| (v6, r))) {
            let socket = reporting(End::Far.address(is_v6, 9), reports);
            let mut sender = sender(socket, Mode::Zerocopy);
            for seed in 0..60 {
                assert_eq!(sender.send(seeded(seed, 0, 2000)).result.unwrap(), 2000);
            }
            let is_kept = reports == Reports::TimeStamps { with_packets: true };
            let expected = if is_kept { Fate::Copied } else { Fate::NotCopied };
            assert_eq!(fates(&all_releases(&mut sender)), [expected; 60], "{reports:?}");
            assert!(sender.counters().foreign_errors >= 60, "{:?}", sender.counters());
        }
    });
}

/// Drops packets to port 9, and refuses the send (`EPERM`).
fn drop_all(network: &Network) {
    network.nft("add table inet test");
    network.nft("add chain inet test out { type filter hook output priority 0 ; }");
    network.nft("add rule inet test out udp dport 9 drop");
}

fn let_pass(network: &Network) {
    network.nft("delete table inet test");
}

#[track_caller]
fn is_dropped(sender: &mut Sender<Arc<Vec<u8>>>, buffer: &Arc<Vec<u8>>) {
    let error = sender.send(buffer.clone()).result.unwrap_err();
    assert_eq!(error.errno(), Some(Errno::EPERM), "{error}");
}

fn uncertain<B: uncopy::send::StableBytes>(sender: &Sender<B>) -> u64 {
    sender.counters().fallbacks_for(FallbackReason::CountUncertain)
}

fn a_firewall_that_drops_some() {
    isolated(|network| {
        network.sink();
        for is_v6 in [false, true] {
            let socket = InetSocket::connect_udp(End::Far.address(is_v6, 9)).unwrap();
            let mut sender = sender(socket, Mode::Zerocopy);
            let buffer = Arc::new(seeded(1, 0, 9000));
            for round in 0..4 {
                sender.send(buffer.clone()).result.unwrap();
                drop_all(network);
                is_dropped(&mut sender, &buffer);
                is_dropped(&mut sender, &buffer);
                let_pass(network);
                sender.send(buffer.clone()).result.unwrap();
                let mut releases = all_releases(&mut sender);
                releases.sort_by_key(|release| release.id);
                let expected = [Fate::NotCopied, Fate::Unsent, Fate::Unsent, Fate::NotCopied];
                assert_eq!(fates(&releases), expected, "round {round}, v6 {is_v6}");
                drop(releases);
                assert_eq!(Arc::strong_count(&buffer), 1);
            }
            assert_eq!((uncertain(&sender), sender.counters().failed_sends), (0, 8));
        }
    });
}

/// Nothing was lent, and the advice was to wait for releases.
fn a_full_send_buffer_is_named() {
    isolated(|network| {
        network.sink();
        network.ip("link set sink mtu 1500");
        for mode in [Mode::Copy, Mode::Zerocopy] {
            let socket = InetSocket::connect_udp(End::Far.address(false, 9)).unwrap();
            socket.set_send_buffer_bytes(2048).unwrap();
            let sent = sender(socket, mode).send(seeded(1, 0, 60_000));
            let error = sent.result.unwrap_err();
            assert_eq!(error.errno(), Some(Errno::ENOBUFS), "{mode:?}: {error}");
            assert!(error.to_string().contains("SO_SNDBUF"), "{mode:?}: {error}");
        }
    });
}

/// The advice was about datagrams of 65,507 bytes.
fn segments_above_the_mtu_are_named() {
    isolated(|network| {
        network.sink();
        network.ip("link set sink mtu 1500");
        let socket = InetSocket::connect_udp(End::Far.address(false, 9)).unwrap();
        socket.set_segment_bytes(Some(1473)).unwrap();
        let mut sender = sender(socket, Mode::Zerocopy);
        let error = sender.send(seeded(1, 0, 30_000)).result.unwrap_err();
        // EINVAL before Linux 6.14.
        if error.errno() == Some(Errno::EMSGSIZE) {
            assert!(error.to_string().contains("UDP_SEGMENT"), "{error}");
        }
    });
}

/// Datagrams wait in the device's queue while others are refused: only the refused ones are released.
fn a_firewall_before_a_backlog() {
    isolated(|network| {
        network.sink();
        for is_v6 in [false, true] {
            network.tc("qdisc add dev sink root tbf rate 8kbit burst 10000 limit 10000000");
            let socket = InetSocket::connect_udp(End::Far.address(is_v6, 9)).unwrap();
            socket.set_send_buffer_bytes(4 << 20).unwrap();
            let mut sender = sender(socket, Mode::Zerocopy);
            let buffers: Vec<_> = (0..12).map(|seed| Arc::new(seeded(seed, 0, 9000))).collect();
            let is_refused = |place: usize| place % 4 >= 2;
            for (place, buffer) in buffers.iter().enumerate() {
                match place % 4 {
                    2 => drop_all(network),
                    0 if place > 0 => let_pass(network),
                    _ => {}
                }
                match is_refused(place) {
                    true => is_dropped(&mut sender, buffer),
                    false => assert_eq!(sender.send(buffer.clone()).result.unwrap(), 9000),
                }
            }
            let_pass(network);
            while let Some(release) = sender.next_release().unwrap() {
                // The queue lets the first go at once.
                let place = release.id.get() as usize;
                assert!(is_refused(place) || place == 0, "{place} waits in the queue");
            }
            assert!(sender.outstanding().sends >= 5);
            for (place, buffer) in buffers.iter().enumerate().skip(1) {
                let owners = if is_refused(place) { 1 } else { 2 };
                assert_eq!(Arc::strong_count(buffer), owners, "{place}, v6 {is_v6}");
            }
            network.tc("qdisc del dev sink root");
            drop(all_releases(&mut sender));
            assert!(buffers.iter().all(|buffer| Arc::strong_count(buffer) == 1));
            assert_eq!((uncertain(&sender), sender.counters().copied_sends), (0, 0));
        }
    });
}

/// A filter refuses before the kernel counts, but a firewall refuses with the same error after it has counted,
/// so the count is uncertain.
fn a_refusal_that_makes_the_count_uncertain() {
    filter::under([], Errno::EPERM, || {
        let (receiver, socket) = udp(true);
        let (stream, stream_socket) = tcp(false);
        let received = to_the_end(stream);
        let [mut datagrams, mut through] =
            [socket, stream_socket].map(|socket| sender::<Vec<u8>>(socket, Mode::Zerocopy));
        for sender in [&mut datagrams, &mut through] {
            for seed in 0..3 {
                assert_eq!(sender.send(seeded(seed, 0, 3000)).result.unwrap(), 3000);
            }
        }
        filter::refuse([filter::lent_sends()], Errno::EPERM);
        for sender in [&mut datagrams, &mut through] {
            let error = sender.send(vec![1; 3000]).result.unwrap_err();
            assert_eq!(error.errno(), Some(Errno::EPERM), "{error}");
        }
        // A stream counts only sends that took bytes.
        let error = through.send(vec![1; 3000]).result.unwrap_err();
        assert_eq!((error.errno(), uncertain(&through)), (Some(Errno::EPERM), 0));
        for seed in 3..6 {
            assert_eq!(datagrams.send(seeded(seed, 0, 3000)).result.unwrap(), 3000);
        }
        assert_eq!(uncertain(&datagrams), 3);
        (0..6).for_each(|seed| expect(&receiver, &seeded(seed, 0, 3000)));
        assert_eq!(all_releases(&mut datagrams).len(), 7, "earlier lent buffers are released");
        assert_eq!(through.close(Some(LONG)).unwrap().0.len(), 5);
        assert_eq!(received.join().unwrap().len(), 9000);
    });
}

/// As on Linux before 4.14, or under a filter.
fn sockets_without_zerocopy_copy() {
    let rules = [filter::io_uring(), filter::so_zerocopy()];
    filter::under(rules, Errno::from_raw(libc::ENOPROTOOPT), || {
        for mode in [Mode::Zerocopy, Mode::Auto] {
            let (receiver, socket) = udp(false);
            let (stream, stream_socket) = tcp(true);
            let received = to_the_end(stream);
            let mut expected = Vec::new();
            let [mut datagrams, mut through] =
                [socket, stream_socket].map(|socket| sender::<Vec<u8>>(socket, mode));
            for seed in 0..20 {
                let content = seeded(seed, 0, 40_000);
                expected.extend_from_slice(&content);
                assert_eq!(datagrams.send(content.clone()).result.unwrap(), 40_000);
                expect(&receiver, &content);
                assert_eq!(through.send(content).result.unwrap(), 40_000);
            }
            for sender in [&mut datagrams, &mut through] {
                assert_eq!(fates(&all_releases(sender)), [Fate::Copied; 20]);
                let counters = sender.counters();
                assert_eq!(counters.fallbacks_for(FallbackReason::NotSupported), 20);
                assert_eq!((counters.fallbacks.len(), counters.failed_sends), (1, 0));
            }
            drop(through.close(Some(LONG)).unwrap());
            assert!(received.join().unwrap() == expected);
        }
        let (receiver, socket) = udp(true);
        let mut ring = Ring::new(&ring_options(Mode::Zerocopy));
        assert!(ring.io_uring_refusal().is_some());
        let through = ring.add(socket);
        for seed in 0..5 {
            ring.send(through, Message::new(seeded(seed, 0, 40_000))).unwrap();
            assert_eq!(fates(&run(&mut ring).releases), [Fate::Copied]);
            expect(&receiver, &seeded(seed, 0, 40_000));
        }
        let counters = ring.counters(through).unwrap();
        assert_eq!(counters.fallbacks_for(FallbackReason::NotSupported), 5, "{counters:?}");
    });
}
