//! The state of a ring beside its engine: sockets, slots, cost samples and events that were not taken.

use std::net::SocketAddr;
use std::time::Duration;

use super::calls::LedgerSink;
use super::message::{Bound, RingEvent};
use super::socket_state::{NewSend, SocketState};
use crate::choice::{Choice, CostSample, Path};
use crate::counters::{Counters, Outstanding};
use crate::notifier::{Binding, Slots};
use crate::paths::Paths;
use crate::plan::{self, AfterRefusal, Mode, RefusedSend};
use crate::release::{Release, SendId, Sent};
use crate::room::StableBytes;
use crate::room::inet::{InetSocket, Transport};
use crate::room::send_ring::{CompletionSink, IndexedSocket};
use crate::room::sequence_map::SequenceMap;
use crate::room::zerocopy::Completed;
use uncopy_core::{Errno, Error, Objection, Result};

/// The ring's own data of a send that is not completed.
#[derive(Default)]
pub(super) struct Context {
    binding: Option<Binding>,
    /// Bytes of all buffers.
    bytes: u32,
    /// Path that the send was lent on. `None`: it is copied.
    lent: Option<Path>,
}

/// An event that the caller has not taken yet.
enum PendingEvent<B> {
    Sent(Sent),
    Released(Release<B>),
    /// The next notification of the slots.
    Notified,
}

/// Sends taken in since the last system call.
#[derive(Debug, Default)]
struct Batch {
    sends: u32,
    /// Sends whose cost is measured.
    sampled_sends: u32,
    /// The sample that the cost of the next system calls belongs to.
    sample: Option<BatchSample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BatchSample {
    /// Index of the socket.
    socket: usize,
    sample: CostSample,
}

pub(super) struct RingState<B> {
    mode: Mode,
    by_io_uring: bool,
    batch: Batch,
    pub(super) slots: Slots<Release<B>>,
    sockets: Vec<SocketState>,
    pending_events: SequenceMap<PendingEvent<B>>,
    /// Number of notifications among the pending events.
    notified: usize,
    outstanding: Outstanding,
}

impl Batch {
    /// Adds a send whose cost is measured.
    fn add_sampled(&mut self, new: BatchSample, paths: &mut Paths) {
        match self.sample {
            None => self.sample = Some(new),
            Some(known) if known == new => {}
            // The cost of a call for sends of two kinds cannot be divided between them.
            Some(_) => return paths.invalidate_sample(new.sample),
        }
        self.sampled_sends += 1;
    }
}

impl<B: StableBytes> RingState<B> {
    pub(super) fn new(mode: Mode, by_io_uring: bool) -> RingState<B> {
        RingState {
            mode,
            by_io_uring,
            batch: Batch::default(),
            slots: Slots::new(),
            sockets: Vec::new(),
            pending_events: SequenceMap::new(),
            notified: 0,
            outstanding: Outstanding::default(),
        }
    }

    /// Adds a socket; returns its index.
    pub(super) fn add(&mut self, transport: Transport) -> usize {
        self.sockets.push(SocketState::new(transport, self.by_io_uring));
        self.sockets.len() - 1
    }

