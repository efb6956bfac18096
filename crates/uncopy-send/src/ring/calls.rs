//! A ring's sends, carried out by one call each.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::copying::Copying;
use super::engine::Request;
use crate::counters::{Counters, FallbackReason};
use crate::options::SenderOptions;
use crate::paths::Path;
use crate::room::inet::{InetSocket, Transport, Wanted};
use crate::room::send_ring::{CompletionSink, IndexedSocket};
use crate::room::sequence_map::SequenceMap;
use crate::room::writer::Writer;
use crate::room::zerocopy::{Completed, Usage};
use crate::room::{Payload, StableBytes};
use crate::sender::{Progress, Sender, Sending};
use uncopy_core::{Errno, Result};

/// Between two looks at sockets, any of which may be the first at which something happens.
const BRIEF: Duration = Duration::from_micros(200);

pub(super) struct Calls<B: StableBytes, C> {
    lanes: Vec<Lane<B>>,
    /// The lane of each index: a socket that was taken in twice has one.
    places: Vec<usize>,
    /// What is known elsewhere of sends that are not over, each with the index that it was sent by.
    contexts: SequenceMap<(usize, C)>,
    options: SenderOptions,
    /// What has happened.
    events: VecDeque<CallEvent<B>>,
}

/// What became of a send.
enum CallEvent<B> {
    /// The kernel took so many bytes, or refused those that went to `to`, if they had an address.
    Ended { number: u64, to: Option<SocketAddr>, result: Result<usize, Errno> },
    /// Its memory is free.
    Completed(Completed<B>),
}

/// A socket, and its sends in their order.
struct Lane<B: StableBytes> {
    way: Lending<B>,
    waiting: VecDeque<Waiting<B>>,
}

/// A send that has not begun.
struct Waiting<B> {
    number: u64,
    payload: Payload<B>,
    to: Option<SocketAddr>,
    lend: Result<Path, FallbackReason>,
}

/// A send that has, and its number in the ring.
struct Current {
    number: u64,
    to: Option<SocketAddr>,
    sending: Sending,
}

enum Lending<B: StableBytes> {
    Own {
        sender: Box<Sender<B>>,
        /// The send that the socket had no room for.
        current: Option<Current>,
        /// Which of the ring's numbers the sender's sends have.
        numbers: VecDeque<(u64, u64)>,
    },
    /// Of a sender elsewhere, which counts what is lent there: nothing is lent here.
    Shared { socket: Arc<InetSocket>, writer: Option<Writer>, current: Option<Copying<B>> },
}

impl<B: StableBytes, C> Calls<B, C> {
    pub(super) fn new(options: SenderOptions) -> Calls<B, C> {
        let (lanes, places, contexts) = (Vec::new(), Vec::new(), SequenceMap::new());
        Calls { lanes, places, contexts, options, events: VecDeque::new() }
    }

    pub(super) fn add(&mut self, socket: InetSocket) {
        let sender = Box::new(Sender::new(socket, &self.options));
        self.push_lane(Lending::Own { sender, current: None, numbers: VecDeque::new() });
    }

    pub(super) fn add_shared(&mut self, socket: Arc<InetSocket>) {
        let is_same = |lane: &Lane<B>| std::ptr::eq(lane.way.socket(), &*socket);
        if let Some(place) = self.lanes.iter().position(is_same) {
            // Its sends keep their order, by whichever index they come.
            return self.places.push(place);
        }
        let writer = Some(Writer::new(socket.clone()));
        self.push_lane(Lending::Shared { socket, writer, current: None });
    }

    fn push_lane(&mut self, way: Lending<B>) {
        self.places.push(self.lanes.len());
        self.lanes.push(Lane { way, waiting: VecDeque::new() });
    }

    pub(super) fn socket(&self, index: usize) -> Option<&InetSocket> {
        self.places.get(index).map(|place| self.lanes[*place].way.socket())
    }

