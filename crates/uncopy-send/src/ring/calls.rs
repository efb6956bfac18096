//! The engine without io_uring: makes a ring's sends one by one, by plain system calls.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::copying::Copying;
use super::request::Request;
use crate::counters::Counters;
use crate::room::inet::{InetSocket, Transport, WaitFor};
use crate::room::send_ring::{CompletionSink, IndexedSocket};
use crate::room::sequence_map::SequenceMap;
use crate::room::writer::Writer;
use crate::room::zerocopy::{Completed, Usage};
use crate::room::{Payload, StableBytes};
use crate::transmitter::{Progress, Transmission, Transmitter};
use uncopy_core::{Errno, Result};

/// Pause between two looks at several sockets, since no single system call waits for all of them.
const PAUSE: Duration = Duration::from_micros(200);

/// A sink that also has the ledger of each socket: its counters, where the reasons for copies are written.
pub(super) trait LedgerSink<B, C>: CompletionSink<B, C> {
    /// Returns the ledger of the socket with this index.
    fn ledger(&mut self, socket: usize) -> &mut Counters;
}

pub(super) struct Calls<B: StableBytes, C> {
    lanes: Vec<Lane<B>>,
    /// Lane by socket index: a socket that was added twice has one lane.
    lane_of: Vec<usize>,
    sends: SequenceMap<Outgoing<C>>,
    /// How long a dropped socket and its lent memory are parked before the connection is aborted.
    park_timeout: Duration,
    /// Events reported since [`reap`](Self::reap) last returned.
    reported: usize,
}

/// A send that is not completed.
struct Outgoing<C> {
    /// Index of the socket that it was given with.
    socket: usize,
    /// The ring's own data of the send.
    context: C,
}

/// A socket, and its sends in their order.
struct Lane<B: StableBytes> {
    /// First index of the socket.
    index: usize,
    line: Line<B>,
    waiting: VecDeque<Waiting<B>>,
}

/// A send that has not begun.
struct Waiting<B> {
    number: u64,
    payload: Payload<B>,
    to: Option<SocketAddr>,
    lend: bool,
}

/// The means to send on a socket, and the send that is being made.
enum Line<B: StableBytes> {
    /// A socket that belongs to the ring.
    Own {
        transmitter: Box<Transmitter<B>>,
        current: Option<Current>,
        /// Sends that the transmitter has not completed, oldest first.
        numbers: VecDeque<NumberPair>,
    },
    /// A socket that belongs to a sender, which alone counts what is lent there. Everything is copied.
    Shared { socket: Arc<InetSocket>, writer: Option<Writer>, current: Option<Copying<B>> },
}

/// A send that has begun, and its number in the ring.
struct Current {
    number: u64,
    transmission: Transmission,
}

/// The two numbers of one send.
struct NumberPair {
    in_transmitter: u64,
    in_ring: u64,
}

/// Nobody continues a send that has begun. Without the reset, its peer could take the end for a normal one.
impl<B: StableBytes> Drop for Line<B> {
    fn drop(&mut self) {
        if self.is_cut_off() && !self.socket().is_inherited() {
            self.socket().abort();
        }
    }
}

/// Reports events of sends to the sink, with the socket index that each send was given with.
struct Reporter<'a, C, S> {
    sends: &'a mut SequenceMap<Outgoing<C>>,
    reported: &'a mut usize,
    sink: &'a mut S,
}

impl<C, S> Reporter<'_, C, S> {
    fn ended<B>(
        &mut self,
        number: u64,
        socket: &InetSocket,
        to: Option<SocketAddr>,
        result: Result<usize, Errno>,
    ) where
        S: LedgerSink<B, C>,
    {
        if let Some(Outgoing { socket: index, .. }) = self.sends.get(number) {
            self.sink.ended(number, IndexedSocket { index: *index, socket }, || to, result);
            *self.reported += 1;
        }
    }

    fn completed<B>(&mut self, completed: Completed<B>, socket: &InetSocket)
    where
        S: LedgerSink<B, C>,
    {
        if let Some(Outgoing { socket: index, context }) = self.sends.take(completed.number) {
            self.sink.completed(IndexedSocket { index, socket }, completed, context);
            *self.reported += 1;
        }
    }

    /// Reports a send that is canceled before it has begun.
    fn canceled<B>(&mut self, waiting: Waiting<B>, socket: &InetSocket)
    where
        S: LedgerSink<B, C>,
    {
        let Waiting { number, payload, to, .. } = waiting;
        self.ended(number, socket, to, Err(Errno::ECANCELED));
        self.completed(Completed { number, payload, usage: Usage::default() }, socket);
    }
}

impl<B: StableBytes, C> Calls<B, C> {
    pub(super) fn new(park_timeout: Duration) -> Calls<B, C> {
        let (lanes, lane_of, sends) = (Vec::new(), Vec::new(), SequenceMap::new());
        Calls { lanes, lane_of, sends, park_timeout, reported: 0 }
    }