    pub(super) fn counters(&self, socket: usize) -> Option<&Counters> {
        self.sockets.get(socket).map(|state| &state.counters)
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn outstanding(&self) -> Outstanding {
        self.outstanding
    }

    /// Decides whether to lend a send.
    #[inline]
    pub(super) fn choose(&mut self, send: &NewSend<'_, B>) -> Choice {
        if self.mode == Mode::Auto {
            self.finish_sample();
            self.batch.sends += 1;
        }
        let socket = send.index;
        let state = &mut self.sockets[socket];
        let decision = state.decide(self.mode, send);
        if let Some(sample) = decision.sample {
            self.batch.add_sampled(BatchSample { socket, sample }, &mut state.paths);
        }
        decision.choice
    }

    /// Finishes a cost sample when a batch begins, since the system calls of the batch before are over.
    #[inline]
    fn finish_sample(&mut self) {
        if self.batch.sends > 0 {
            return;
        }
        let Some(BatchSample { socket, sample }) = self.batch.sample else { return };
        let paths = &mut self.sockets[socket].paths;
        if paths.is_sample_complete(sample) {
            paths.finish_sample(sample);
            self.batch.sample = None;
        }
    }

    /// Returns whether the cost of the next system calls is measured.
    #[inline]
    pub(super) fn is_sampled(&self) -> bool {
        self.batch.sample.is_some()
    }

    /// Adds the processor time of system calls to the current sample.
    pub(super) fn add_cost(&mut self, time: Duration) {
        let Some(BatchSample { socket, sample }) = self.batch.sample else { return };
        let paths = &mut self.sockets[socket].paths;
        match self.batch.sends == self.batch.sampled_sends {
            true => paths.add_cost(sample, time),
            false => {
                paths.invalidate_sample(sample);
                self.batch.sample = None;
            }
        }
    }

    /// Begins a new batch: the engine has everything that was taken in.
    #[inline]
    pub(super) fn submitted(&mut self) {
        (self.batch.sends, self.batch.sampled_sends) = (0, 0);
    }

    /// Returns whether registered huge pages are sent as registered memory on the socket with this index,
    /// to its peer or `to`.
    pub(super) fn names_huge_pages(
        &self,
        index: usize,
        socket: &InetSocket,
        to: Option<&SocketAddr>,
    ) -> bool {
        self.sockets[index].names_huge_pages(socket, to)
    }

    /// Notes the next send. Slot and socket exist, and the send is not too long.
    #[inline]
    pub(super) fn begin(
        &mut self,
        socket: usize,
        bound: Option<Bound>,
        bytes: usize,
        lent: Option<Path>,
    ) -> Context {
        if lent.is_some() {
            self.sockets[socket].note_lent();
        }
        let binding = match bound {
            None => None,
            Some(Bound { slot, flush: false }) => self.slots.bind(slot).ok(),
            Some(Bound { slot, flush: true }) => self.slots.bind_and_seal(slot).ok(),
        };
        self.outstanding.sends += 1;
        self.outstanding.bytes += bytes;
        Context { binding, bytes: bytes as u32, lent }
    }

    /// Queues an event for each notification that has become complete.
    pub(super) fn post(&mut self) {
        let posted = self.slots.posted();
        for _ in self.notified..posted {
            self.pending_events.push(PendingEvent::Notified);
        }
        self.notified = posted;
    }

    pub(super) fn has_events(&self) -> bool {
        self.pending_events.len() > 0
    }

    /// Returns the number of pending events.
    pub(super) fn events(&self) -> usize {
        self.pending_events.len()
    }

    #[inline]
    pub(super) fn next_event(&mut self) -> Option<RingEvent<B>> {
        Some(match self.pending_events.pop()? {
            PendingEvent::Sent(sent) => RingEvent::Sent(sent),
            PendingEvent::Released(release) => RingEvent::Released(release),
            PendingEvent::Notified => {
                self.notified -= 1;
                RingEvent::Notified(self.slots.next()?)
            }
        })
    }

    /// Seals the notifiers in these slots.
    pub(super) fn flush(&mut self, slots: &[u32]) -> Result<(), Objection> {
        self.slots.flush(slots)?;
        self.post();
        Ok(())
    }

    /// Returns every release that was not taken.
    pub(super) fn into_releases(mut self) -> Vec<Release<B>> {
        let events = std::iter::from_fn(|| self.pending_events.pop());
        let released = events.filter_map(|event| match event {
            PendingEvent::Released(release) => Some(release),
            PendingEvent::Sent(_) | PendingEvent::Notified => None,
        });
        released.chain(self.slots.into_releases()).collect()
    }
}

impl<B: StableBytes> CompletionSink<B, Context> for RingState<B> {
    fn should_retry_copied(&mut self, socket: IndexedSocket<'_>, errno: Errno, lent: bool) -> bool {
        let counters = &mut self.sockets[socket.index].counters;
        let transport = socket.socket.transport();
        // Completions are read all the time, so reading them before a second attempt would not help.
        let refused = RefusedSend { errno, transport, lent, drained: true };
        match plan::after(refused) {
            AfterRefusal::Copy(reason) => {
                let no_room = matches!(errno, Errno::ENOBUFS | Errno::ENOMEM);
                counters.no_buffer_space += u64::from(no_room);
                counters.fell_back(reason);
                true
            }
            AfterRefusal::WaitForRoom | AfterRefusal::Drain | AfterRefusal::Fail => false,
        }
    }

    #[inline]
    fn ended(
        &mut self,
        number: u64,
        socket: IndexedSocket<'_>,
        to: impl FnOnce() -> Option<SocketAddr>,
        result: Result<usize, Errno>,
    ) {
        let result = result.map_err(|errno| refusal_of(to(), socket.socket, errno));
        let counters = &mut self.sockets[socket.index].counters;
        match &result {
            Ok(bytes) => {
                counters.sends += 1;
                counters.bytes += *bytes as u64;
            }
            Err(_) => counters.failed_sends += 1,
        }
        self.pending_events.push_with(|| PendingEvent::Sent(Sent { id: SendId(number), result }));
    }

    #[inline]
    fn completed(&mut self, socket: IndexedSocket<'_>, completed: Completed<B>, context: Context) {
        let Completed { number, payload, usage } = completed;
        let IndexedSocket { index, socket } = socket;
        let Context { binding, bytes, lent } = context;
        self.outstanding.sends -= 1;
        self.outstanding.bytes -= bytes as usize;
        let fate = self.sockets[index].complete(usage, lent, socket, self.mode);
        let release = || Release { id: SendId(number), payload, fate, bytes: usage.bytes };
        match binding {
            Some(binding) => self.slots.release(binding, release()),
            None => {
                self.pending_events.push_with(|| PendingEvent::Released(release()));
            }
        }
    }
}

impl<B: StableBytes> LedgerSink<B, Context> for RingState<B> {
    fn ledger(&mut self, socket: usize) -> &mut Counters {
        &mut self.sockets[socket].counters
    }
}

#[cold]
fn refusal_of(to: Option<SocketAddr>, socket: &InetSocket, errno: Errno) -> Error {
    let subject = to.map_or_else(|| socket.subject(), |to| to.to_string());
    Error::network("send to", subject, errno)
}
