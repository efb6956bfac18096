//! What is known of a ring's sends and sockets, and what comes of their results and releases.

use std::net::SocketAddr;
use std::time::Duration;

use super::message::RingEvent;
use crate::auto::Lending;
use crate::counters::{Counters, FallbackReason};
use crate::joined::Joined;
use crate::notifier::{Binding, Slots};
use crate::paths::{Path, Paths, Timed};
use crate::plan::{self, Mode, Next, Refused};
use crate::release::{Fate, Release, SendId, Sent};
use crate::room::inet::{InetSocket, Transport};
use crate::room::numbered::Numbered;
use crate::room::send_ring::{Over, Witness};
use crate::room::zerocopy::{Landed, MAX_REGIONS};
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
enum Happened<B> {
    Sent(Sent),
    Released(Release<B>),
    /// The next notification of the slots.
    Notified,
}

/// What was learnt of one socket.
struct Lane {
    transport: Transport,
    paths: Paths,
    /// Reports of io_uring over a stream.
    joined: Joined,
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
    timed_sends: u32,
    /// Of sends on this socket, so taken, what system calls cost is told.
    timed: Option<(usize, Timed)>,
}

pub(super) struct Accounts<B> {
    mode: Mode,
    by_io_uring: bool,
    batch: Batch,
    pub(super) slots: Slots<Release<B>>,
    lanes: Vec<Lane>,
    happened: Numbered<Happened<B>>,
    /// Notifications among them.
    notified: usize,
    outstanding: Outstanding,
}

impl Batch {
    /// One more send is taken in whose cost is to be told.
    fn note(&mut self, socket: usize, timed: Timed, paths: &mut Paths) {
        match self.timed {
            None => self.timed = Some((socket, timed)),
            Some(known) if known == (socket, timed) => {}
            // Of two kinds, neither can be told.
            Some(_) => return paths.spoil_burst(timed),
        }
        self.timed_sends += 1;
    }
}

impl<B: StableBytes> Accounts<B> {
    pub(super) fn new(mode: Mode, by_io_uring: bool) -> Accounts<B> {
        Accounts {
            mode,
            by_io_uring,
            batch: Batch::default(),
            slots: Slots::new(),
            lanes: Vec::new(),
            happened: Numbered::new(),
            notified: 0,
            outstanding: Outstanding::default(),
        }
    }

    /// Takes note of a socket; gives its index.
    pub(super) fn add(&mut self, transport: Transport, is_shared: bool) -> usize {
        let has_sender = !self.by_io_uring && !is_shared;
        let (joined, counters) = Default::default();
        let paths = Paths::new();
        self.lanes.push(Lane { transport, paths, joined, counters, has_sender, copies: false });
        self.lanes.len() - 1
    }

    pub(super) fn counters(&self, socket: usize) -> Option<&Counters> {
        self.lanes.get(socket).map(|lane| &lane.counters)
    }

