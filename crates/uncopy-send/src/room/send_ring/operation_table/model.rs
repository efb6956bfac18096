//! Tests the operation table, with slots, against a model of the kernel: in whatever order requests
//! complete, every send has one result and is completed once, not before the kernel has released its memory,
//! and no send overtakes another on its stream.
//!
//! The modelled kernel knows chains only from the links of the requests, as the real one does
//! (`io_submit_sqe` in `io_uring/io_uring.c`): requests that are not linked are made in any order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;

use io_uring::squeue::Entry;
use proptest::prelude::*;

use super::fill::Requests;
use super::*;
use crate::room::Payload;
use crate::{Binding, Slots};

type Bytes = Arc<Vec<u8>>;

/// Bytes of every send; a send in parts has three requests.
const BYTES: usize = 50;
const PART: usize = 20;
const SLOTS: usize = 2;
/// Two datagram sockets, three streams, and the first stream once more.
const SOCKETS: usize = 6;
const ROOM: usize = 8;

/// Returns the stream of a socket, named by its first index.
fn stream_of(socket: usize) -> Option<usize> {
    match socket {
        0 | 1 => None,
        5 => Some(2),
        stream => Some(stream),
    }
}

/// The submission queue.
#[derive(Default)]
struct Queue {
    room: usize,
    /// Numbers of sends, and whether the next one follows in their chain.
    requests: VecDeque<(u64, bool)>,
}

impl Requests for Queue {
    fn room(&self) -> usize {
        self.room.saturating_sub(self.requests.len())
    }

    /// # Safety
    /// No contract is needed: the entry is not used.
    unsafe fn put(&mut self, number: u64, linked: bool, _: Entry) -> bool {
        assert!(self.requests.len() < self.room);
        self.requests.push_back((number, linked));
        true
    }
}

#[derive(Debug, Clone)]
enum ModelStep {
    /// Takes in a send. Socket 0 sends datagrams, socket 1 datagrams in parts, and the others are streams.
    Send {
        socket: usize,
        lend: bool,
        slot: Option<usize>,
    },
    /// Makes a call with `room` for requests in the queue, of which the kernel takes `taken`.
    Fill {
        room: usize,
        taken: usize,
        unprepared: Option<Unprepared>,
    },
    /// Gives the oldest request of a chain a result.
    Result {
        at: usize,
        outcome: Outcome,
        more: bool,
    },
    Notify {
        at: usize,
    },
    Cancel {
        at: usize,
    },
    Flush {
        slot: usize,
    },
}

/// A request that cannot be prepared. It ends its whole chain before any of it was sent, the requests in
/// front of it first (`io_submit_fail_init` in `io_uring/io_uring.c`).
#[derive(Debug, Clone, Copy)]
struct Unprepared {
    chain: usize,
    member: usize,
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Whole,
    /// On a stream: some of the bytes, and the link is broken.
    Short,
    /// `ENOBUFS`
    NoRoom,
    /// `EPERM`
    Refused,
}

fn step() -> impl Strategy<Value = ModelStep> {
    let outcome = prop_oneof![
        6 => Just(Outcome::Whole),
        1 => Just(Outcome::Short),
        3 => Just(Outcome::NoRoom),
        1 => Just(Outcome::Refused),
    ];
    let unprepared =
        (0..4usize, 0..4usize).prop_map(|(chain, member)| Unprepared { chain, member });
    let unprepared = prop::option::weighted(0.1, unprepared);
    let taken = prop_oneof![9 => Just(ROOM), 1 => 1..ROOM];
    prop_oneof![
        16 => (0..SOCKETS, prop::bool::weighted(0.8), prop::option::of(0..SLOTS))
            .prop_map(|(socket, lend, slot)| ModelStep::Send { socket, lend, slot }),
        4 => (1..=ROOM, taken, unprepared)
            .prop_map(|(room, taken, unprepared)| ModelStep::Fill { room, taken, unprepared }),
        8 => (0..9usize, outcome, prop::bool::weighted(0.7))
            .prop_map(|(at, outcome, more)| ModelStep::Result { at, outcome, more }),
        6 => (0..9usize).prop_map(|at| ModelStep::Notify { at }),
        1 => (0..40usize).prop_map(|at| ModelStep::Cancel { at }),
        1 => (0..SLOTS).prop_map(|slot| ModelStep::Flush { slot }),
    ]
}

