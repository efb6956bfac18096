//! What devices and their neighbours do with lent memory. Each test has a network of its own.

use std::net::UdpSocket;
use std::time::Duration;

use testbed::network::{End, NEEDS, Network, Tap, isolated, linked};
use testbed::{Case, Need, seeded};
use uncopy::send::{FallbackReason, Fate, Message, Mode, PageSize, Pool, Sender, Socket};

use crate::receiver::datagram;
use crate::{LONG, all_releases, fates, options, ring, run, sender};

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
        named("tcp_through_a_ring_claims_nothing_false", tcp_through_a_ring_claims_nothing_false),
        named("a_tap_copies_while_it_runs", a_tap_copies_while_it_runs),
        named("auto_follows_a_tap", auto_follows_a_tap),
        named("longer_than_the_mtu_is_copied", longer_than_the_mtu_is_copied),
        named("a_veth_link_copies_and_auto_stops", a_veth_link_copies_and_auto_stops),
        named("a_device_that_goes_down", a_device_that_goes_down),
        named("a_train_that_is_refused_is_counted", a_train_that_is_refused_is_counted),
        with_ethtool("without_scatter_gather", without_scatter_gather),
        with_ethtool("without_checksum_offload", without_checksum_offload),
        with_ethtool(
            "tcp_without_scatter_gather_claims_nothing",
            tcp_without_scatter_gather_claims_nothing,
        ),
    ]
}

const PORT: u16 = 9;

fn over_the_sink(is_v6: bool) -> Socket {
    Socket::connect_udp(End::Far.address(is_v6, PORT)).unwrap()
}

/// Sends so many large datagrams; what became of them.
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
            assert_eq!(copying.counters().fallbacks_for(FallbackReason::Asked), 5);
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
            registered.register_pool(&pool).unwrap();
            let socket = registered.add(over_the_sink(is_v6));
            for _ in 0..64 {
                registered.send(socket, Message::new(pool.take().unwrap())).unwrap();
            }
            let happened = run(&mut registered);
            assert_all(&fates(&happened.releases), Fate::NotCopied);

            let mut normal = ring(Mode::Zerocopy);
            let socket = normal.add(Socket::bind_udp(End::Near.address(is_v6, 0)).unwrap());
            let far = End::Far.address(is_v6, PORT);
            for seed in 0..64 {
                let parts: Vec<Vec<u8>> = (0..3).map(|n| seeded(seed + n, 0, 7000)).collect();
                normal.send(socket, Message::new(parts).to(far)).unwrap();
            }
            let happened = run(&mut normal);
            assert_eq!(happened.sent_bytes(), [21_000; 64]);
            assert_all(&fates(&happened.releases), Fate::NotCopied);
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
            // Nobody acknowledges: the kernel must be able to send all of it again.
            let early = sender.wait_release(Some(Duration::from_millis(50))).unwrap();
            assert!(early.is_none(), "released means reusable, and it is not: {early:?}");
            assert_eq!(sender.outstanding().sends, 4);
            sender.abort();
            assert_all(&fates(&all_releases(&mut sender)), Fate::NotCopied);
        }
    });
}

fn tcp_through_a_ring_claims_nothing_false() {
    isolated(|network| {
        network.sink();
        let mut ring = ring(Mode::Zerocopy);
        let connection = network.silent_connection(false, 4000);
        connection.set_send_buffer_bytes(1 << 20).unwrap();
        let socket = ring.add(connection);
        for seed in 0..8 {
            ring.send(socket, Message::new(seeded(seed, 0, 30_000))).unwrap();
        }
        ring.submit().unwrap();
        assert_eq!(ring.outstanding().sends, 8);
        // Dropped with everything outstanding; the connection is aborted in time.
        let fates = {
            std::thread::sleep(Duration::from_millis(20));
            ring.submit().unwrap();
            ring.into_releases()
        };
        assert!(fates.iter().all(|release| release.fate != Fate::Copied), "{fates:?}");
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
        // The next probe finds that it pays again.
        let fates: Vec<Fate> = (0..20).flat_map(|_| send_some(&mut sender, 100, 40_000)).collect();
        assert_eq!(fates.last(), Some(&Fate::NotCopied));
        assert!(path_copies(&sender) < copied + 300, "{}", path_copies(&sender));
    });
}

fn longer_than_the_mtu_is_copied() {
    isolated(|network| {
        network.sink();
        network.ip("link set sink mtu 1500");
        for (length, expected) in [(1400, Fate::NotCopied), (3000, Fate::Copied)] {
            let mut sender = sender(over_the_sink(false), Mode::Zerocopy);
            assert_all(&send_some(&mut sender, 10, length), expected);
        }
    });
}

fn a_veth_link_copies_and_auto_stops() {
    linked(
        |_| {
            let talk = UdpSocket::bind(End::Near.address(false, PORT)).unwrap();
            talk.set_read_timeout(Some(LONG)).unwrap();
            assert_eq!(datagram(&talk), b"listening");
            let mut sender = sender(over_the_sink(false), Mode::Auto);
            for _ in 0..200 {
                assert_all(&send_some(&mut sender, 1, 40_000), Fate::Copied);
            }
            assert!(sender.counters().fallbacks_for(FallbackReason::PathCopies) > 150);
            // It may be dropped where the other side's socket is full.
            talk.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let mut answer = [0; 20];
            while talk.recv(&mut answer).is_err() || !answer.starts_with(b"all whole") {
                talk.send_to(b"end", End::Far.address(false, PORT)).unwrap();
            }
        },
        receive_to_the_end,
    );
}

/// Says that it listens until something comes, and looks at all that does.
fn receive_to_the_end(_: &Network) {
    let near = End::Near.address(false, PORT);
    let receiver = UdpSocket::bind(End::Far.address(false, PORT)).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let mut bytes = vec![0; 65_536];
    let mut length = loop {
        // Nobody may be there yet.
        let _ = receiver.send_to(b"listening", near);
        if let Ok(length) = receiver.recv(&mut bytes) {
            break length;
        }
    };
    receiver.set_read_timeout(Some(LONG)).unwrap();
    while length != b"end".len() {
        assert!(bytes[..length] == seeded(0, 0, 40_000), "{length} bytes that nobody sent");
        length = receiver.recv(&mut bytes).unwrap();
    }
    receiver.send_to(b"all whole", near).unwrap();
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

/// The kernel checks a train of segments when it has put it together, and numbered it: the count
/// must go on with the right number, or buffers would be released that it still reads.
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

/// The kernel cuts segments in software then, which copies, and reports that nothing was copied.
fn tcp_without_scatter_gather_claims_nothing() {
    isolated(|network| {
        network.sink();
        network.ethtool("-K sink sg off");
        let socket = network.silent_connection(false, 4000);
        socket.set_send_buffer_bytes(1 << 20).unwrap();
        let mut sender = sender(socket, Mode::Zerocopy);
        for seed in 0..4 {
            assert_eq!(sender.send(seeded(seed, 0, 60_000)).result.unwrap(), 60_000);
        }
        sender.abort();
        let fates = fates(&all_releases(&mut sender));
        assert!(!fates.contains(&Fate::NotCopied), "{fates:?}");
    });
}
