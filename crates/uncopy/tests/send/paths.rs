//! Tests how devices treat lent memory. Each test has its own network.

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use testbed::network::{End, NEEDS, Tap, isolated, linked};
use testbed::{Case, Need, seeded};
use uncopy::send::{
    FallbackReason, Fate, InetSocket, Message, Mode, PageSize, Pool, RingEvent, Sender,
};

use crate::send::{LONG, all_releases, fates, options, register, ring, run, sender};

pub(crate) fn cases() -> Vec<Case> {
    let named = |name: &str, body: fn()| Case::new(format!("paths::{name}"), NEEDS, body);
    let with_ethtool = |name: &str, body: fn()| {
        let needs = [NEEDS, &[Need::Tool("ethtool")]].concat();
        Case::new(format!("paths::{name}"), &needs, body)
    };
    vec![
        named("udp_over_a_device_is_not_copied", udp_over_a_device_is_not_copied),
        named("udp_through_a_ring_is_not_copied", udp_through_a_ring_is_not_copied),
        named("tcp_over_a_device_is_not_copied", tcp_over_a_device_is_not_copied),
        named("tcp_through_a_ring_makes_no_false_claim", tcp_through_a_ring_makes_no_false_claim),
        named("a_tap_copies_while_it_runs", a_tap_copies_while_it_runs),
        named("auto_follows_a_tap", auto_follows_a_tap),
        named("auto_tries_both_kinds", auto_tries_both_kinds),
        named("datagrams_longer_than_the_mtu_are_copied", datagrams_longer_than_the_mtu_are_copied),
        named("auto_learns_each_path_separately", auto_learns_each_path_separately),
        named("a_new_peer_is_a_new_path", a_new_peer_is_a_new_path),
        named("a_device_that_goes_down", a_device_that_goes_down),
        named("a_device_that_goes_down_with_a_backlog", a_device_that_goes_down_with_a_backlog),
        named("a_train_that_is_refused_is_counted", a_train_that_is_refused_is_counted),
        with_ethtool("without_scatter_gather", without_scatter_gather),
        with_ethtool("without_checksum_offload", without_checksum_offload),
        with_ethtool(
            "tcp_without_scatter_gather_claims_nothing",
            tcp_without_scatter_gather_claims_nothing,
        ),
        with_ethtool(
            "auto_stops_where_the_device_has_no_scatter_gather",
            auto_stops_where_the_device_has_no_scatter_gather,
        ),
    ]
}

const PORT: u16 = 9;

fn over_the_sink(is_v6: bool) -> InetSocket {
    InetSocket::connect_udp(End::Far.address(is_v6, PORT)).unwrap()
}

/// Sends `count` datagrams; returns their fates.
#[track_caller]
fn send_some(sender: &mut Sender<Vec<u8>>, count: u64, length: usize) -> Vec<Fate> {
    for seed in 0..count {
        let sent = sender.send(seeded(seed, 0, length as u64));
        assert_eq!(sent.result.unwrap(), length);
    }
    fates(&all_releases(sender))
}

#[track_caller]
fn assert_all(fates: &[Fate], fate: Fate) {
    assert!(!fates.is_empty() && fates.iter().all(|found| *found == fate), "{fates:?}");
}

fn udp_over_a_device_is_not_copied() {
    isolated(|network| {
        network.sink();
        for is_v6 in [false, true] {
            for length in [0, 1, 1500, 9000, 64_000] {
                let mut sender = sender(over_the_sink(is_v6), Mode::Zerocopy);
                assert_all(&send_some(&mut sender, 50, length), Fate::NotCopied);
                assert!(sender.counters().is_zero_copy());
                assert_eq!(sender.counters().not_copied_bytes, 50 * length as u64);
            }
            let mut copying = sender(over_the_sink(is_v6), Mode::Copy);
            assert_all(&send_some(&mut copying, 5, 9000), Fate::Copied);
            assert_eq!(copying.counters().fallbacks_for(FallbackReason::CopyRequested), 5);
            let mut auto = sender(over_the_sink(is_v6), Mode::Auto);
            assert_all(&send_some(&mut auto, 50, 64_000), Fate::NotCopied);
            assert_all(&send_some(&mut auto, 50, 1000), Fate::Copied);
            assert_eq!(auto.counters().fallbacks_for(FallbackReason::TooSmall), 50);
        }
    });
}

