//! Tests registered memory: its content arrives, and the kernel uses the pages it has pinned.

use std::net::UdpSocket;

use testbed::network::{NEEDS, isolated};
use testbed::{Case, cases, seeded};
use uncopy::send::{
    FallbackReason, InetSocket, Message, Mode, PageSize, Pool, PoolSlice, Ring, RingSocket,
    StableBytes,
};

use crate::send::limits::{limit_locked_memory, own_locked_memory};
use crate::send::receiver::{expect, tcp, to_the_end, udp};
use crate::send::{here, register, ring, run};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![
        [] messages_of_several_registered_slices,
        [] messages_of_registered_and_other_memory,
    ];
    let named = |name: &str, body: fn()| Case::new(format!("registered::{name}"), NEEDS, body);
    cases.extend([
        named("registered_pages_are_locked_once", registered_pages_are_locked_once),
        named(
            "sends_that_cannot_be_locked_keep_their_place_in_a_stream",
            sends_that_cannot_be_locked_keep_their_place_in_a_stream,
        ),
    ]);
    cases
}

/// Slice sizes of the pools.
const POOLS: [usize; 2] = [700, 5000];

fn pools() -> [Pool; 2] {
    POOLS.map(|bytes| Pool::new(8, bytes, PageSize::Base).unwrap())
}

/// Takes a slice and fills it with the content of a seed.
fn filled(pool: &Pool, seed: usize) -> PoolSlice {
    let mut slice = pool.take().unwrap();
    let content = seeded(seed as u64, 0, slice.len() as u64);
    slice.copy_from_slice(&content);
    slice
}

/// A ring over sockets of every kind, to receivers that check every byte.
struct Everywhere<B: StableBytes> {
    ring: Ring<B>,
    receiver: UdpSocket,
    connected: RingSocket,
    unconnected: RingSocket,
    stream: RingSocket,
}

impl<B: StableBytes + std::fmt::Debug> Everywhere<B> {
    fn of(is_v6: bool, pools: &[Pool]) -> (Everywhere<B>, std::thread::JoinHandle<Vec<u8>>) {
        let mut ring = ring(Mode::Zerocopy);
        pools.iter().for_each(|pool| register(&mut ring, pool));
        let (receiver, socket) = udp(is_v6);
        let (stream, stream_socket) = tcp(is_v6);
        let connected = ring.add(socket);
        let unconnected = ring.add(InetSocket::bind_udp(here(is_v6)).unwrap());
        let through = ring.add(stream_socket);
        let everywhere = Everywhere { ring, receiver, connected, unconnected, stream: through };
        (everywhere, to_the_end(stream))
    }

    /// Sends the payload over each socket.
    fn send(&mut self, whole: &[u8], payload: impl Fn() -> Vec<B>) {
        let to = self.receiver.local_addr().unwrap();
        for message in [
            (self.connected, Message::new(payload())),
            (self.unconnected, Message::new(payload()).to(to)),
        ] {
            self.ring.send(message.0, message.1).unwrap();
            assert_eq!(run(&mut self.ring).sent_bytes(), [whole.len()]);
            expect(&self.receiver, whole);
        }
        self.ring.send(self.stream, Message::new(payload())).unwrap();
        assert_eq!(run(&mut self.ring).sent_bytes(), [whole.len()]);
    }

    /// Returns the number of sends that were copied for this reason, and for any reason.
    fn fallbacks(&self, reason: FallbackReason) -> (u64, u64) {
        let sockets = [self.connected, self.unconnected, self.stream];
        let counters = sockets.map(|socket| self.ring.counters(socket).unwrap());
        let all = counters.iter().flat_map(|counters| &counters.fallbacks);
        let of_reason = counters.iter().map(|counters| counters.fallbacks_for(reason)).sum();
        (of_reason, all.map(|fallback| fallback.sends).sum())
    }
}

/// Pools of the slices of each message: one pool, both pools, a single slice.
const MESSAGES: [&[usize]; 5] = [&[1, 1, 1], &[0, 1, 0], &[1], &[0, 0], &[1, 0]];

/// With the index of a wrong pool the kernel would refuse the send (`EFAULT`), and it would be copied.
fn messages_of_several_registered_slices() {
    for is_v6 in [false, true] {
        let pools = pools();
        let (mut everywhere, received) = Everywhere::of(is_v6, &pools);
        let mut expected = Vec::new();
        for from in MESSAGES {
            let slices = || from.iter().zip(0..).map(|(pool, seed)| filled(&pools[*pool], seed));
            let whole: Vec<u8> = slices().flat_map(|slice| slice.to_vec()).collect();
            everywhere.send(&whole, || slices().collect());
            expected.extend(whole);
        }
        let none = everywhere.fallbacks(FallbackReason::CannotBePinned);
        assert_eq!(none, (0, 0), "v6 {is_v6}");
        drop(everywhere);
        assert!(received.join().unwrap() == expected, "v6 {is_v6}");
    }
}

