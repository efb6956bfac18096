//! Tests full queues, exhausted limits, and peers that do not read.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use testbed::network::{End, NEEDS, Network, isolated};
use testbed::{Case, Need, cases, seeded};
use uncopy::send::{FallbackReason, Fate, InetSocket, Message, Mode, PageSize, Pool, Ring, Sender};

use crate::send::receiver::{expect, refusing_port, tcp, to_the_end, udp, until_refused};
use crate::send::{LONG, all_releases, fates, options, register, ring, ring_options, run, sender};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![
        [] a_sender_that_takes_no_releases_continues,
        [] a_peer_that_does_not_read,
        [] a_send_that_waits_too_long,
        [Need::LockedMemory(8)] waits_that_an_observer_stops,
        [] a_connection_that_is_reset,
        [] a_closed_port,
        [] a_send_too_long_for_a_datagram,
        [] completions_that_overflow,
        [] more_sends_than_entries,
    ];
    let named = |name: &str, body: fn()| Case::new(format!("limits::{name}"), NEEDS, body);
    cases.extend([
        named("the_smallest_option_memory", the_smallest_option_memory),
        named("a_stream_with_the_smallest_option_memory", a_stream_with_the_smallest_option_memory),
        named("no_option_memory_at_all", no_option_memory_at_all),
        named("option_memory_that_a_backlog_fills", option_memory_that_a_backlog_fills),
        named("more_memory_than_may_be_locked", more_memory_than_may_be_locked),
    ]);
    cases
}

/// The kernel's own selftest once ran out of option memory, because it read reports only when the socket was
/// full, which never happened.
fn a_sender_that_takes_no_releases_continues() {
    let (receiver, socket) = udp(false);
    let mut sender = sender(socket, Mode::Zerocopy);
    for seed in 0..20_000 {
        sender.send(vec![seed as u8; 100]).result.unwrap();
        // The sender's list of releases grows; the kernel's outstanding reports do not.
        assert!(sender.outstanding().sends - sender.released() <= 64);
    }
    // Before Linux 6.7 there is room for fewer reports than 64 by default, and some sends copy.
    let room = std::fs::read_to_string("/proc/sys/net/core/optmem_max").unwrap();
    let is_for_all = room.trim().parse::<u64>().unwrap() >= 128 << 10;
    assert!(sender.counters().no_buffer_space == 0 || !is_for_all, "{:?}", sender.counters());
    assert_eq!(all_releases(&mut sender).len(), 20_000);
    drop(receiver);
}

fn the_smallest_option_memory() {
    isolated(|network| {
        network.set("net/core/optmem_max", 1024);
        network.sink();
        let socket = InetSocket::connect_udp(End::Far.address(false, 9)).unwrap();
        let mut sender = sender(socket, Mode::Zerocopy);
        for seed in 0..2000 {
            assert_eq!(sender.send(seeded(seed, 0, 9000)).result.unwrap(), 9000);
            // The device releases the memory at once; only reports are outstanding.
            let kept = sender.outstanding().sends - sender.released();
            assert!(kept <= 2, "there is no room for {kept}");
        }
        let releases = all_releases(&mut sender);
        assert_eq!(releases.len(), 2000);
        let counters = sender.counters();
        assert!(counters.no_buffer_space > 0, "the limit is met: {counters:?}");
        assert!(counters.not_copied_sends > 1000, "and reports make room again: {counters:?}");
    });
}

fn a_stream_with_the_smallest_option_memory() {
    isolated(|network| {
        network.set("net/core/optmem_max", 1024);
        network.sink();
        // Without acknowledgements lent memory stays lent, and no room is freed.
        let socket = network.silent_connection(true, 4000);
        socket.set_send_buffer_bytes(16 << 20).unwrap();
        let mut lending = sender(socket, Mode::Zerocopy);
        for seed in 0..20 {
            assert_eq!(lending.send(seeded(seed, 0, 60_000)).result.unwrap(), 60_000);
        }
        let kept = lending.outstanding().sends - lending.released();
        let counters = lending.counters();
        let without_room = counters.fallbacks_for(FallbackReason::NoBufferSpace);
        assert!((1..=2).contains(&kept), "{kept}");
        assert_eq!((without_room, counters.failed_sends), (20 - kept as u64, 0));
        assert_eq!(counters.no_buffer_space, without_room, "the queue is read once for each");
        lending.abort();
        assert_eq!(all_releases(&mut lending).len(), 20);

        let (stream, socket) = tcp(false);
        let received = to_the_end(stream);
        let mut lending = sender(socket, Mode::Zerocopy);
        let mut expected = Vec::new();
        // Maximum number of sends that one report joins (`msg_zerocopy_realloc`: some 512 KiB).
        let together = (512 << 10) / 9000 + 1;
        for seed in 0..300 {
            expected.extend(seeded(seed, 0, 9000));
            assert_eq!(lending.send(seeded(seed, 0, 9000)).result.unwrap(), 9000);
            // The queue is read after 16 lent sends; up to two joined reports may not be acknowledged yet.
            let kept = lending.outstanding().sends - lending.released();
            assert!(kept <= 16 + 2 * together, "the outstanding sends do not grow: {kept}");
        }
        assert_eq!(lending.close(Some(LONG)).unwrap().0.len(), 300);
        assert!(received.join().unwrap() == expected);
    });
}