fn udp_through_a_ring_is_not_copied() {
    isolated(|network| {
        network.sink();
        let pool = Pool::new(64, 32_000, PageSize::HugeIfPossible).unwrap();
        for is_v6 in [false, true] {
            let mut registered = ring(Mode::Zerocopy);
            register(&mut registered, &pool);
            let socket = registered.add(over_the_sink(is_v6));
            for _ in 0..64 {
                registered.send(socket, Message::new(pool.take().unwrap())).unwrap();
            }
            let events = run(&mut registered);
            assert_all(&fates(&events.releases), Fate::NotCopied);

            let mut normal = ring(Mode::Zerocopy);
            let socket = normal.add(InetSocket::bind_udp(End::Near.address(is_v6, 0)).unwrap());
            let far = End::Far.address(is_v6, PORT);
            for seed in 0..64 {
                let parts: Vec<Vec<u8>> = (0..3).map(|n| seeded(seed + n, 0, 7000)).collect();
                normal.send(socket, Message::new(parts).to(far)).unwrap();
            }
            let events = run(&mut normal);
            assert_eq!(events.sent_bytes(), [21_000; 64]);
            assert_all(&fates(&events.releases), Fate::NotCopied);
        }
    });
}

fn tcp_over_a_device_is_not_copied() {
    isolated(|network| {
        network.sink();
        for is_v6 in [false, true] {
            let socket = network.silent_connection(is_v6, 4000);
            socket.set_send_buffer_bytes(1 << 20).unwrap();
            let mut sender = sender(socket, Mode::Zerocopy);
            for seed in 0..4 {
                assert_eq!(sender.send(seeded(seed, 0, 60_000)).result.unwrap(), 60_000);
            }
            // Without acknowledgements the kernel must be able to send everything again.
            let early = sender.wait_release(Some(Duration::from_millis(50))).unwrap();
            assert!(early.is_none(), "released too early: {early:?}");
            assert_eq!(sender.outstanding().sends, 4);
            sender.abort();
            assert_all(&fates(&all_releases(&mut sender)), Fate::NotCopied);
        }
    });
}

fn tcp_through_a_ring_makes_no_false_claim() {
    isolated(|network| {
        network.sink();
        for length in [3000, 30_000] {
            let mut ring = ring(Mode::Zerocopy);
            let connection = network.silent_connection(false, 4000);
            connection.set_send_buffer_bytes(1 << 20).unwrap();
            let mut sender = sender::<Vec<u8>>(connection, Mode::Copy);
            let socket = ring.add_shared(&sender);
            for seed in 0..8 {
                ring.send(socket, Message::new(seeded(seed, 0, length))).unwrap();
            }
            ring.submit().unwrap();
            assert_eq!(ring.outstanding().sends, 8);
            sender.abort();
            // Joined notifications are unreliable, except the first.
            let fates = fates(&run(&mut ring).releases);
            assert!(!fates.contains(&Fate::Copied), "{fates:?}");
            assert!(fates.contains(&Fate::NotCopied), "{fates:?}");
        }
    });
}

fn a_tap_copies_while_it_runs() {
    isolated(|network| {
        network.sink();
        let mut sender = sender(over_the_sink(false), Mode::Zerocopy);
        let mut ring = ring(Mode::Zerocopy);
        let through = ring.add(over_the_sink(true));
        for is_tapped in [false, true, false, true, false] {
            let tap = is_tapped.then(|| network.tap());
            let expected = if is_tapped { Fate::Copied } else { Fate::NotCopied };
            assert_all(&send_some(&mut sender, 20, 30_000), expected);
            for seed in 0..20 {
                ring.send(through, Message::new(seeded(seed, 0, 30_000))).unwrap();
            }
            assert_all(&fates(&run(&mut ring).releases), expected);
            drop(tap);
        }
        let counters = sender.counters();
        assert_eq!((counters.copied_sends, counters.not_copied_sends), (40, 60));
    });
}

