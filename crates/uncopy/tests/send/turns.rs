//! Plain sends, `MSG_ZEROCOPY` and `SEND_ZC` in turn on one stream. The kernel numbers those of
//! `MSG_ZEROCOPY` alone: were another counted among them, buffers would be released too early, or
//! never.

use testbed::network::{NEEDS, isolated};
use testbed::{Case, seeded};
use uncopy::send::{
    FallbackReason, Fate, InetSocket, Message, Mode, Release, Ring, RingEvent, RingSocket, Sender,
    StableBytes,
};

use crate::receiver::{tcp, to_the_end};
use crate::{LONG, all_releases, fates, ring, ring_options, run, sender};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![[] three_ways_in_turn_on_one_stream];
    let named = |name: &str, body: fn()| Case::new(format!("turns::{name}"), NEEDS, body);
    cases.extend([
        named("three_ways_in_turn_are_all_in_flight", three_ways_in_turn_are_all_in_flight),
        named(
            "lent_memory_behind_that_of_a_ring_is_copied",
            lent_memory_behind_that_of_a_ring_is_copied,
        ),
    ]);
    cases
}

const ROUNDS: usize = 20;
/// Of a plain send, one of `MSG_ZEROCOPY`, and one of `SEND_ZC`.
const LENGTHS: [usize; 3] = [2000, 50_000, 30_000];

/// One stream, and each way to send on it.
struct Ways {
    lending: Sender<Vec<u8>>,
    plain: (Ring<Vec<u8>>, RingSocket),
    through: (Ring<Vec<u8>>, RingSocket),
    /// What the rings have released.
    released: Vec<Release<Vec<u8>>>,
}

impl Ways {
    fn over(socket: InetSocket) -> Ways {
        let lending = sender(socket, Mode::Zerocopy);
        let mut options = ring_options(Mode::Copy);
        options.without_io_uring = true;
        let mut plain = Ring::new(&options);
        let mut through = ring(Mode::Zerocopy);
        let [shared, other] = [plain.add_shared(&lending), through.add_shared(&lending)];
        let (plain, through) = ((plain, shared), (through, other));
        Ways { lending, plain, through, released: Vec::new() }
    }

    /// Everything, each way in turn; gives what the peer is to read.
    fn send_all(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        for seed in 0..3 * ROUNDS {
            let way = seed % 3;
            let content = seeded(seed as u64, 0, LENGTHS[way] as u64);
            all.extend_from_slice(&content);
            match way {
                0 => self.released.extend(send_through(&mut self.plain, content)),
                1 => assert_eq!(self.lending.send(content).result.unwrap(), LENGTHS[1]),
                _ => self.released.extend(send_through(&mut self.through, content)),
            }
        }
        all
    }

    /// Each way was taken as often as it should; gives how many sends of the sender were copied for
    /// want of room, and for nothing else.
    #[track_caller]
    fn assert_taken(&self) -> u64 {
        let lent = self.lending.counters();
        let through = self.through.0.counters(self.through.1).unwrap();
        let plain = self.plain.0.counters(self.plain.1).unwrap();
        let sends = [lent, through, plain].map(|counters| counters.sends);
        assert_eq!(sends, [ROUNDS as u64; 3]);
        assert!(through.fallbacks.is_empty(), "{through:?}");
        assert_eq!(plain.copied_sends, ROUNDS as u64);
        let without_room = lent.fallbacks_for(FallbackReason::NoBufferSpace);
        let all: u64 = lent.fallbacks.iter().map(|fallback| fallback.sends).sum();
        assert_eq!(all, without_room, "{lent:?}");
        without_room
    }
}