    pub(super) fn add(&mut self, socket: InetSocket) {
        let transmitter = Box::new(Transmitter::new(socket, self.park_timeout));
        self.push_lane(Line::Own { transmitter, current: None, numbers: VecDeque::new() });
    }

    pub(super) fn add_shared(&mut self, socket: Arc<InetSocket>) {
        let is_same = |lane: &Lane<B>| std::ptr::eq(lane.line.socket(), &*socket);
        if let Some(place) = self.lanes.iter().position(is_same) {
            // Sends by either index keep their order.
            return self.lane_of.push(place);
        }
        let writer = Some(Writer::new(socket.clone()));
        self.push_lane(Line::Shared { socket, writer, current: None });
    }

    fn push_lane(&mut self, line: Line<B>) {
        let index = self.lane_of.len();
        self.lane_of.push(self.lanes.len());
        self.lanes.push(Lane { index, line, waiting: VecDeque::new() });
    }

    pub(super) fn socket(&self, index: usize) -> Option<&InetSocket> {
        self.lane_of.get(index).map(|place| self.lanes[*place].line.socket())
    }

    pub(super) fn push(&mut self, request: Request<'_, B>, context: C) -> Option<u64> {
        let Request { payload, socket, to, lend, .. } = request;
        let lane = &mut self.lanes[*self.lane_of.get(socket)?];
        let number = self.sends.push(Outgoing { socket, context });
        lane.waiting.push_back(Waiting { number, payload, to: to.copied(), lend });
        Some(number)
    }

    /// Ends each stream whose sends all have their results.
    pub(super) fn end_streams(&mut self) {
        for Lane { line, waiting, .. } in &mut self.lanes {
            if waiting.is_empty() && line.current().is_none() {
                line.end_stream();
            }
        }
    }

    /// Returns the number of sends that have not begun.
    pub(super) fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting.len()).sum()
    }

    /// Makes the sends that the sockets have room for; waits for `want` events or until the timeout.
    pub(super) fn submit(
        &mut self,
        want: usize,
        timeout: Option<Duration>,
        sink: &mut impl LedgerSink<B, C>,
    ) {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            self.send_waiting(sink);
            self.collect(sink);
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let is_outstanding = self.lanes.iter().any(|lane| lane.line.is_outstanding());
            if self.reported >= want || !is_outstanding || left == Some(Duration::ZERO) {
                return;
            }
            self.pause(left.map_or(PAUSE, |left| left.min(PAUSE)));
        }
    }

    /// Sends on every lane until its socket is full or nothing waits.
    fn send_waiting(&mut self, sink: &mut impl LedgerSink<B, C>) {
        let Calls { lanes, sends, reported, .. } = self;
        let mut reporter = Reporter { sends, reported, sink };
        lanes.iter_mut().for_each(|lane| lane.send_waiting(&mut reporter));
    }

    /// Reports the payloads that the kernel no longer needs.
    fn collect(&mut self, sink: &mut impl LedgerSink<B, C>) {
        let Calls { lanes, sends, reported, .. } = self;
        let mut reporter = Reporter { sends, reported, sink };
        for Lane { index, line, .. } in lanes {
            let Line::Own { transmitter, numbers, .. } = line else { continue };
            // An error queue that cannot be read yields nothing more.
            while transmitter.poll_completed(reporter.sink.ledger(*index)).is_ok()
                && let Some(mut completed) = transmitter.next_completed()
            {
                let is_same = |pair: &NumberPair| pair.in_transmitter == completed.number;
                let place = numbers.iter().position(is_same);
                if let Some(pair) = place.and_then(|place| numbers.remove(place)) {
                    completed.number = pair.in_ring;
                    reporter.completed(completed, transmitter.socket());
                }
            }
        }
    }

    fn pause(&self, time: Duration) {
        match &self.lanes[..] {
            // With nothing to send, queued reports of other origin would end each wait at once.
            [Lane { line: line @ Line::Own { current: Some(_), .. }, .. }] => {
                line.socket().wait(WaitFor::Room, Some(time));
            }
            _ => std::thread::sleep(time),
        }
    }

    pub(super) fn cancel(&mut self, number: u64, sink: &mut impl LedgerSink<B, C>) {
        let Calls { lanes, sends, reported, .. } = self;
        let mut reporter = Reporter { sends, reported, sink };
        lanes.iter_mut().for_each(|lane| lane.cancel(number, &mut reporter));
    }

    /// Collects completed payloads. Returns whether any event was reported since the last call.
    pub(super) fn reap(&mut self, sink: &mut impl LedgerSink<B, C>) -> bool {
        self.collect(sink);
        std::mem::take(&mut self.reported) > 0
    }
}