    pub(super) fn push(&mut self, request: Request<'_, B>, context: C) -> Option<u64> {
        let Request { payload, socket, to, lend, .. } = request;
        let lane = &mut self.lanes[*self.places.get(socket)?];
        let number = self.contexts.push((socket, context));
        lane.waiting.push_back(Waiting { number, payload, to: to.copied(), lend });
        Some(number)
    }

    /// Ends each stream over which every send has its result.
    pub(super) fn end_streams(&mut self) {
        for Lane { way, waiting } in &mut self.lanes {
            if waiting.is_empty() && way.current().is_none() {
                way.end_stream();
            }
        }
    }

    /// Sends that have not begun.
    pub(super) fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting.len()).sum()
    }

    /// Makes the sends that there is room for; waits for `want` steps or until the time is over.
    pub(super) fn submit(&mut self, want: usize, timeout: Option<Duration>) {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            self.carry_out();
            self.look();
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let is_outstanding = self.lanes.iter().any(|lane| lane.way.is_outstanding());
            if self.events.len() >= want || !is_outstanding || left == Some(Duration::ZERO) {
                return;
            }
            self.pause(left.map_or(BRIEF, |left| left.min(BRIEF)));
        }
    }

    fn carry_out(&mut self) {
        let Calls { lanes, events, .. } = self;
        for lane in lanes {
            lane.carry_out(|event| events.push_back(event));
        }
    }

    /// Collects releases.
    fn look(&mut self) {
        let Calls { lanes, events, .. } = self;
        for lane in lanes {
            let Lending::Own { sender, numbers, .. } = &mut lane.way else { continue };
            // A queue that cannot be read gives nothing more.
            while let Ok(Some(mut completed)) = sender.next_completed() {
                let place = numbers.iter().position(|(own, _)| *own == completed.number);
                if let Some((_, number)) = place.and_then(|place| numbers.remove(place)) {
                    completed.number = number;
                    events.push_back(CallEvent::Completed(completed));
                }
            }
        }
    }

    fn pause(&self, time: Duration) {
        match &self.lanes[..] {
            // Reports that nobody reads here would end each wait at once.
            [Lane { way: way @ Lending::Own { current: Some(_), .. }, .. }] => {
                way.socket().wait(Wanted::Room, Some(time));
            }
            _ => std::thread::sleep(time),
        }
    }

    pub(super) fn cancel(&mut self, number: u64) {
        let Calls { lanes, events, .. } = self;
        for lane in lanes {
            lane.cancel(number, |event| events.push_back(event));
        }
    }

    /// Why sends were copied since this was last asked, and what else was met, by socket.
    pub(super) fn take_reasons(&mut self) -> impl Iterator<Item = (usize, Counters)> {
        let Calls { lanes, places, .. } = self;
        places.iter().enumerate().filter_map(|(index, place)| match &mut lanes[*place].way {
            Lending::Own { sender, .. } => Some((index, sender.take_counters())),
            Lending::Shared { .. } => None,
        })
    }

    /// Tells what happened since, if anything did.
    pub(super) fn report(&mut self, sink: &mut impl CompletionSink<B, C>) -> bool {
        self.look();
        let has_happened = !self.events.is_empty();
        let Calls { lanes, places, contexts, events, .. } = self;
        let via = |index: usize| IndexedSocket { index, socket: lanes[places[index]].way.socket() };
        for event in events.drain(..) {
            match event {
                CallEvent::Ended { number, to, result } => {
                    if let Some((index, _)) = contexts.get(number) {
                        sink.ended(number, via(*index), || to, result);
                    }
                }
                CallEvent::Completed(completed) => {
                    if let Some((index, context)) = contexts.take(completed.number) {
                        sink.completed(via(index), completed, context);
                    }
                }
            }
        }
        has_happened
    }
}

impl<B: StableBytes> Lane<B> {
    /// Sends until the socket is full or nothing waits.
    fn carry_out(&mut self, mut report: impl FnMut(CallEvent<B>)) {
        loop {
            if self.way.current().is_none() {
                let Some(waiting) = self.waiting.pop_front() else { return };
                self.way.begin(waiting);
            }
            let result = match self.way.advance() {
                Progress::WaitForRoom => return,
                Progress::Done => None,
                Progress::Failed(errno) => Some(errno),
            };
            self.end(result, &mut report);
        }
    }