/// Records events, and releases sends to their slots.
#[derive(Default)]
struct Recorded {
    ended: BTreeMap<u64, Sys<usize>>,
    completed: BTreeSet<u64>,
    bindings: BTreeMap<u64, Binding>,
    slots: Option<Slots<u64>>,
}

impl CompletionSink<Bytes, ()> for Recorded {
    fn should_retry_copied(&mut self, _: IndexedSocket<'_>, errno: Errno, lent: bool) -> bool {
        lent && errno == Errno::ENOBUFS
    }

    fn ended(
        &mut self,
        number: u64,
        _: IndexedSocket<'_>,
        _: impl FnOnce() -> Option<SocketAddr>,
        result: Sys<usize>,
    ) {
        assert!(!self.completed.contains(&number), "{number} has a result after it was completed");
        assert_eq!(self.ended.insert(number, result), None, "{number} has a second result");
    }

    fn completed(&mut self, _: IndexedSocket<'_>, completed: Completed<Bytes>, (): ()) {
        let number = completed.number;
        assert!(self.ended.contains_key(&number), "{number} is completed without a result");
        assert!(self.completed.insert(number), "{number} is completed a second time");
        if let (Some(binding), Some(slots)) = (self.bindings.remove(&number), &mut self.slots) {
            slots.release(binding, number);
        }
    }
}

struct World {
    table: OperationTable<Bytes, ()>,
    recorded: Recorded,
    buffers: Vec<Bytes>,
    /// Requests without a result, by chain.
    chains: Vec<VecDeque<u64>>,
    /// Sends with outstanding notifications.
    owed: Vec<u64>,
    /// Stream of each send.
    streams: Vec<Option<usize>>,
    /// Failed sends that the kernel had, and the number of sends taken in before each failure.
    failed: BTreeMap<u64, u64>,
    queue: Queue,
    /// Aborted streams.
    aborted: BTreeSet<usize>,
    flushes: [u32; SLOTS],
    _peers: (UdpSocket, [TcpStream; 3]),
}

impl World {
    fn new() -> World {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut table = OperationTable::new(Ability { fixed_vectors: true, reports: true });
        let stream = || InetSocket::connect_tcp(listener.local_addr().unwrap()).unwrap();
        for _ in 0..2 {
            let socket = InetSocket::connect_udp(receiver.local_addr().unwrap()).unwrap();
            table.sockets.push(Arc::new(socket));
        }
        let peers = [(); 3].map(|()| {
            table.sockets.push(Arc::new(stream()));
            listener.accept().unwrap().0
        });
        table.sockets.push(table.sockets[2].clone());
        let mut slots = Slots::new();
        slots.register(&[0; SLOTS]).unwrap();
        let recorded = Recorded { slots: Some(slots), ..Recorded::default() };
        let _peers = (receiver, peers);
        let (buffers, chains, owed, streams, flushes) = Default::default();
        let (failed, queue, aborted) = Default::default();
        World {
            table,
            recorded,
            buffers,
            chains,
            owed,
            streams,
            failed,
            queue,
            aborted,
            flushes,
            _peers,
        }
    }

    fn slots(&mut self) -> &mut Slots<u64> {
        self.recorded.slots.as_mut().unwrap()
    }

    fn run(&mut self, step: &ModelStep) {
        match *step {
            ModelStep::Send { socket, lend, slot } => self.send(socket, lend, slot),
            ModelStep::Fill { room, taken, unprepared } => self.fill(room, taken, unprepared),
            ModelStep::Result { at, outcome, more } if !self.chains.is_empty() => {
                self.result(at % self.chains.len(), outcome, more);
            }
            ModelStep::Notify { at } if !self.owed.is_empty() => {
                let number = self.owed.remove(at % self.owed.len());
                self.table.notified(number, false, &mut self.recorded);
            }
            ModelStep::Cancel { at } if !self.buffers.is_empty() => {
                let number = (at % self.buffers.len()) as u64;
                self.table.cancel(number, &mut self.recorded);
            }
            ModelStep::Flush { slot } => {
                self.flushes[slot] += 1;
                self.slots().flush(&[slot as u32]).unwrap();
            }
            ModelStep::Result { .. } | ModelStep::Notify { .. } | ModelStep::Cancel { .. } => {}
        }
        self.check();
    }