impl<B: StableBytes> Lane<B> {
    fn send_waiting<C, S: LedgerSink<B, C>>(&mut self, reporter: &mut Reporter<'_, C, S>) {
        loop {
            if self.line.current().is_none() {
                let Some(waiting) = self.waiting.pop_front() else { return };
                self.line.begin(waiting);
            }
            let failure = match self.line.advance(reporter.sink.ledger(self.index)) {
                Progress::WaitForRoom => return,
                Progress::Done => None,
                Progress::Failed(errno) => Some(errno),
            };
            self.end(failure, reporter);
        }
    }

    /// Ends the current send. One that failed on a stream cancels those behind it, so that the peer reads
    /// no gap.
    fn end<C, S: LedgerSink<B, C>>(
        &mut self,
        failure: Option<Errno>,
        reporter: &mut Reporter<'_, C, S>,
    ) {
        self.line.end(failure, reporter);
        let socket = self.line.socket();
        if failure.is_some() && socket.transport() == Transport::Tcp {
            self.waiting.drain(..).for_each(|waiting| reporter.canceled(waiting, socket));
        }
    }

    fn cancel<C, S: LedgerSink<B, C>>(&mut self, number: u64, reporter: &mut Reporter<'_, C, S>) {
        if self.line.current() == Some(number) {
            self.end(Some(Errno::ECANCELED), reporter);
        } else if let Some(place) = self.waiting.iter().position(|waiting| waiting.number == number)
            && let Some(waiting) = self.waiting.remove(place)
        {
            reporter.canceled(waiting, self.line.socket());
        }
    }
}

impl<B: StableBytes> Line<B> {
    fn socket(&self) -> &InetSocket {
        match self {
            Line::Own { transmitter, .. } => transmitter.socket(),
            Line::Shared { socket, .. } => socket,
        }
    }

    fn end_stream(&mut self) {
        match self {
            Line::Own { transmitter, .. } => transmitter.end_stream(),
            Line::Shared { writer, .. } => *writer = None,
        }
    }

    /// Returns the number of the send that has begun.
    fn current(&self) -> Option<u64> {
        match self {
            Line::Own { current, .. } => current.as_ref().map(|current| current.number),
            Line::Shared { current, .. } => current.as_ref().map(|copying| copying.number),
        }
    }

    /// Whether the peer would read a part of a send, and then the end of the stream.
    fn is_cut_off(&self) -> bool {
        let has_begun = match self {
            Line::Own { current, .. } => {
                current.as_ref().is_some_and(|current| current.transmission.done > 0)
            }
            Line::Shared { current, .. } => {
                current.as_ref().is_some_and(|copying| copying.usage.bytes > 0)
            }
        };
        has_begun && self.socket().transport() == Transport::Tcp
    }

    /// Returns whether an event of a send that has begun is still to come.
    fn is_outstanding(&self) -> bool {
        match self {
            Line::Own { numbers, .. } => !numbers.is_empty(),
            Line::Shared { current, .. } => current.is_some(),
        }
    }

    fn begin(&mut self, waiting: Waiting<B>) {
        let Waiting { number, payload, to, lend } = waiting;
        match self {
            Line::Own { transmitter, current, numbers } => {
                let transmission = transmitter.begin(payload, to, lend);
                let in_transmitter = transmission.number;
                numbers.push_back(NumberPair { in_transmitter, in_ring: number });
                *current = Some(Current { number, transmission });
            }
            Line::Shared { current, .. } => *current = Some(Copying::new(number, payload, to)),
        }
    }

    /// Sends as much of the current send as the socket has room for.
    fn advance(&mut self, ledger: &mut Counters) -> Progress {
        match self {
            Line::Own { transmitter, current: Some(current), .. } => {
                transmitter.advance(&mut current.transmission, ledger)
            }
            Line::Shared { socket, current: Some(copying), .. } => copying.advance(socket),
            Line::Own { current: None, .. } | Line::Shared { current: None, .. } => Progress::Done,
        }
    }

    fn end<C, S: LedgerSink<B, C>>(
        &mut self,
        failure: Option<Errno>,
        reporter: &mut Reporter<'_, C, S>,
    ) {
        let result = |done| failure.map_or(Ok(done), Err);
        match self {
            Line::Own { transmitter, current, .. } => {
                let Some(Current { number, transmission }) = current.take() else { return };
                transmitter.end(&transmission);
                let Transmission { to, done, .. } = transmission;
                reporter.ended(number, transmitter.socket(), to, result(done));
            }
            Line::Shared { socket, current, .. } => {
                let Some(Copying { number, payload, to, usage }) = current.take() else { return };
                reporter.ended(number, socket, to, result(usage.bytes));
                reporter.completed(Completed { number, payload, usage }, socket);
            }
        }
    }
}
