//! What is known of a ring's sends and sockets, and what comes of their results and releases.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::message::Event;
use crate::buf::{Payload, StableBytes};
use crate::error::{Errno, Error, Result};
use crate::send::auto::{Auto, Way};
use crate::send::counters::{Counters, FallbackReason};
use crate::send::notifier::{Binding, SlotError, Slots};
use crate::send::plan::{self, Mode, Next, Refused};
use crate::send::release::{Fate, Release, SendId, Sent};
use crate::send::sender::Outstanding;
use crate::sys::inet::{Socket, Transport};
use crate::sys::numbered::Numbered;
use crate::sys::send_ring::Witness;
use crate::sys::zerocopy::{Landed, MAX_REGIONS};

/// What is known of a send on its way.
struct Context {
    socket: usize,
    binding: Option<Binding>,
    bytes: usize,
    lent: bool,
    /// Where a datagram goes that has an address of its own.
    to: Option<Box<SocketAddr>>,
}

/// What was learnt of one socket.
struct Lane {
    transport: Transport,
    auto: Auto,
    counters: Counters,
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

pub(super) struct Accounts<B> {
    by_io_uring: bool,
    pub(super) slots: Slots<Release<B>>,
    /// Of sends that are not over.
    contexts: Numbered<Context>,
    lanes: Vec<Lane>,
    pub(super) events: VecDeque<Event<B>>,
    outstanding: Outstanding,
}

impl<B: StableBytes> Accounts<B> {
    pub(super) fn new(by_io_uring: bool) -> Accounts<B> {
        Accounts {
            by_io_uring,
            slots: Slots::new(),
            contexts: Numbered::new(),
            lanes: Vec::new(),
            events: VecDeque::new(),
            outstanding: Outstanding::default(),
        }
    }

    /// Takes note of a socket; gives its index.
    pub(super) fn add(&mut self, transport: Transport) -> usize {
        let (auto, counters) = (Auto::new(), Counters::default());
        self.lanes.push(Lane { transport, auto, counters, copies: false });
        self.lanes.len() - 1
    }

    pub(super) fn has(&self, socket: usize) -> bool {
        socket < self.lanes.len()
    }

    pub(super) fn transport(&self, socket: usize) -> Option<Transport> {
        self.lanes.get(socket).map(|lane| lane.transport)
    }

    pub(super) fn counters(&self, socket: usize) -> Option<&Counters> {
        self.lanes.get(socket).map(|lane| &lane.counters)
    }

    pub(super) fn outstanding(&self) -> Outstanding {
        self.outstanding
    }

    /// Whether a send over this socket, of which there is one, is to be lent, or why not.
    #[inline]
    pub(super) fn choose(
        &mut self,
        mode: Mode,
        socket: usize,
        (payload, huge_by_index): (&Payload<B>, bool),
        bytes: usize,
    ) -> Result<(), FallbackReason> {
        let is_spread = payload.as_slice().len() > MAX_REGIONS;
        let lane = &mut self.lanes[socket];
        let transport = lane.transport;
        let way = || match self.by_io_uring {
            false => Way::MsgZerocopy(transport),
            true if huge_by_index
                && payload.as_slice().iter().all(|b| b.pool_slice().is_some()) =>
            {
                Way::RingRegistered
            }
            true => Way::Ring,
        };
        let chosen = match mode {
            Mode::Copy => Err(FallbackReason::Asked),
            _ if is_spread => Err(FallbackReason::TooManyRegions),
            Mode::Zerocopy => Ok(()),
            Mode::Auto => lane.auto.choose(bytes, way()),
        };
        match chosen {
            Ok(()) => lane.counters.huge_pages_unnamed += u64::from(!huge_by_index),
            Err(reason) => lane.counters.fell_back(reason),
        }
        chosen
    }

    /// Whether registered huge pages are sent as such over this socket, of which there is one, to
    /// its peer or `to`.
    pub(super) fn names_huge_pages(
        &self,
        socket: usize,
        known: &Socket,
        to: Option<SocketAddr>,
    ) -> bool {
        let Lane { transport, copies, .. } = self.lanes[socket];
        // Of addresses each, those that need no question to the kernel.
        let is_local = || to.map_or_else(|| known.is_local(), |to| to.ip().is_loopback());
        names_huge_pages(transport, copies) && !is_local()
    }