    /// Takes over what a socket's sender counted.
    pub(super) fn add_reasons(&mut self, socket: usize, of_sender: &Counters) {
        self.lanes[socket].counters.add_reasons(of_sender);
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
            self.end_burst();
            self.batch.sends += 1;
        }
        let lane = &mut self.lanes[socket];
        let transport = lane.transport;
        let way = || match self.by_io_uring {
            false => Lending::MsgZerocopy(transport),
            true if huge_by_index
                && payload.as_slice().iter().all(|b| b.pool_slice().is_some()) =>
            {
                Lending::RingRegistered
            }
            true => Lending::Ring,
        };
        let (chosen, timed) = match self.mode {
            Mode::Copy => (Err(FallbackReason::Asked), None),
            _ if is_spread => (Err(FallbackReason::TooManyRegions), None),
            Mode::Zerocopy => (Ok(Path::default()), None),
            Mode::Auto => lane.paths.choose(bytes, way(), (known, to)),
        };
        if let Some(timed) = timed {
            self.batch.note(socket, timed, &mut lane.paths);
        }
        match chosen {
            Ok(_) => lane.counters.huge_pages_unnamed += u64::from(!huge_by_index),
            Err(_) if lane.has_sender => {}
            Err(reason) => lane.counters.fell_back(reason),
        }
        chosen
    }

    /// A batch begins: what the system calls for the one before cost is known.
    #[inline]
    fn end_burst(&mut self) {
        if self.batch.sends > 0 {
            return;
        }
        let Some((socket, timed)) = self.batch.timed else { return };
        let paths = &mut self.lanes[socket].paths;
        if paths.is_burst_over(timed) {
            paths.end_burst(timed);
            self.batch.timed = None;
        }
    }

    /// What the next system calls cost is to be told.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        self.batch.timed.is_some()
    }

    /// System calls cost so much processor time.
    pub(super) fn spend(&mut self, time: Duration) {
        let Some((socket, timed)) = self.batch.timed else { return };
        let paths = &mut self.lanes[socket].paths;
        match self.batch.sends == self.batch.timed_sends {
            true => paths.spend(timed, time),
            false => {
                paths.spoil_burst(timed);
                self.batch.timed = None;
            }
        }
    }

    /// What was taken in is the kernel's now.
    #[inline]
    pub(super) fn submitted(&mut self) {
        (self.batch.sends, self.batch.timed_sends) = (0, 0);
    }

    /// Whether registered huge pages are sent as such over this socket, of which there is one, to
    /// its peer or `to`.
    pub(super) fn names_huge_pages(
        &self,
        socket: usize,
        known: &InetSocket,
        to: Option<&SocketAddr>,
    ) -> bool {
        let Lane { transport, copies, .. } = self.lanes[socket];
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
        let lane = &mut self.lanes[socket];
        if lent.is_some() && !is_told(self.by_io_uring, lane.transport) {
            lane.joined.lend();
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
            self.happened.push(Happened::Notified);
        }
        self.notified = posted;
    }

    /// Something has happened that nobody has been told of.
    pub(super) fn has_events(&self) -> bool {
        self.happened.len() > 0
    }

    /// How many things have.
    pub(super) fn events(&self) -> usize {
        self.happened.len()
    }

    #[inline]
    pub(super) fn next_event(&mut self) -> Option<RingEvent<B>> {
        Some(match self.happened.pop()? {
            Happened::Sent(sent) => RingEvent::Sent(sent),
            Happened::Released(release) => RingEvent::Released(release),
            Happened::Notified => {
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
        let happened = std::iter::from_fn(|| self.happened.pop());
        let released = happened.filter_map(|happened| match happened {
            Happened::Released(release) => Some(release),
            Happened::Sent(_) | Happened::Notified => None,
        });
        released.chain(self.slots.into_releases()).collect()
    }
}

impl<B: StableBytes> Witness<B, Context> for Accounts<B> {
    fn is_made_again(&mut self, over: Over<'_>, errno: Errno, lent: bool) -> bool {
        let counters = &mut self.lanes[over.index].counters;
        // Completions are read all the time, so that a second attempt would meet the same.
        let transport = over.socket.transport();
        let refused = Refused { errno, transport, lent, drained: true };
        match plan::after(refused) {
            Next::Copy(reason) => {
                let no_room = matches!(errno, Errno::ENOBUFS | Errno::ENOMEM);
                counters.no_buffer_space += u64::from(no_room);
                counters.fell_back(reason);
                true
            }
            Next::WaitForRoom | Next::Drain | Next::Fail => false,
        }
    }

    #[inline]
    fn ended(
        &mut self,
        number: u64,
        over: Over<'_>,
        to: impl FnOnce() -> Option<SocketAddr>,
        result: Result<usize, Errno>,
    ) {
        let result = result.map_err(|errno| refusal_of(to(), over.socket, errno));
        let counters = &mut self.lanes[over.index].counters;
        match &result {
            Ok(bytes) => {
                counters.sends += 1;
                counters.bytes += *bytes as u64;
            }
            Err(_) => counters.failed_sends += 1,
        }
        self.happened.push_with(|| Happened::Sent(Sent { id: SendId(number), result }));
    }

    #[inline]
    fn landed(&mut self, over: Over<'_>, landed: Landed<B>, context: Context) {
        let Landed { number, payload, usage } = landed;
        let socket = over.socket;
        let mut fate = usage.fate(socket);
        self.outstanding.sends -= 1;
        self.outstanding.bytes -= context.bytes as usize;
        let lane = &mut self.lanes[over.index];
        if let Some(path) = context.lent {
            let is_told = is_told(self.by_io_uring, lane.transport);
            let copied = match is_told {
                true => usage.path_copied(socket),
                false => lane.joined.path_copied(usage, socket),
            };
            if fate == Fate::Copied
                && usage.copied_parts == 0
                && !is_told
                && !(copied == Some(true) && lane.joined.was_alone())
            {
                fate = Fate::Unknown;
            }
            // A copy of ours says nothing of the path.
            if usage.copied_parts == 0 {
                if self.mode == Mode::Auto {
                    lane.paths.learn(path, copied);
                }
                lane.copies |= fate == Fate::Copied;
            }
        }
        lane.counters.released(fate, usage.bytes);
        let release = || Release { id: SendId(number), payload, fate, bytes: usage.bytes };
        match context.binding {
            Some(binding) => self.slots.release(binding, release()),
            None => {
                self.happened.push_with(|| Happened::Released(release()));
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
fn is_told(by_io_uring: bool, transport: Transport) -> bool {
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
    use super::{Transport, is_told, names_huge_pages};

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
            assert_eq!(is_told(by_io_uring, transport), expected);
        }
    }
}
