//! What is known of a ring's sends and sockets, and what comes of their results and releases.

use std::net::SocketAddr;
use std::time::Duration;

use super::message::RingEvent;
use crate::auto::Lending;
use crate::coalesced_reports::CoalescedReports;
use crate::counters::{Counters, FallbackReason};
use crate::notifier::{Binding, Slots};
use crate::paths::{CostSample, Path, Paths};
use crate::plan::{self, AfterRefusal, Mode, RefusedSend};
use crate::release::{Fate, Release, SendId, Sent};
use crate::room::inet::{InetSocket, Transport};
use crate::room::send_ring::{CompletionSink, IndexedSocket};
use crate::room::sequence_map::SequenceMap;
use crate::room::zerocopy::{Completed, MAX_REGIONS};
use crate::room::{Payload, StableBytes};
use crate::sender::Outstanding;
use uncopy_core::{Errno, Error, Objection, Result};

/// What is known of a send on its way.
#[derive(Default)]
pub(super) struct Context {
    binding: Option<Binding>,
    /// Of all its buffers.
    bytes: u32,
    /// On which path it was lent. `None`: it was not.
    lent: Option<Path>,
}

/// What has happened, and nobody has been told of.
enum PendingEvent<B> {
    Sent(Sent),
    Released(Release<B>),
    /// The next notification of the slots.
    Notified,
}

/// What was learnt of one socket.
struct SocketState {
    transport: Transport,
    paths: Paths,
    /// Reports of io_uring over a stream.
    coalesced: CoalescedReports,
    counters: Counters,
    /// A sender counts why sends are copied.
    has_sender: bool,
    /// A release said that the path copies.
    copies: bool,
}

/// What a send is bound to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) slot: u32,
    /// It is the last of its notifier.
    pub(super) flush: bool,
}

/// What was taken in since the last system call.
#[derive(Debug, Default)]
struct Batch {
    sends: u32,
    /// Of these, those whose cost is to be told.
    sampled_sends: u32,
    /// Of sends on this socket, so taken, what system calls cost is told.
    sample: Option<(usize, CostSample)>,
}

pub(super) struct RingState<B> {
    mode: Mode,
    by_io_uring: bool,
    batch: Batch,
    pub(super) slots: Slots<Release<B>>,
    sockets: Vec<SocketState>,
    pending_events: SequenceMap<PendingEvent<B>>,
    /// Notifications among them.
    notified: usize,
    outstanding: Outstanding,
}