fn auto_follows_a_tap() {
    isolated(|network| {
        network.sink();
        let mut sender = sender(over_the_sink(false), Mode::Auto);
        let path_copies =
            |sender: &Sender<Vec<u8>>| sender.counters().fallbacks_for(FallbackReason::PathCopies);
        assert_all(&send_some(&mut sender, 100, 40_000), Fate::NotCopied);
        let tap: Tap = network.tap();
        assert_all(&send_some(&mut sender, 100, 40_000), Fate::Copied);
        let copied = path_copies(&sender);
        assert!(copied > 50, "it stops lending soon: {copied} of 100");
        drop(tap);
        // The next probe shows that lending pays again.
        let mut until = (0..).take_while(|_| send_some(&mut sender, 1, 40_000) == [Fate::Copied]);
        assert!(until.by_ref().take(300).count() < 300, "{:?}", sender.counters());
        assert_all(&send_some(&mut sender, 50, 40_000), Fate::NotCopied);
    });
}

/// Both copied and lent sends must occur, whichever turns out cheaper.
fn auto_tries_both_kinds() {
    isolated(|network| {
        network.sink();
        for (is_v6, length) in [(false, 40_000), (true, 10_000)] {
            let mut sender = sender(over_the_sink(is_v6), Mode::Auto);
            send_some(&mut sender, 2000, length);
            let counters = sender.counters();
            let cheaper = counters.fallbacks_for(FallbackReason::CopyingIsCheaper);
            assert!((80..=2000 - 80).contains(&cheaper), "{counters:?}");
            assert!((80..=2000 - 80).contains(&counters.not_copied_sends), "{counters:?}");

            let mut ring = ring(Mode::Auto);
            let through = ring.add(over_the_sink(is_v6));
            for _ in 0..100 {
                for seed in 0..20 {
                    ring.send(through, Message::new(seeded(seed, 0, length as u64))).unwrap();
                }
                run(&mut ring);
            }
            let counters = ring.counters(through).unwrap();
            let cheaper = counters.fallbacks_for(FallbackReason::CopyingIsCheaper);
            assert!((100..=2000 - 100).contains(&cheaper), "{counters:?}");
            assert!((100..=2000 - 100).contains(&counters.not_copied_sends), "{counters:?}");
        }
    });
}

fn datagrams_longer_than_the_mtu_are_copied() {
    isolated(|network| {
        network.sink();
        network.ip("link set sink mtu 1500");
        for (length, expected) in [(1400, Fate::NotCopied), (3000, Fate::Copied)] {
            let mut sender = sender(over_the_sink(false), Mode::Zerocopy);
            assert_all(&send_some(&mut sender, 10, length), expected);
        }
    });
}

/// Without scatter-gather a lent stream is copied while it is cut into segments, and no report shows it.
fn auto_stops_where_the_device_has_no_scatter_gather() {
    const TOTAL: usize = 400 * 40_000;
    linked(
        |network| {
            network.ethtool("-K veth0 sg off");
            let to = End::Far.address(false, PORT);
            let connect = || InetSocket::connect_tcp(to).ok();
            let socket = std::iter::repeat_with(connect).flatten().next().unwrap();
            let mut sender = sender(socket, Mode::Auto);
            for _ in 0..400 {
                assert!(!send_some(&mut sender, 1, 40_000).contains(&Fate::NotCopied));
            }
            let counters = sender.counters();
            assert!(counters.fallbacks_for(FallbackReason::PathCopies) > 200, "{counters:?}");
        },
        |_| {
            let listener = TcpListener::bind(End::Far.address(false, PORT)).unwrap();
            let received = crate::send::receiver::to_the_end(listener.accept().unwrap().0);
            assert_eq!(received.join().unwrap().len(), TOTAL);
        },
    );
}

/// Datagrams to addresses behind different devices have separate paths.
fn auto_learns_each_path_separately() {
    isolated(|network| {
        network.sink();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addresses = [End::Far.address(false, PORT), receiver.local_addr().unwrap()];
        let unbound = || InetSocket::bind_udp("0.0.0.0:0".parse().unwrap()).unwrap();
        let mut sender = sender(unbound(), Mode::Auto);
        let mut ring = ring(Mode::Auto);
        let through = ring.add(unbound());
        for _ in 0..200 {
            for (to, expected) in addresses.into_iter().zip([Fate::NotCopied, Fate::Copied]) {
                sender.send_to(vec![1; 40_000], to).result.unwrap();
                assert_eq!(fates(&all_releases(&mut sender)), [expected]);
                ring.send(through, Message::new(vec![1; 40_000]).to(to)).unwrap();
                assert_eq!(fates(&run(&mut ring).releases), [expected]);
            }
        }
        for counters in [sender.counters(), ring.counters(through).unwrap()] {
            let rested = counters.fallbacks_for(FallbackReason::PathCopies);
            assert!((150..200).contains(&rested), "{counters:?}");
        }
    });
}