    /// Takes note of the next send; slot and socket exist.
    #[inline]
    pub(super) fn sending(
        &mut self,
        socket: usize,
        to: Option<SocketAddr>,
        bound: Option<Bound>,
        (bytes, lent): (usize, bool),
    ) {
        let binding = bound.and_then(|bound| self.slots.bind(bound.slot).ok());
        if let Some(Bound { slot, flush: true }) = bound {
            // The send just bound holds the notifier back.
            let _ = self.slots.flush(&[slot]);
        }
        let to = to.map(Box::new);
        self.contexts.push(Context { socket, binding, bytes, lent, to });
        self.outstanding.sends += 1;
        self.outstanding.bytes += bytes;
    }

    /// Makes events of the notifications that are complete.
    pub(super) fn post(&mut self) {
        while let Some(notification) = self.slots.next() {
            self.events.push_back(Event::Notified(notification));
        }
    }

    /// Seals the notifiers in these slots.
    pub(super) fn flush(&mut self, slots: &[u32]) -> Result<(), SlotError> {
        self.slots.flush(slots)?;
        self.post();
        Ok(())
    }

    /// Every release that was not taken.
    pub(super) fn into_releases(self) -> Vec<Release<B>> {
        let mut releases: Vec<Release<B>> = Vec::new();
        for event in self.events {
            match event {
                Event::Released(release) => releases.push(release),
                Event::Notified(notification) => releases.extend(notification.releases),
                Event::Sent(_) => {}
            }
        }
        releases.extend(self.slots.into_releases());
        releases
    }
}

impl<B: StableBytes> Witness<B> for Accounts<B> {
    fn is_made_again(
        &mut self,
        number: u64,
        errno: Errno,
        transport: Transport,
        lent: bool,
    ) -> bool {
        let Some(socket) = self.contexts.get(number).map(|context| context.socket) else {
            return false;
        };
        let counters = &mut self.lanes[socket].counters;
        // Completions are read all the time, so that a second attempt would meet the same.
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
    fn ended(&mut self, number: u64, socket: &Socket, result: Result<usize, Errno>) {
        let Some(context) = self.contexts.get(number) else { return };
        let lane = context.socket;
        let result = result.map_err(|errno| refusal_of(context.to.as_deref(), socket, errno));
        let counters = &mut self.lanes[lane].counters;
        match &result {
            Ok(bytes) => {
                counters.sends += 1;
                counters.bytes += *bytes as u64;
            }
            Err(_) => counters.failed_sends += 1,
        }
        self.events.push_back(Event::Sent(Sent { id: SendId(number), result }));
    }

    #[inline]
    fn landed(&mut self, socket: &Socket, landed: Landed<B>) {
        // A copy of ours says nothing of the path.
        let learns = landed.usage.lent_parts > 0 && landed.usage.copied_parts == 0;
        let Some(context) = self.contexts.take(landed.number) else { return };
        let mut release = Release::of(landed, socket);
        self.outstanding.sends -= 1;
        self.outstanding.bytes -= context.bytes;
        let lane = &mut self.lanes[context.socket];
        let believed = is_believed(self.by_io_uring, lane.transport);
        if release.fate == Fate::Copied && context.lent && learns && !believed {
            release.fate = Fate::Unknown;
        }
        lane.counters.released(release.fate, release.bytes);
        lane.copies |= learns && context.lent && release.fate == Fate::Copied;
        if learns && context.lent {
            let is_told = believed && release.fate != Fate::Unknown;
            lane.auto.learn(is_told.then_some(release.fate == Fate::Copied));
        }
        match context.binding {
            Some(binding) => self.slots.release(binding, release),
            None => self.events.push_back(Event::Released(release)),
        }
    }
}

#[cold]
fn refusal_of(to: Option<&SocketAddr>, socket: &Socket, errno: Errno) -> Error {
    let subject = to.map_or_else(|| socket.subject(), |to| to.to_string());
    Error::network("send to", subject, errno)
}

/// Whether a report of a copy can be believed. io_uring reports TCP sends as copied when their
/// notifications were joined, also where nothing was copied (Linux 6.10 and later: the notification
/// that is joined to another has no device's report of its own, `io_link_skb` in `io_uring/notif.c`).
fn is_believed(by_io_uring: bool, transport: Transport) -> bool {
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
    use super::{Transport, is_believed, names_huge_pages};

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
            assert_eq!(is_believed(by_io_uring, transport), expected);
        }
    }
}