/// Both kinds are mixed inside one message.
fn messages_of_registered_and_other_memory() {
    for is_v6 in [false, true] {
        let pools = pools();
        let (mut everywhere, received) = Everywhere::<Box<dyn StableBytes>>::of(is_v6, &pools);
        let mut expected = Vec::new();
        for turn in 0..3 {
            let owners = || {
                let of = |seed: usize| -> Box<dyn StableBytes> {
                    match (seed + turn) % 3 {
                        0 => Box::new(filled(&pools[0], seed)),
                        1 => Box::new(seeded(seed as u64, 0, 3000)),
                        _ => Box::new(filled(&pools[1], seed)),
                    }
                };
                (0..4).map(of)
            };
            let whole: Vec<u8> = owners().flat_map(|owner| owner.bytes().to_vec()).collect();
            everywhere.send(&whole, || owners().collect());
            expected.extend(whole);
        }
        assert_eq!(everywhere.fallbacks(FallbackReason::CannotBePinned), (0, 0));
        drop(everywhere);
        assert!(received.join().unwrap() == expected, "v6 {is_v6}");
    }
}

/// A process that may lock no more memory sends registered memory without a copy, and nothing else.
fn registered_pages_are_locked_once() {
    let _own = own_locked_memory();
    for is_v6 in [false, true] {
        // Runs in a thread of its own, whose limit applies to its ring too.
        isolated(|_| {
            limit_locked_memory(4 << 20);
            send_with_nothing_to_lock(is_v6);
        });
    }
}

fn send_with_nothing_to_lock(is_v6: bool) {
    let pools = pools();
    let (mut everywhere, received) = Everywhere::<Box<dyn StableBytes>>::of(is_v6, &pools);
    limit_locked_memory(0);
    let boxed = |owner: PoolSlice| -> Box<dyn StableBytes> { Box::new(owner) };
    let mut expected = Vec::new();
    // Single slices, and several slices of one pool as one message.
    for from in [&[0][..], &[1], &[1, 1, 1], &[0, 0]] {
        let slices = || from.iter().zip(0..).map(|(pool, seed)| filled(&pools[*pool], seed));
        let whole: Vec<u8> = slices().flat_map(|slice| slice.to_vec()).collect();
        everywhere.send(&whole, || slices().map(boxed).collect());
        expected.extend(whole);
    }
    assert_eq!(everywhere.fallbacks(FallbackReason::LockedMemory), (0, 0), "v6 {is_v6}");

    // Other memory in a message has to be locked for the send.
    let mixed = || {
        let other: Box<dyn StableBytes> = Box::new(seeded(9, 0, 3000));
        vec![boxed(filled(&pools[1], 0)), other, boxed(filled(&pools[1], 1))]
    };
    let whole: Vec<u8> = mixed().iter().flat_map(|owner| owner.bytes().to_vec()).collect();
    everywhere.send(&whole, mixed);
    expected.extend(whole);
    assert_eq!(everywhere.fallbacks(FallbackReason::LockedMemory), (3, 3), "v6 {is_v6}");
    drop(everywhere);
    assert!(received.join().unwrap() == expected, "v6 {is_v6}");
}

/// Each send is refused and tried again, some through registered memory; the sends linked behind it are
/// canceled and tried again too.
fn sends_that_cannot_be_locked_keep_their_place_in_a_stream() {
    let _own = own_locked_memory();
    isolated(|_| {
        limit_locked_memory(4 << 20);
        for standing_in in [0, 3] {
            let (stream, socket) = tcp(standing_in == 0);
            let received = to_the_end(stream);
            let mut ring = ring::<Vec<u8>>(Mode::Zerocopy);
            let pool = Pool::new(3, 4000, PageSize::Base).unwrap();
            register(&mut ring, &pool);
            let kept: Vec<_> = (standing_in..3).map(|_| pool.take().unwrap()).collect();
            let through = ring.add(socket);
            limit_locked_memory(0);
            let mut expected = Vec::new();
            for seed in 0..60 {
                let content = seeded(seed, 0, 1000 + 80 * seed);
                expected.extend_from_slice(&content);
                ring.send(through, Message::new(content)).unwrap();
            }
            assert_eq!(run(&mut ring).sent_bytes().iter().sum::<usize>(), expected.len());
            let counters = ring.counters(through).unwrap();
            let (copied, all) = (counters.fallbacks_for(FallbackReason::LockedMemory), 60);
            assert_eq!((copied, counters.sends, counters.failed_sends), (all, all, 0));
            drop((ring, kept));
            assert!(received.join().unwrap() == expected, "{standing_in} slices stand in");
            limit_locked_memory(4 << 20);
        }
    });
}