/// Knowledge about one peer does not apply to the next.
fn a_new_peer_is_a_new_path() {
    isolated(|network| {
        network.sink();
        // A local address from which the other end of the device can be reached.
        let receiver = UdpSocket::bind(End::Near.address(false, 0)).unwrap();
        let here = receiver.local_addr().unwrap();
        let far = End::Far.address(false, PORT);
        let mut sender = sender(InetSocket::connect_udp(here).unwrap(), Mode::Auto);
        assert_all(&send_some(&mut sender, 20, 40_000), Fate::Copied);
        assert!(sender.counters().fallbacks_for(FallbackReason::PathCopies) > 0);
        sender.socket().reconnect(far).unwrap();
        assert_all(&send_some(&mut sender, 20, 40_000), Fate::NotCopied);

        let pool = Pool::new(2, 30_000, PageSize::HugeIfPossible).unwrap();
        let mut ring = ring(Mode::Zerocopy);
        register(&mut ring, &pool);
        let through = ring.add(over_the_sink(false));
        for (to, unnamed) in [(far, 0), (here, 1)] {
            ring.socket(through).unwrap().reconnect(to).unwrap();
            ring.send(through, Message::new(pool.take().unwrap())).unwrap();
            run(&mut ring);
            let is_huge = !matches!(pool.pages(), uncopy::send::Pages::Base { .. });
            let expected = if is_huge { unnamed } else { 0 };
            assert_eq!(ring.counters(through).unwrap().huge_pages_unnamed, expected);
        }
    });
}

fn a_device_that_goes_down() {
    isolated(|network| {
        network.sink();
        let mut sender = sender(over_the_sink(false), Mode::Zerocopy);
        assert_all(&send_some(&mut sender, 10, 9000), Fate::NotCopied);
        network.ip("link set sink down");
        let error = sender.send(vec![1; 9000]).result.unwrap_err();
        assert!(error.to_string().contains("route"), "{error}");
        assert_eq!(fates(&all_releases(&mut sender)), [Fate::Unsent]);
        network.ip("link set sink up");
        network.ip("neighbour replace 10.11.0.2 lladdr 02:00:00:00:00:02 dev sink nud permanent");
        assert_all(&send_some(&mut sender, 10, 9000), Fate::NotCopied);
        assert_eq!(sender.counters().failed_sends, 1);
    });
}

/// Datagrams in the device queue are dropped and released; streams have to be sent again, so their memory is
/// kept until the connection is aborted.
fn a_device_that_goes_down_with_a_backlog() {
    isolated(|network| {
        network.sink();
        network.tc("qdisc add dev sink root tbf rate 8kbit burst 70000 limit 100000000");
        let datagrams = |is_v6| {
            let socket = over_the_sink(is_v6);
            socket.set_send_buffer_bytes(16 << 20).unwrap();
            socket
        };
        let buffers: Vec<_> = (0..4).map(|seed| Arc::new(seeded(seed, 0, 60_000))).collect();
        let [by_datagrams, in_ring, by_stream, in_ring_by_stream] = &buffers[..] else {
            unreachable!("there are four")
        };
        let mut lending = sender(datagrams(false), Mode::Zerocopy);
        let stream = network.silent_connection(true, 4000);
        stream.set_send_buffer_bytes(16 << 20).unwrap();
        let mut through = sender(stream, Mode::Zerocopy);
        let mut ring = ring(Mode::Zerocopy);
        let sockets = [ring.add(datagrams(true)), ring.add_shared(&through)];
        for _ in 0..5 {
            assert_eq!(lending.send(by_datagrams.clone()).result.unwrap(), 60_000);
            assert_eq!(through.send(by_stream.clone()).result.unwrap(), 60_000);
        }
        for (socket, buffer) in sockets.into_iter().zip([in_ring, in_ring_by_stream]) {
            for _ in 0..5 {
                ring.send(socket, Message::new(buffer.clone())).unwrap();
            }
        }
        ring.submit().unwrap();
        let owners = || buffers.iter().map(Arc::strong_count).collect::<Vec<_>>();
        while let Some(release) = lending.next_release().unwrap() {
            assert_eq!(release.id.get(), 0, "only the first leaves the queue at once");
        }
        assert!(owners().iter().all(|owners| *owners > 4), "{:?}", owners());

        network.ip("link set sink down");
        drop(all_releases(&mut lending));
        while ring.outstanding().sends > 5 {
            ring.wait(Some(LONG)).unwrap();
            while let Some(event) = ring.next_event() {
                if let RingEvent::Sent(sent) = event {
                    assert_eq!(sent.result.unwrap(), 60_000);
                }
            }
        }
        assert_eq!(owners(), [1, 1, 6, 6], "streams keep theirs");
        through.abort();
        drop((all_releases(&mut through), run(&mut ring)));
        assert_eq!(owners(), [1; 4]);
        for counters in [lending.counters(), through.counters()] {
            assert_eq!((counters.sends, counters.fallbacks.len()), (5, 0), "{counters:?}");
        }
    });
}