    /// The current send is over, failed or not; one that failed takes those behind it on a stream
    /// with it, so that the peer reads no gap.
    fn end(&mut self, failed: Option<Errno>, mut report: impl FnMut(CallEvent<B>)) {
        self.way.end(failed, &mut report);
        if failed.is_some() && self.way.socket().transport() == Transport::Tcp {
            self.waiting.drain(..).for_each(|waiting| unsent(waiting, &mut report));
        }
    }

    fn cancel(&mut self, number: u64, mut report: impl FnMut(CallEvent<B>)) {
        if self.way.current() == Some(number) {
            self.end(Some(Errno::ECANCELED), report);
        } else if let Some(place) = self.waiting.iter().position(|waiting| waiting.number == number)
            && let Some(waiting) = self.waiting.remove(place)
        {
            unsent(waiting, &mut report);
        }
    }
}

/// A send that was not begun is canceled.
fn unsent<B>(waiting: Waiting<B>, mut report: impl FnMut(CallEvent<B>)) {
    let Waiting { number, payload, to, .. } = waiting;
    report(CallEvent::Ended { number, to, result: Err(Errno::ECANCELED) });
    report(CallEvent::Completed(Completed { number, payload, usage: Usage::default() }));
}

impl<B: StableBytes> Lending<B> {
    fn socket(&self) -> &InetSocket {
        match self {
            Lending::Own { sender, .. } => sender.socket(),
            Lending::Shared { socket, .. } => socket,
        }
    }

    fn end_stream(&mut self) {
        match self {
            Lending::Own { sender, .. } => sender.end_stream(),
            Lending::Shared { writer, .. } => *writer = None,
        }
    }

    /// The number of the send that has begun.
    fn current(&self) -> Option<u64> {
        match self {
            Lending::Own { current, .. } => current.as_ref().map(|current| current.number),
            Lending::Shared { current, .. } => current.as_ref().map(|copying| copying.number),
        }
    }

    /// Something will happen.
    fn is_outstanding(&self) -> bool {
        match self {
            Lending::Own { sender, .. } => sender.outstanding().sends > 0,
            Lending::Shared { current, .. } => current.is_some(),
        }
    }

    fn begin(&mut self, waiting: Waiting<B>) {
        let Waiting { number, payload, to, lend } = waiting;
        match self {
            Lending::Own { sender, current, numbers } => {
                let sending = sender.begin(payload, to, (lend, None));
                numbers.push_back((sending.number, number));
                *current = Some(Current { number, to, sending });
            }
            Lending::Shared { current, .. } => *current = Some(Copying::new(number, payload, to)),
        }
    }

    /// Sends what there is room for of the current send.
    fn advance(&mut self) -> Progress {
        match self {
            Lending::Own { sender, current: Some(current), .. } => {
                sender.advance(&mut current.sending)
            }
            Lending::Shared { socket, current: Some(copying), .. } => copying.advance(socket),
            Lending::Own { current: None, .. } | Lending::Shared { current: None, .. } => {
                Progress::Done
            }
        }
    }

    fn end(&mut self, failed: Option<Errno>, mut report: impl FnMut(CallEvent<B>)) {
        let result = |done| failed.map_or(Ok(done), Err);
        match self {
            Lending::Own { sender, current, .. } => {
                let Some(Current { number, to, sending }) = current.take() else { return };
                sender.end(&sending, failed.is_none());
                report(CallEvent::Ended { number, to, result: result(sending.done) });
            }
            Lending::Shared { current, .. } => {
                let Some(Copying { number, payload, to, usage }) = current.take() else { return };
                report(CallEvent::Ended { number, to, result: result(usage.bytes) });
                report(CallEvent::Completed(Completed { number, payload, usage }));
            }
        }
    }
}