    fn send(&mut self, socket: usize, lend: bool, slot: Option<usize>) {
        let buffer = Arc::new(vec![1; BYTES]);
        let operation = Operation::new(Payload::One(buffer.clone()), socket, None, lend, ());
        let operation = if socket == 1 { operation.in_parts_of(PART) } else { operation };
        let number = self.table.push(|| operation);
        assert_eq!(number as usize, self.buffers.len());
        self.buffers.push(buffer);
        self.streams.push(stream_of(socket));
        if let Some(slot) = slot {
            let binding = self.slots().bind(slot as u32).unwrap();
            self.recorded.bindings.insert(number, binding);
        }
    }

    /// Fills the queue; the kernel takes `taken` requests out of it.
    fn fill(&mut self, room: usize, taken: usize, unprepared: Option<Unprepared>) {
        self.queue.room = room;
        self.table.fill(&mut self.queue);
        let begin = self.chains.len();
        let mut is_linked = false;
        let taken = taken.min(self.queue.requests.len());
        for (number, linked) in self.queue.requests.drain(..taken) {
            match self.chains.last_mut() {
                Some(chain) if is_linked => chain.push_back(number),
                _ => self.chains.push(VecDeque::from([number])),
            }
            is_linked = linked;
        }
        let left = self.queue.requests.len() as u64;
        assert!(!is_linked || left > 0, "the last request is linked to one of a later call");
        if left > 0 {
            let sockets = &self.table.sockets;
            let place =
                |s: &Arc<InetSocket>| sockets.iter().position(|known| Arc::ptr_eq(known, s));
            self.aborted.extend(self.table.split_streams(left).iter().filter_map(place));
        }
        if let Some(Unprepared { chain, member }) = unprepared
            && begin < self.chains.len()
        {
            let chain = begin + chain % (self.chains.len() - begin);
            let chain = self.chains.remove(chain);
            let member = member % chain.len();
            for (place, number) in chain.into_iter().enumerate() {
                let errno = if place == member { Errno::ENOBUFS } else { Errno::ECANCELED };
                self.report(number, Err(errno), place != member);
            }
        }
    }

    /// Checks that all sends before this one on its stream have results, and that none of them failed after
    /// this one was taken in.
    fn check_order(&self, number: u64) {
        let Some(stream) = self.streams[number as usize] else { return };
        for before in (0..number).filter(|n| self.streams[*n as usize] == Some(stream)) {
            assert!(self.recorded.ended.contains_key(&before), "{number} overtakes {before}");
            let was_there = self.failed.get(&before).is_some_and(|sends| number < *sends);
            assert!(!was_there, "{number} follows the gap of {before}, which failed");
        }
    }

    fn result(&mut self, at: usize, outcome: Outcome, more: bool) {
        let Some(number) = self.chains[at].pop_front() else { return };
        let operation = self.table.operations.get(number).unwrap();
        let (socket, left) = (operation.socket, BYTES - operation.usage.bytes);
        let is_stream = stream_of(socket).is_some();
        let is_aborted = stream_of(socket).is_some_and(|stream| self.aborted.contains(&stream));
        let result = match outcome {
            _ if is_aborted => Err(Errno::EPIPE),
            Outcome::Whole if socket == 1 => Ok(left.min(PART)),
            Outcome::Whole => Ok(left),
            Outcome::Short if is_stream => Ok((left / 2).max(1)),
            Outcome::Short | Outcome::Refused => Err(Errno::EPERM),
            Outcome::NoRoom => Err(Errno::ENOBUFS),
        };
        if result.is_ok() {
            self.check_order(number);
        }
        let is_whole = result == Ok(left) || (result.is_ok() && !is_stream);
        self.report(number, result, more);
        let behind = if is_whole { VecDeque::new() } else { std::mem::take(&mut self.chains[at]) };
        for number in behind {
            self.report(number, Err(Errno::ECANCELED), more);
        }
        self.chains.retain(|chain| !chain.is_empty());
    }