/// The kernel checks a train of segments after it has assembled and numbered it: the count must continue with
/// the right number, or buffers that it still reads would be released.
fn a_train_that_is_refused_is_counted() {
    isolated(|network| {
        network.sink();
        let mut sender = sender(over_the_sink(false), Mode::Zerocopy);
        for round in 0..5 {
            network.ip("link set sink mtu 1500");
            sender.socket().set_segment_bytes(Some(2000)).unwrap();
            let error = sender.send(vec![round; 30_000]).result.unwrap_err();
            let refusals = [uncopy::Errno::EINVAL, uncopy::Errno::EMSGSIZE];
            assert!(refusals.contains(&error.errno().unwrap()), "{error}");
            network.ip("link set sink mtu 65535");
            sender.socket().set_segment_bytes(None).unwrap();
            let sent = sender.send(vec![round; 30_000]);
            assert_eq!(sent.result.unwrap(), 30_000);
            let releases = all_releases(&mut sender);
            assert_eq!(fates(&releases), [Fate::Unsent, Fate::NotCopied], "round {round}");
        }
        let uncertain = sender.counters().fallbacks_for(FallbackReason::CountUncertain);
        assert_eq!(uncertain, 0, "each was found in the queue");
    });
}

fn without_scatter_gather() {
    isolated(|network| {
        network.sink();
        network.ethtool("-K sink sg off");
        let mut sender = sender(over_the_sink(false), Mode::Zerocopy);
        assert_all(&send_some(&mut sender, 10, 9000), Fate::Copied);
        network.ethtool("-K sink sg on tx on");
        let mut again = Sender::new(over_the_sink(false), &options(Mode::Zerocopy));
        assert_all(&send_some(&mut again, 10, 9000), Fate::NotCopied);
    });
}

fn without_checksum_offload() {
    isolated(|network| {
        network.sink();
        network.ethtool("-K sink tx off");
        let mut sender = sender(over_the_sink(false), Mode::Zerocopy);
        assert_all(&send_some(&mut sender, 10, 9000), Fate::Copied);
    });
}

/// The kernel then cuts segments in software, which copies, and reports no copy; also if the device loses
/// scatter-gather during the connection.
fn tcp_without_scatter_gather_claims_nothing() {
    isolated(|network| {
        network.sink();
        let mut ports = 4000..;
        for is_lost_later in [true, false] {
            let socket = network.silent_connection(false, ports.next().unwrap());
            socket.set_send_buffer_bytes(1 << 20).unwrap();
            let mut sender = sender(socket, Mode::Zerocopy);
            for seed in 0..4 {
                assert_eq!(sender.send(seeded(seed, 0, 60_000)).result.unwrap(), 60_000);
                if is_lost_later && seed == 1 {
                    network.ethtool("-K sink sg off");
                    // Outlasts the cached answer about the device.
                    std::thread::sleep(Duration::from_millis(1100));
                }
            }
            sender.abort();
            let fates = fates(&all_releases(&mut sender));
            assert!(!fates.contains(&Fate::NotCopied), "{fates:?}");
        }
    });
}
