//! Tests plain sends, `MSG_ZEROCOPY` and `SEND_ZC` in turn on one stream. The kernel numbers only
//! `MSG_ZEROCOPY` sends: if others were counted among them, buffers would be released too early or never.

use testbed::network::{NEEDS, isolated};
use testbed::{Case, seeded};
use uncopy::send::{
    FallbackReason, Fate, InetSocket, Message, Mode, Release, Ring, RingEvent, RingSocket, Sender,
};

use crate::send::receiver::{tcp, to_the_end};
use crate::send::{LONG, all_releases, fates, ring, ring_options, run, sender};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![[] three_kinds_of_send_in_turn_on_one_stream];
    let named = |name: &str, body: fn()| Case::new(format!("turns::{name}"), NEEDS, body);
    cases.extend([
        named(
            "three_kinds_of_send_in_turn_are_all_in_flight",
            three_kinds_of_send_in_turn_are_all_in_flight,
        ),
        named("msg_zerocopy_behind_send_zc_is_copied", msg_zerocopy_behind_send_zc_is_copied),
    ]);
    cases
}

const ROUNDS: usize = 20;
/// Lengths of a plain send, a `MSG_ZEROCOPY` send and a `SEND_ZC` send.
const LENGTHS: [usize; 3] = [2000, 50_000, 30_000];

/// One stream, and each kind of sender on it.
struct SendKinds {
    lending: Sender<Vec<u8>>,
    plain: RingAndSocket,
    through: RingAndSocket,
    /// Releases of the rings.
    released: Vec<Release<Vec<u8>>>,
}

struct RingAndSocket {
    ring: Ring<Vec<u8>>,
    socket: RingSocket,
}

impl SendKinds {
    fn over(socket: InetSocket) -> SendKinds {
        let lending = sender(socket, Mode::Zerocopy);
        let mut options = ring_options(Mode::Copy);
        options.without_io_uring = true;
        let mut plain = Ring::new(&options);
        let mut through = ring(Mode::Zerocopy);
        let [shared, other] = [plain.add_shared(&lending), through.add_shared(&lending)];
        let plain = RingAndSocket { ring: plain, socket: shared };
        let through = RingAndSocket { ring: through, socket: other };
        SendKinds { lending, plain, through, released: Vec::new() }
    }

    /// Sends everything, each kind in turn; returns the bytes that the peer is to read.
    fn send_all(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        for seed in 0..3 * ROUNDS {
            let kind = seed % 3;
            let content = seeded(seed as u64, 0, LENGTHS[kind] as u64);
            all.extend_from_slice(&content);
            match kind {
                0 => self.released.extend(send_through(&mut self.plain, content)),
                1 => assert_eq!(self.lending.send(content).result.unwrap(), LENGTHS[1]),
                _ => self.released.extend(send_through(&mut self.through, content)),
            }
        }
        all
    }

    /// Checks the number of sends of each kind; returns how many sends of the sender were copied because the
    /// socket had no room for reports. No other reason may occur.
    #[track_caller]
    fn assert_taken(&self) -> u64 {
        let lent = self.lending.counters();
        let through = self.through.ring.counters(self.through.socket).unwrap();
        let plain = self.plain.ring.counters(self.plain.socket).unwrap();
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

/// Sends, and waits only for the result; returns the releases that came meanwhile.
fn send_through(
    RingAndSocket { ring, socket }: &mut RingAndSocket,
    content: Vec<u8>,
) -> Vec<Release<Vec<u8>>> {
    let length = content.len();
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

fn three_kinds_of_send_in_turn_on_one_stream() {
    for is_v6 in [false, true] {
        let (stream, socket) = tcp(is_v6);
        let received = to_the_end(stream);
        let mut kinds = SendKinds::over(socket);
        let expected = kinds.send_all();
        let lent = all_releases(&mut kinds.lending);
        let mut released = std::mem::take(&mut kinds.released);
        released.extend(run(&mut kinds.through.ring).releases);
        assert!(kinds.assert_taken() < ROUNDS as u64, "at least the first is lent");
        assert_eq!((lent.len(), released.len()), (ROUNDS, 2 * ROUNDS));
        for release in lent.into_iter().chain(released) {
            assert_eq!(release.bytes, release.payload.len());
        }
        let SendKinds { lending, plain, through, .. } = kinds;
        drop((plain, through));
        drop(lending.close(Some(LONG)).unwrap());
        assert!(received.join().unwrap() == expected, "v6 {is_v6}");
    }
}

/// The peer acknowledges nothing, so all memory must be kept until the connection is aborted.
fn three_kinds_of_send_in_turn_are_all_in_flight() {
    isolated(|network| {
        network.sink();
        network.wide_windows();
        for is_v6 in [false, true] {
            // On a busy machine some bytes may stay in the socket: tries again then.
            let is_all_lent = (4000..4010).any(|port| {
                let socket = network.silent_connection(is_v6, port);
                socket.set_send_buffer_bytes(16 << 20).unwrap();
                socket.set_no_delay(true).unwrap();
                let mut kinds = SendKinds::over(socket);
                kinds.send_all();
                let without_room = kinds.assert_taken() as usize;
                abort(kinds, ROUNDS - without_room);
                without_room == 0
            });
            assert!(is_all_lent, "v6 {is_v6}");
        }
    });
}

/// Bytes that do not fill a segment wait for an acknowledgement (`tcp(7)`, `TCP_NODELAY`). Behind io_uring
/// memory that waits, the kernel refuses `MSG_ZEROCOPY` (`msg_zerocopy_realloc` in `net/core/skbuff.c`:
/// `ENOBUFS`), and the send is copied.
fn msg_zerocopy_behind_send_zc_is_copied() {
    isolated(|network| {
        network.sink();
        network.wide_windows();
        let socket = network.silent_connection(false, 4000);
        socket.set_send_buffer_bytes(16 << 20).unwrap();
        let mut kinds = SendKinds::over(socket);
        kinds.send_all();
        let without_room = kinds.assert_taken() as usize;
        assert!((1..ROUNDS).contains(&without_room), "{without_room}");
        abort(kinds, ROUNDS - without_room);
    });
}

/// Checks that `lent` sends of the sender and all of the ring are lent, and are released only when the
/// connection is aborted.
#[track_caller]
fn abort(mut kinds: SendKinds, lent: usize) {
    kinds.through.ring.submit().unwrap();
    assert_eq!(kinds.lending.outstanding().sends - kinds.lending.released(), lent);
    assert_eq!(kinds.through.ring.outstanding().sends, ROUNDS, "nothing is acknowledged");
    assert_eq!(fates(&kinds.released), [Fate::Copied; ROUNDS], "only the plain sends");
    kinds.lending.abort();
    let fates = fates(&all_releases(&mut kinds.lending));
    let not_copied = fates.iter().filter(|fate| **fate == Fate::NotCopied).count();
    assert_eq!((fates.len(), not_copied), (ROUNDS, lent));
    let released = run(&mut kinds.through.ring).releases;
    assert_eq!(released.len(), ROUNDS);
    assert!(released.iter().all(|release| release.bytes == LENGTHS[2]));
}