/// Sends, and waits for the result alone.
fn send_through<B: StableBytes + std::fmt::Debug>(
    (ring, socket): &mut (Ring<B>, RingSocket),
    content: B,
) -> Vec<Release<B>> {
    let length = content.bytes().len();
    ring.send(*socket, Message::new(content)).unwrap();
    let mut released = Vec::new();
    loop {
        ring.wait(Some(LONG)).unwrap();
        let mut sent = None;
        while let Some(event) = ring.next_event() {
            match event {
                RingEvent::Sent(result) => sent = Some(result.result.unwrap()),
                RingEvent::Released(release) => released.push(release),
                RingEvent::Notified(_) => unreachable!("no slots"),
            }
        }
        if let Some(sent) = sent {
            assert_eq!(sent, length);
            return released;
        }
    }
}

fn three_ways_in_turn_on_one_stream() {
    for is_v6 in [false, true] {
        let (stream, socket) = tcp(is_v6);
        let received = to_the_end(stream);
        let mut ways = Ways::over(socket);
        let expected = ways.send_all();
        let lent = all_releases(&mut ways.lending);
        let mut released = std::mem::take(&mut ways.released);
        released.extend(run(&mut ways.through.0).releases);
        assert!(ways.assert_taken() < ROUNDS as u64, "the first is lent at least");
        assert_eq!((lent.len(), released.len()), (ROUNDS, 2 * ROUNDS));
        for release in lent.into_iter().chain(released) {
            assert_eq!(release.bytes, release.payload.len());
        }
        let Ways { lending, plain, through, .. } = ways;
        drop((plain, through));
        drop(lending.close(Some(LONG)).unwrap());
        assert!(received.join().unwrap() == expected, "v6 {is_v6}");
    }
}

/// To a peer that acknowledges nothing, so that all must be kept; until the connection is aborted.
fn three_ways_in_turn_are_all_in_flight() {
    isolated(|network| {
        network.sink();
        network.wide_windows();
        for is_v6 in [false, true] {
            // On a busy machine the device leaves some in the socket: then once more.
            let is_all_lent = (4000..4010).any(|port| {
                let socket = network.silent_connection(is_v6, port);
                socket.set_send_buffer_bytes(16 << 20).unwrap();
                socket.set_no_delay(true).unwrap();
                let mut ways = Ways::over(socket);
                ways.send_all();
                let without_room = ways.assert_taken() as usize;
                abort(ways, ROUNDS - without_room);
                without_room == 0
            });
            assert!(is_all_lent, "v6 {is_v6}");
        }
    });
}

/// What does not fill a segment waits for an acknowledgement (`tcp(7)`, `TCP_NODELAY`). Behind memory
/// of io_uring that waits so, the kernel has no place for what is lent with `MSG_ZEROCOPY`
/// (`msg_zerocopy_realloc` in `net/core/skbuff.c`: `ENOBUFS`): that is copied.
fn lent_memory_behind_that_of_a_ring_is_copied() {
    isolated(|network| {
        network.sink();
        network.wide_windows();
        let socket = network.silent_connection(false, 4000);
        socket.set_send_buffer_bytes(16 << 20).unwrap();
        let mut ways = Ways::over(socket);
        ways.send_all();
        let without_room = ways.assert_taken() as usize;
        assert!((1..ROUNDS).contains(&without_room), "{without_room}");
        abort(ways, ROUNDS - without_room);
    });
}

/// So many sends of the sender are lent, and all of the ring. They come back when the connection is
/// aborted, and not before.
#[track_caller]
fn abort(mut ways: Ways, lent: usize) {
    ways.through.0.submit().unwrap();
    assert_eq!(ways.lending.outstanding().sends - ways.lending.released(), lent);
    assert_eq!(ways.through.0.outstanding().sends, ROUNDS, "nobody acknowledged");
    assert_eq!(fates(&ways.released), [Fate::Copied; ROUNDS], "of the plain sends alone");
    ways.lending.abort();
    let fates = fates(&all_releases(&mut ways.lending));
    let not_copied = fates.iter().filter(|fate| **fate == Fate::NotCopied).count();
    assert_eq!((fates.len(), not_copied), (ROUNDS, lent));
    let released = run(&mut ways.through.0).releases;
    assert_eq!(released.len(), ROUNDS);
    assert!(released.iter().all(|release| release.bytes == LENGTHS[2]));
}