/// Waiting for a report would never end, because none is possible.
fn no_option_memory_at_all() {
    isolated(|network| {
        network.set("net/core/optmem_max", 0);
        for is_v6 in [false, true] {
            let (receiver, socket) = udp(is_v6);
            let (stream, stream_socket) = tcp(is_v6);
            let received = to_the_end(stream);
            let mut expected = Vec::new();
            let mut senders =
                [socket, stream_socket].map(|socket| sender::<Vec<u8>>(socket, Mode::Zerocopy));
            for seed in 0..50 {
                let content = seeded(seed, 0, 9000);
                expected.extend_from_slice(&content);
                for sender in &mut senders {
                    assert_eq!(sender.send(content.clone()).result.unwrap(), 9000);
                    let kept = sender.outstanding().sends - sender.released();
                    assert_eq!(kept, 0, "nothing is lent");
                }
                expect(&receiver, &content);
            }
            for sender in &mut senders {
                assert_eq!(fates(&all_releases(sender)), [Fate::Copied; 50]);
                let counters = sender.counters();
                assert_eq!(counters.fallbacks_for(FallbackReason::NoBufferSpace), 50);
            }
            let [datagrams, through] = senders;
            drop(datagrams);
            drop(through.close(Some(LONG)).unwrap());
            assert!(received.join().unwrap() == expected);
        }
    });
}

/// Datagrams in a device's queue delay their reports, so reading the queue frees no room: further sends are
/// copied, and nothing waits.
fn option_memory_that_a_backlog_fills() {
    isolated(|network| {
        network.set("net/core/optmem_max", 4096);
        network.sink();
        network.tc("qdisc add dev sink root tbf rate 8kbit burst 10000 limit 10000000");
        let socket = InetSocket::connect_udp(End::Far.address(false, 9)).unwrap();
        socket.set_send_buffer_bytes(4 << 20).unwrap();
        let mut sender = sender(socket, Mode::Zerocopy);
        for seed in 0..40 {
            assert_eq!(sender.send(seeded(seed, 0, 9000)).result.unwrap(), 9000);
        }
        let counters = sender.counters();
        assert!(counters.fallbacks_for(FallbackReason::NoBufferSpace) > 10, "{counters:?}");
        assert!(sender.outstanding().sends > 2, "some are lent and wait in the queue");
        network.tc("qdisc del dev sink root");
        let releases = all_releases(&mut sender);
        assert_eq!(releases.len(), 40);
        let copied = releases.iter().filter(|release| release.fate == Fate::Copied).count();
        assert_eq!(copied as u64, sender.counters().fallbacks_for(FallbackReason::NoBufferSpace));
    });
}

/// Number of sockets whose datagrams wait in a device's queue.
const SOCKETS: u16 = 40;
const EACH: usize = 25;