impl Batch {
    /// One more send is taken in whose cost is to be told.
    fn note(&mut self, socket: usize, sample: CostSample, paths: &mut Paths) {
        match self.sample {
            None => self.sample = Some((socket, sample)),
            Some(known) if known == (socket, sample) => {}
            // Of two kinds, neither can be told.
            Some(_) => return paths.invalidate_sample(sample),
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

    /// Takes note of a socket; gives its index.
    pub(super) fn add(&mut self, transport: Transport, is_shared: bool) -> usize {
        let has_sender = !self.by_io_uring && !is_shared;
        let (coalesced, counters) = Default::default();
        let paths = Paths::new();
        self.sockets.push(SocketState {
            transport,
            paths,
            coalesced,
            counters,
            has_sender,
            copies: false,
        });
        self.sockets.len() - 1
    }

    pub(super) fn counters(&self, socket: usize) -> Option<&Counters> {
        self.sockets.get(socket).map(|state| &state.counters)
    }

    /// Takes over what a socket's sender counted.
    pub(super) fn add_reasons(&mut self, socket: usize, of_sender: &Counters) {
        self.sockets[socket].counters.add_reasons(of_sender);
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn outstanding(&self) -> Outstanding {
        self.outstanding
    }

    /// Whether a send over this socket, which has this index, to its peer or `to` is to be lent, and
    /// on which path, or why not.
    #[inline]
    pub(super) fn choose(
        &mut self,
        (socket, known, to): (usize, &InetSocket, Option<&SocketAddr>),
        (payload, huge_by_index): (&Payload<B>, bool),
        bytes: usize,
    ) -> Result<Path, FallbackReason> {
        let is_spread = payload.as_slice().len() > MAX_REGIONS;
        if self.mode == Mode::Auto {
            self.finish_sample();
            self.batch.sends += 1;
        }
        let state = &mut self.sockets[socket];
        let transport = state.transport;
        let way = || match self.by_io_uring {
            false => Lending::MsgZerocopy(transport),
            true if huge_by_index
                && payload.as_slice().iter().all(|b| b.pool_slice().is_some()) =>
            {
                Lending::RingRegistered
            }
            true => Lending::Ring,
        };
        let (chosen, sample) = match self.mode {
            Mode::Copy => (Err(FallbackReason::Asked), None),
            _ if is_spread => (Err(FallbackReason::TooManyRegions), None),
            Mode::Zerocopy => (Ok(Path::default()), None),
            Mode::Auto => state.paths.choose(bytes, way(), (known, to)),
        };
        if let Some(sample) = sample {
            self.batch.note(socket, sample, &mut state.paths);
        }
        match chosen {
            Ok(_) => state.counters.huge_pages_unnamed += u64::from(!huge_by_index),
            Err(_) if state.has_sender => {}
            Err(reason) => state.counters.fell_back(reason),
        }
        chosen
    }

    /// A batch begins: what the system calls for the one before cost is known.
    #[inline]
    fn finish_sample(&mut self) {
        if self.batch.sends > 0 {
            return;
        }
        let Some((socket, sample)) = self.batch.sample else { return };
        let paths = &mut self.sockets[socket].paths;
        if paths.is_sample_complete(sample) {
            paths.finish_sample(sample);
            self.batch.sample = None;
        }
    }

    /// What the next system calls cost is to be told.
    #[inline]
    pub(super) fn is_sampled(&self) -> bool {
        self.batch.sample.is_some()
    }

    /// System calls cost so much processor time.
    pub(super) fn add_cost(&mut self, time: Duration) {
        let Some((socket, sample)) = self.batch.sample else { return };
        let paths = &mut self.sockets[socket].paths;
        match self.batch.sends == self.batch.sampled_sends {
            true => paths.add_cost(sample, time),
            false => {
                paths.invalidate_sample(sample);
                self.batch.sample = None;
            }
        }
    }

    /// What was taken in is the kernel's now.
    #[inline]
    pub(super) fn submitted(&mut self) {
        (self.batch.sends, self.batch.sampled_sends) = (0, 0);
    }

    /// Whether registered huge pages are sent as such over this socket, of which there is one, to
    /// its peer or `to`.
    pub(super) fn names_huge_pages(
        &self,
        socket: usize,
        known: &InetSocket,
        to: Option<&SocketAddr>,
    ) -> bool {
        let SocketState { transport, copies, .. } = self.sockets[socket];
        // Of addresses each, those that need no question to the kernel.
        let is_local = || to.map_or_else(|| known.is_local(), |to| to.ip().is_loopback());
        names_huge_pages(transport, copies) && !is_local()
    }

    /// Takes note of the next send; slot and socket exist, and it is not too long.
    #[inline]
    pub(super) fn sending(
        &mut self,
        socket: usize,
        bound: Option<Bound>,
        (bytes, lent): (usize, Option<Path>),
    ) -> Context {
        let state = &mut self.sockets[socket];
        if lent.is_some() && !report_is_reliable(self.by_io_uring, state.transport) {
            state.coalesced.lend();
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

    /// Puts the notifications that are complete behind what has happened.
    pub(super) fn post(&mut self) {
        let posted = self.slots.posted();
        for _ in self.notified..posted {
            self.pending_events.push(PendingEvent::Notified);
        }
        self.notified = posted;
    }

    /// Something has happened that nobody has been told of.
    pub(super) fn has_events(&self) -> bool {
        self.pending_events.len() > 0
    }

    /// How many things have.
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

    /// Every release that was not taken.
    pub(super) fn into_releases(mut self) -> Vec<Release<B>> {
        let pending_events = std::iter::from_fn(|| self.pending_events.pop());
        let released = pending_events.filter_map(|pending_events| match pending_events {
            PendingEvent::Released(release) => Some(release),
            PendingEvent::Sent(_) | PendingEvent::Notified => None,
        });
        released.chain(self.slots.into_releases()).collect()
    }
}

impl<B: StableBytes> CompletionSink<B, Context> for RingState<B> {
    fn should_retry_copied(&mut self, via: IndexedSocket<'_>, errno: Errno, lent: bool) -> bool {
        let counters = &mut self.sockets[via.index].counters;
        // Completions are read all the time, so that a second attempt would meet the same.
        let transport = via.socket.transport();
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
        via: IndexedSocket<'_>,
        to: impl FnOnce() -> Option<SocketAddr>,
        result: Result<usize, Errno>,
    ) {
        let result = result.map_err(|errno| refusal_of(to(), via.socket, errno));
        let counters = &mut self.sockets[via.index].counters;
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
    fn completed(&mut self, via: IndexedSocket<'_>, completed: Completed<B>, context: Context) {
        let Completed { number, payload, usage } = completed;
        let socket = via.socket;
        let mut fate = usage.fate(socket);
        self.outstanding.sends -= 1;
        self.outstanding.bytes -= context.bytes as usize;
        let state = &mut self.sockets[via.index];
        if let Some(path) = context.lent {
            let report_is_reliable = report_is_reliable(self.by_io_uring, state.transport);
            let copied = match report_is_reliable {
                true => usage.path_copied(socket),
                false => state.coalesced.path_copied(usage, socket),
            };
            if fate == Fate::Copied
                && usage.copied_parts == 0
                && !report_is_reliable
                && !(copied == Some(true) && state.coalesced.was_alone())
            {
                fate = Fate::Unknown;
            }
            // A copy of ours says nothing of the path.
            if usage.copied_parts == 0 {
                if self.mode == Mode::Auto {
                    state.paths.learn(path, copied);
                }
                state.copies |= fate == Fate::Copied;
            }
        }
        state.counters.released(fate, usage.bytes);
        let release = || Release { id: SendId(number), payload, fate, bytes: usage.bytes };
        match context.binding {
            Some(binding) => self.slots.release(binding, release()),
            None => {
                self.pending_events.push_with(|| PendingEvent::Released(release()));
            }
        }
    }
}

#[cold]
fn refusal_of(to: Option<SocketAddr>, socket: &InetSocket, errno: Errno) -> Error {
    let subject = to.map_or_else(|| socket.subject(), |to| to.to_string());
    Error::network("send to", subject, errno)
}

/// Whether each report of a copy stands for itself. Those of io_uring over TCP need not.
fn report_is_reliable(by_io_uring: bool, transport: Transport) -> bool {
    !by_io_uring || transport != Transport::Tcp
}

/// Whether registered huge pages may be sent as such over a socket whose path copies or does not.
///
/// The kernel charges packets of registered memory with its offset in the page: up to 2 MiB for
/// each (`io_sg_from_iter` in `io_uring/net.c` of Linux 6.1 and 6.12: `truesize +=
/// PAGE_ALIGN(v.bv_len + v.bv_offset)`, where a huge page is one vector). That fills the send buffer of a stream with a few packets, and the receive
/// buffer of a socket on the same machine with one, so that it drops the next.
fn names_huge_pages(transport: Transport, copies: bool) -> bool {
    transport == Transport::Udp && !copies
}

#[cfg(test)]
mod tests {
    use super::{Transport, names_huge_pages, report_is_reliable};

    #[test]
    fn huge_pages_are_named_to_devices_that_do_not_copy_datagrams() {
        for (transport, copies, expected) in [
            (Transport::Udp, false, true),
            (Transport::Udp, true, false),
            (Transport::Tcp, false, false),
            (Transport::Tcp, true, false),
        ] {
            assert_eq!(names_huge_pages(transport, copies), expected, "{transport:?} {copies}");
        }
    }

    #[test]
    fn only_io_urings_copied_over_tcp_is_not_believed() {
        for (by_io_uring, transport, expected) in [
            (true, Transport::Tcp, false),
            (true, Transport::Udp, true),
            (false, Transport::Tcp, true),
            (false, Transport::Udp, true),
        ] {
            assert_eq!(report_is_reliable(by_io_uring, transport), expected);
        }
    }
}