    fn report(&mut self, number: u64, result: Sys<usize>, more: bool) {
        // Copied sends have no notification.
        let more = more && self.table.operations.get(number).unwrap().lend;
        if more {
            self.owed.push(number);
        }
        self.table.ended(number, result, more, &mut self.recorded);
        if self.recorded.ended.get(&number).is_some_and(Result::is_err) {
            self.failed.insert(number, self.buffers.len() as u64);
        }
    }

    /// Returns whether the kernel may read the memory of a send.
    fn is_held(&self, number: u64) -> bool {
        let queued = self.queue.requests.iter().map(|(number, _)| number);
        let mut requests = self.chains.iter().flatten().chain(&self.owed).chain(queued);
        requests.any(|held| *held == number)
    }

    fn check(&self) {
        let taken = self.chains.iter().map(VecDeque::len).sum::<usize>();
        let requests = taken + self.queue.requests.len() + self.owed.len();
        assert_eq!(self.table.in_kernel, requests);
        for (number, buffer) in (0..).zip(&self.buffers) {
            let is_completed = self.recorded.completed.contains(&number);
            assert_eq!(Arc::strong_count(buffer) == 1, is_completed, "{number}");
            assert!(!is_completed || !self.is_held(number), "{number} is still read by the kernel");
        }
    }

    /// Has the kernel take and release everything.
    fn settle(&mut self) {
        // A send in parts takes a round for each part; held sends follow in the next round.
        for _ in 0..4 * (self.buffers.len() + 1) {
            self.run(&ModelStep::Fill { room: ROOM, taken: ROOM, unprepared: None });
            while !self.chains.is_empty() {
                self.run(&ModelStep::Result { at: 0, outcome: Outcome::Whole, more: true });
            }
            while !self.owed.is_empty() {
                self.run(&ModelStep::Notify { at: 0 });
            }
        }
        assert_eq!(self.recorded.completed.len(), self.buffers.len(), "no more progress");
        assert_eq!((self.table.in_kernel, self.table.waiting()), (0, 0));
        assert_eq!(self.recorded.ended.len(), self.buffers.len());
    }

    /// Checks that every bound send was released once, and that each flush had one notification.
    fn check_slots(&mut self, bound: usize) {
        let flushes = self.flushes;
        let slots = self.slots();
        let mut posted = Vec::new();
        while let Some(notification) = slots.next() {
            posted.push(notification);
        }
        assert_eq!(posted.len(), flushes.iter().sum::<u32>() as usize);
        let slots = self.recorded.slots.take().unwrap();
        let of_posted = posted.iter().flat_map(|n| n.releases.iter().copied());
        let mut all: Vec<u64> = of_posted.chain(slots.into_releases()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), bound, "each bound send is released once");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn sends_complete_once_and_in_stream_order(
        steps in prop::collection::vec(step(), 0..120),
        is_torn_down: bool,
    ) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.run(step));
        if is_torn_down {
            let held: Vec<bool> =
                (0..world.buffers.len() as u64).map(|number| world.is_held(number)).collect();
            let World { table, buffers, .. } = world;
            drop(table);
            // If the kernel may read any memory, all operations are leaked.
            let is_any_held = held.contains(&true);
            for (buffer, is_held) in buffers.iter().zip(held) {
                let is_kept = Arc::strong_count(buffer) > 1;
                prop_assert!(is_kept || !is_held);
                prop_assert!(is_any_held || !is_kept);
            }
            return Ok(());
        }
        let bound = steps.iter().filter(|s| matches!(s, ModelStep::Send { slot: Some(_), .. })).count();
        world.settle();
        world.check_slots(bound);
    }
}