fn more_memory_than_may_be_locked() {
    let _own = own_locked_memory();
    isolated(|network| {
        // Large enough that the limit on locked memory is met first.
        network.set("net/core/optmem_max", 4 << 20);
        network.sink();
        let slow = "qdisc add dev sink root tbf rate 8kbit burst 10000 limit 100000000";
        network.tc(slow);
        limit_locked_memory(4 << 20);
        let to = |number| {
            let socket = InetSocket::connect_udp(End::Far.address(false, number)).unwrap();
            socket.set_send_buffer_bytes(4 << 20).unwrap();
            socket
        };
        let mut senders: Vec<_> =
            (1..=SOCKETS).map(|number| sender(to(number), Mode::Zerocopy)).collect();
        for sender in &mut senders {
            for seed in 0..EACH {
                assert_eq!(sender.send(vec![seed as u8; 9000]).result.unwrap(), 9000);
            }
        }
        let copied = |sender: &Sender<Vec<u8>>| {
            sender.counters().fallbacks_for(FallbackReason::NoBufferSpace)
        };
        assert!(senders.iter().map(copied).sum::<u64>() > 0);
        assert_eq!(senders.iter().map(|sender| sender.counters().failed_sends).sum::<u64>(), 0);
        network.tc("qdisc del dev sink root");
        senders.iter_mut().for_each(|sender| assert_eq!(all_releases(sender).len(), EACH));

        network.tc(slow);
        let mut ring = ring(Mode::Zerocopy);
        let sockets: Vec<_> = (1..=SOCKETS).map(|number| ring.add(to(number))).collect();
        for socket in sockets.iter().flat_map(|socket| [*socket; EACH]) {
            ring.send(socket, Message::new(vec![1; 9000])).unwrap();
        }
        ring.submit().unwrap();
        ring.submit().unwrap();
        let counters = sockets.iter().map(|socket| ring.counters(*socket).unwrap());
        let copied = counters.map(|c| c.fallbacks_for(FallbackReason::LockedMemory));
        assert!(copied.sum::<u64>() > 0);
        network.tc("qdisc del dev sink root");
        let events = run(&mut ring);
        assert!(events.results.iter().all(|(_, result)| result.is_ok()));

        network.tc(slow);
        a_registered_pool_stands_in(network, to(1));
    });
}

/// Sends that cannot be lent are copied into registered memory, which is locked already. Needs a thread with a
/// limit on locked memory.
fn a_registered_pool_stands_in(network: &Network, socket: InetSocket) {
    let mut ring = ring(Mode::Zerocopy);
    let pool = Pool::new(4, 9000, PageSize::Base).unwrap();
    register(&mut ring, &pool);
    limit_locked_memory(4096);
    let socket = ring.add(socket);
    for _ in 0..40 {
        ring.send(socket, Message::new(vec![1; 9000])).unwrap();
    }
    ring.submit().unwrap();
    ring.submit().unwrap();
    // The first datagram leaves at once; the others wait in the device's queue.
    let waiting = ring.outstanding().sends;
    assert!((1..=4).contains(&waiting), "{waiting}");
    assert_eq!(pool.free_slices(), 4 - waiting, "slices stand in for buffers");
    network.tc("qdisc del dev sink root");
    let events = run(&mut ring);
    assert!(events.results.iter().all(|(_, result)| result.is_ok()));
    assert!(fates(&events.releases).iter().all(|fate| *fate == Fate::Copied));
    let counters = ring.counters(socket).unwrap();
    assert_eq!(counters.fallbacks_for(FallbackReason::LockedMemory), 40);
    assert_eq!(pool.free_slices(), 4, "the slices return");
}

/// Lock of the limit, which belongs to the whole process.
static LOCKED_MEMORY: Mutex<()> = Mutex::new(());

/// Keeps other tests from changing the limit meanwhile.
pub(crate) fn own_locked_memory() -> MutexGuard<'static, ()> {
    LOCKED_MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the limit, and drops this thread's privilege to exceed it.
pub(crate) fn limit_locked_memory(bytes: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let mut limit = getrlimit(Resource::Memlock);
    limit.current = Some(bytes);
    setrlimit(Resource::Memlock, limit).unwrap();
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::IPC_LOCK);
    set_capabilities(None, sets).unwrap();
}

/// Over loopback the kernel copies, so the sender's buffers are free although the peer does not read.
fn a_peer_that_does_not_read() {
    // Less than a window that any kernel begins with: what waits in the sender's queue is not copied yet.
    const LENGTH: usize = 30_000;
    let (stream, socket) = tcp(false);
    let mut sender = sender(socket, Mode::Zerocopy);
    assert_eq!(sender.send(vec![7; LENGTH]).result.unwrap(), LENGTH);
    let released = all_releases(&mut sender);
    assert_eq!((released.len(), released[0].fate), (1, Fate::Copied));
    let received = to_the_end(stream);
    drop(sender);
    assert_eq!(received.join().unwrap(), vec![7; LENGTH], "released before it is read");
}

fn a_send_that_waits_too_long() {
    for mode in [Mode::Zerocopy, Mode::Copy] {
        send_that_waits_too_long(mode);
    }
}

fn send_that_waits_too_long(mode: Mode) {
    let (stream, socket) = tcp(false);
    let mut options = options(mode);
    options.send_timeout = Some(Duration::from_millis(30));
    let mut sender = Sender::new(socket, &options);
    let length = 64 << 20;
    let error = sender.send(vec![7; length]).result.unwrap_err();
    assert_eq!(error.errno(), Some(uncopy::Errno::ETIMEDOUT), "{error}");
    assert_eq!(sender.outstanding().bytes, length);
    let received = to_the_end(stream);
    let (releases, counters) = sender.close(Some(LONG)).unwrap();
    let taken = releases[0].bytes;
    assert!(0 < taken && taken < length, "{taken}");
    assert_eq!((releases.len(), counters.failed_sends, counters.sends), (1, 1, 0), "{mode:?}");
    assert_eq!((counters.bytes, counters.copied_bytes), (taken as u64, taken as u64), "{mode:?}");
    assert_eq!(received.join().unwrap().len(), taken, "the bytes reported as sent arrive");
}

fn waits_that_an_observer_stops() {
    for mode in [Mode::Zerocopy, Mode::Copy] {
        let (stream, socket) = tcp(false);
        let mut sender = sender(socket, mode);
        let length = 64 << 20;
        let mut left = 3;
        let mut stop_the_third_time = || {
            left -= 1;
            if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let sent = sender.send_observed(vec![7; length], &mut stop_the_third_time);
        let error = sent.result.unwrap_err();
        assert!(error.is_cancelled() && error.to_string().contains("send to tcp "), "{error}");
        assert_eq!((left, sender.outstanding().bytes), (0, length), "{mode:?}");
        // The kernel copies at once, or lends what waits until the peer reads.
        let closed = sender.close_observed(None, &mut || ControlFlow::Break(()));
        let taken = match (mode, closed) {
            (Mode::Copy, Ok((releases, _))) => Some(releases[0].bytes),
            (_, Err(not_closed)) => {
                assert!(not_closed.error.is_cancelled(), "{not_closed}");
                assert!(not_closed.releases.is_empty(), "{mode:?}");
                None
            }
            // A user may lock a little only; the rest is copied (`ENOBUFS`).
            (_, Ok((releases, counters)))
                if counters.fallbacks_for(FallbackReason::NoBufferSpace) > 0 =>
            {
                Some(releases[0].bytes)
            }
            (_, Ok(_)) => panic!("{mode:?}: released before the peer has read"),
        };
        let received = to_the_end(stream).join().unwrap().len();
        assert!(0 < received && received < length, "{received}");
        assert!(taken.is_none_or(|taken| taken == received), "{mode:?}: {taken:?}, {received}");
    }
}

fn a_connection_that_is_reset() {
    let (stream, socket) = tcp(false);
    let peer = socket.peer_address().unwrap();
    let mut lending = sender(socket, Mode::Zerocopy);
    // With unread data the close of the peer is a reset.
    lending.send(vec![7; 100_000]).result.unwrap();
    drop(stream);
    let error = loop {
        match lending.send(vec![8; 50_000]).result {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let over = [uncopy::Errno::ECONNRESET, uncopy::Errno::EPIPE];
    assert!(over.contains(&error.errno().unwrap()), "{error}");
    assert!(error.to_string().contains("make a new one"), "{error}");
    assert_eq!(
        error.subject().to_str().unwrap(),
        format!("tcp {peer}"),
        "the error names the peer"
    );
    let releases = all_releases(&mut lending);
    assert_eq!(releases.last().unwrap().fate, Fate::Unsent);
    assert_eq!(lending.outstanding(), Default::default());

    let (stream, socket) = tcp(false);
    let peer = socket.peer_address().unwrap();
    let mut ring = ring(Mode::Zerocopy);
    let socket = ring.add(socket);
    // As much as every kernel's first window takes: more is released only when the peer reads.
    ring.send(socket, Message::new(vec![7; 20_000])).unwrap();
    assert_eq!(run(&mut ring).sent_bytes(), [20_000]);
    drop(stream);
    let mut refused = Vec::new();
    while refused.is_empty() {
        for _ in 0..4 {
            ring.send(socket, Message::new(vec![8; 50_000])).unwrap();
        }
        let events = run(&mut ring);
        assert_eq!((events.results.len(), events.releases.len()), (4, 4));
        refused.extend(events.results.into_iter().filter_map(|(_, result)| result.err()));
    }
    assert!(over.contains(&refused[0].errno().unwrap()), "{refused:?}");
    let subjects = refused.iter().map(|error| error.subject().to_str().unwrap());
    assert!(subjects.into_iter().all(|found| found == format!("tcp {peer}")), "{refused:?}");
}

fn a_closed_port() {
    for mode in [Mode::Zerocopy, Mode::Copy] {
        until_refused(|| refusals_of_a_closed_port(mode));
    }
}

/// Sends to a port that refuses, and returns how many sends failed.
fn refusals_of_a_closed_port(mode: Mode) -> usize {
    let port = refusing_port(false);
    let socket = InetSocket::connect_udp(port.local_addr().unwrap()).unwrap();
    let mut sender = sender(socket, mode);
    let mut refusals = 0;
    for _ in 0..50 {
        match sender.send(vec![1; 3000]).result {
            Ok(bytes) => assert_eq!(bytes, 3000),
            Err(error) => {
                refusals += 1;
                assert!(error.to_string().contains("start the receiver"), "{error}");
            }
        }
    }
    let releases = all_releases(&mut sender);
    assert_eq!(releases.len(), 50);
    let unsent = fates(&releases).iter().filter(|fate| **fate == Fate::Unsent).count();
    assert_eq!(unsent, refusals);
    assert_eq!(sender.counters().failed_sends as usize, refusals, "{mode:?}");
    refusals
}

fn a_send_too_long_for_a_datagram() {
    for mode in [Mode::Auto, Mode::Zerocopy, Mode::Copy] {
        let (_receiver, socket) = udp(false);
        let mut sender = sender(socket, mode);
        let error = sender.send(vec![1; 70_000]).result.unwrap_err();
        assert_eq!(error.errno(), Some(uncopy::Errno::EMSGSIZE));
        assert!(error.to_string().contains("65,507"), "{error}");
        assert_eq!(fates(&all_releases(&mut sender)), [Fate::Unsent]);

        let (_receiver, socket) = udp(true);
        let mut ring = ring(mode);
        let socket = ring.add(socket);
        ring.send(socket, Message::new(vec![1; 70_000])).unwrap();
        let events = run(&mut ring);
        assert!(events.results[0].1.is_err());
        assert_eq!(fates(&events.releases), [Fate::Unsent]);
    }
}

/// Number of datagrams that the receiver's buffer holds.
const FEW: usize = 32;

fn completions_that_overflow() {
    testbed::need(testbed::KernelFeature::RingZerocopySends);
    let (receiver, socket) = udp(false);
    let mut options = ring_options(Mode::Zerocopy);
    options.entries = 8;
    options.completions = Some(8);
    let mut ring = Ring::new(&options);
    assert_eq!(ring.io_uring_refusal(), None);
    let socket = ring.add(socket);
    let begin = Instant::now();
    for round in 0..10 {
        let content = |seed: usize| seeded((round * FEW + seed) as u64, 0, 50);
        for seed in 0..FEW {
            ring.send(socket, Message::new(content(seed))).unwrap();
        }
        let (mut results, mut releases) = (0, 0);
        while ring.outstanding().sends > 0 {
            assert!(begin.elapsed() < LONG);
            // Each send has two completions, which are not read in between.
            ring.submit().unwrap();
            while let Some(event) = ring.next_event() {
                match event {
                    uncopy::send::RingEvent::Sent(sent) => {
                        assert_eq!(sent.result.unwrap(), 50);
                        results += 1;
                    }
                    uncopy::send::RingEvent::Released(_) => releases += 1,
                    uncopy::send::RingEvent::Notified(_) => unreachable!("no slots"),
                }
            }
        }
        assert_eq!((results, releases), (FEW, FEW));
        (0..FEW).for_each(|seed| expect(&receiver, &content(seed)));
    }
}

fn more_sends_than_entries() {
    let (stream, socket) = tcp(false);
    let mut options = ring_options(Mode::Zerocopy);
    options.entries = 4;
    let mut ring = Ring::new(&options);
    let socket = ring.add(socket);
    let received = to_the_end(stream);
    let mut expected = Vec::new();
    for seed in 0..500u64 {
        let content = seeded(seed, 0, 1 + seed * 7);
        expected.extend_from_slice(&content);
        ring.send(socket, Message::new(content)).unwrap();
    }
    let events = run(&mut ring);
    assert_eq!(events.sent_bytes().len(), 500);
    drop(ring);
    assert!(received.join().unwrap() == expected);
}
