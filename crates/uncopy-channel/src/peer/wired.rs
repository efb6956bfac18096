//! Ends whose other end is in another process, and moving an end to another process.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc as StdArc;

use super::{End, Half, Locked, Pair, Peered, Side};
use crate::Status;
use crate::eventfd::Raised;
use crate::identity::Koid;
use crate::observers::ObserverKind;
use crate::packets::{Binding, Refresh};
use crate::rights::{Grant, Rights};
use crate::signals::Signals;
use crate::sleep::{PollDescriptor, PollTarget, Waiter};
use crate::source::Intake;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Weak};
use crate::transport::carrier::{Backlogs, Carriers, Writers};
use crate::transport::gather::Body;
use crate::transport::packet::Content;
use crate::transport::parcel::Parts;
use crate::transport::wire::{Wire, send};
use uncopy_os::epoll::Interest;
use uncopy_os::seqpacket::{self, Ready};

mod intake;

/// An end that is moving to another process.
pub(crate) struct Departed {
    pub(crate) fd: OwnedFd,
    /// Sockets with unread packets, to be read first.
    pub(crate) backlog: Vec<OwnedFd>,
    /// User signals that are set, and above them the kind-specific bits.
    pub(crate) extra: u64,
    /// Socket to close when the end is read.
    pub(crate) read_notice: Option<OwnedFd>,
}

/// Contents of an end that [`Peered::leave`] takes, beside its sockets.
struct Left<T: End> {
    /// Where the unread packets go.
    writers: Writers,
    unread: Vec<T::Unread>,
    remains: T::Remains,
}

/// Bit in `extra` of a channel's end: its last descriptor is to be closed when the end is read.
pub(crate) const HAS_READ_NOTICE: u64 = 1 << 32;

impl From<Departed> for Parts {
    fn from(departed: Departed) -> Parts {
        let Departed { fd, backlog, extra, read_notice } = departed;
        // Only for channels, which do not use that bit otherwise.
        let extra = if read_notice.is_some() { extra | HAS_READ_NOTICE } else { extra };
        Parts { fds: std::iter::once(fd).chain(backlog).chain(read_notice).collect(), extra }
    }
}

/// Signals that move with an end.
const CARRIED: Signals = Signals::USER_ALL.union(Signals::WRITE_DISABLED);

/// An end that a port looks at, as long as it exists.
struct Watched<T> {
    pair: Weak<Pair<T>>,
    side: Side,
}

impl<T: End> Refresh for Watched<T> {
    fn refresh(&self) {
        if let Some(pair) = self.pair.upgrade() {
            pair.refresh_wired(self.side, Signals::empty());
        }
    }

    fn is_gone(&self) -> bool {
        self.pair.strong_count() == 0
    }
}

/// Where what an end sends goes.
pub(crate) enum Transport<'a, T> {
    /// The other end is in this process: the pair, locked.
    Local(Locked<'a, T>),
    /// The other end is in another process, behind this socket.
    Wired(StdArc<Wire>),
}

impl<'a, T: End> Locked<'a, T> {
    /// Returns where what `side` sends goes. Every operation that sends asks here, once, or
    /// [`wire_to_peer`](Self::wire_to_peer) if it sends under the lock.
    ///
    /// # Errors
    /// [`Status::PeerClosed`] if nothing can be sent any more.
    #[inline(always)]
    pub(crate) fn transport(self, side: Side) -> Result<Transport<'a, T>, Status> {
        Ok(match self.wire_to_peer(side)? {
            None => Transport::Local(self),
            Some(wire) => Transport::Wired(wire),
        })
    }

    /// Returns the socket that what `side` sends goes to, if the other end is in another process.
    ///
    /// # Errors
    /// [`Status::PeerClosed`] if nothing can be sent any more.
    #[inline(always)]
    pub(crate) fn wire_to_peer(&self, side: Side) -> Result<Option<StdArc<Wire>>, Status> {
        if self.is_orphan(side) { Err(Status::PeerClosed) } else { Ok(self.wire(side)) }
    }

    /// Lets more come to `side`, which was full and has room again: from the socket or from the peer.
    pub(crate) fn room_made(&mut self, side: Side, wire: Option<&Wire>) {
        match wire {
            Some(wire) => {
                // All that there is room for: changes of signals come behind messages.
                self.pump(side, wire, Signals::empty());
                // Those who sleep do not poll the socket of a full end.
                self.recheck_waiters(side);
                self.update_descriptors(side, wire);
            }
            None if self.is_orphan(side) => {}
            None => self.update(side.peer(), Signals::empty(), Signals::WRITABLE),
        }
    }
}

impl<T: End> Locked<'_, T> {
    #[inline]
    pub(crate) fn wire(&self, side: Side) -> Option<StdArc<Wire>> {
        self.sides[side.index()].wire.clone()
    }

    fn set_wire(&mut self, side: Side, wire: StdArc<Wire>) {
        let half = &mut self.sides[side.index()];
        half.wire = Some(wire);
        half.end.became_wired();
        // Only the kernel knows how much room there is.
        self.update(side, Signals::WRITE_THRESHOLD, Signals::empty());
        self.pair.wired[side.index()].store(true, Ordering::Release);
    }

    pub(super) fn unwire(&mut self, side: Side) -> Option<StdArc<Wire>> {
        self.pair.wired[side.index()].store(false, Ordering::Release);
        self.sides[side.index()].wire.take()
    }

    /// Records that the peer is closed; some of what it sent may still be in the socket.
    fn lose_peer(&mut self, side: Side, wire: &Wire) {
        let half = &mut self.sides[side.index()];
        // A closed socket stays readable for poll(2).
        half.observers.each(|observer| {
            if let ObserverKind::Descriptor(raised) = &observer.kind
                && let Some(raised) = raised.upgrade()
            {
                wire.unwatch(raised.set());
            }
        });
        self.update(side, Signals::WRITABLE, Signals::PEER_CLOSED);
    }

    /// Records that nothing can be received or sent any more.
    fn hang_up(&mut self, side: Side, wire: &Wire) {
        self.end(side).cut_off();
        self.lose_peer(side, wire);
    }

    /// Has all threads that wait for `side` find out again what to wait for.
    pub(crate) fn recheck_waiters(&mut self, side: Side) {
        let half = &mut self.sides[side.index()];
        half.end.recheck_waiters();
        half.observers.recheck_waiters();
    }
}

impl<T: End> Locked<'_, T> {
    /// Returns the events of the socket that can set a signal of `trigger` now.
    fn interest(&mut self, side: Side, trigger: Signals) -> Interest {
        interest(trigger, self.signals(side), self.end(side).has_room())
    }

    /// Has the descriptors that wait for `side` poll for what can set their signals now: they would stay readable for
    /// anything else.
    pub(crate) fn update_descriptors(&mut self, side: Side, wire: &Wire) {
        let (signals, has_room) = (self.signals(side), self.end(side).has_room());
        self.sides[side.index()].observers.each(|observer| {
            if let ObserverKind::Descriptor(raised) = &observer.kind
                && let Some(raised) = raised.upgrade()
            {
                wire.set_interest(raised.set(), interest(observer.trigger, signals, has_room));
            }
        });
    }

    /// Returns the descriptor to poll while waiting, if packets in a socket change the signals.
    pub(super) fn poll_target(&mut self, side: Side, trigger: Signals) -> Option<PollTarget> {
        let Some(wire) = self.wire(side) else {
            let descriptor = PollDescriptor::Epoll(self.end(side).read_watch()?);
            return Some(PollTarget {
                descriptor,
                ready: Ready { hung_up: true, ..Ready::default() },
            });
        };
        if self.signals(side).contains(Signals::PEER_CLOSED) {
            return None;
        }
        let Interest { read, write, .. } = self.interest(side, trigger);
        // No signals stand for any packet.
        let read = read || trigger.is_empty() && self.end(side).has_room();
        let ready = Ready { read, write, hung_up: true };
        Some(PollTarget { descriptor: PollDescriptor::Wire(wire), ready })
    }
}

impl<T: End> Pair<T> {
    /// Looks at the socket, and receives what has come, as far as there is room. Once one of the
    /// signals is set, packets that arrive during the look may stay in the socket.
    #[cold]
    pub(super) fn refresh_wired(&self, side: Side, until: Signals) {
        if let Ok(mut locked) = self.lock() {
            locked.look_first(side, until);
        }
    }
}

impl<T: End> Peered<T> {
    /// Whether the other end is in another process, without the lock.
    #[inline]
    pub(crate) fn is_wired(&self) -> bool {
        self.pair.wired[self.side.index()].load(Ordering::Acquire)
    }

    /// Makes one end of a pair whose other end is behind `wire`.
    pub(crate) fn remote(ends: [T; 2], wire: Wire, rights: Rights, signals: Signals) -> Peered<T> {
        let pair = Arc::new(Pair::new(ends));
        let [side, away] = Side::BOTH;
        if let Ok(mut locked) = pair.lock() {
            locked.sides[away.index()].handles = 0;
            locked.set_wire(side, StdArc::new(wire));
            let carried = signals.intersection(CARRIED);
            let clear = match carried.contains(Signals::WRITE_DISABLED) {
                true => Signals::WRITABLE,
                false => Signals::empty(),
            };
            locked.update(side, clear, carried);
        }
        Peered { pair, side, grant: Grant::new(rights) }
    }

    /// Whether none of the signals is set and a look can be skipped, because the last one found
    /// nothing.
    pub(super) fn expects_sleep_wired(&self, until: Signals) -> bool {
        let looks = &self.pair.looks_to_skip[self.side.index()];
        let left = looks.load(Ordering::Relaxed);
        if left == 0 || self.pair.signals(self.side).intersects(until) {
            return false;
        }
        looks.store(left - 1, Ordering::Relaxed);
        true
    }

    /// Records whether a look before a sleep found something.
    pub(crate) fn record_look(&self, found: bool) {
        self.pair.record_look(self.side, found);
    }

    /// Looks at the socket. If one of the signals is set then, and `waiter` is still on the list,
    /// takes it off and returns all signals that are set.
    pub(super) fn settle_wired(
        &self,
        waiter: &Arc<Waiter>,
        until: Signals,
        intake: Intake,
    ) -> Option<Signals> {
        let mut locked = self.lock().ok()?;
        // Off the list during the look, so that this thread does not wake itself.
        let own = locked.sides[self.side.index()].observers.forget(waiter);
        match intake {
            Intake::All => {
                locked.refresh(self.side, until);
            }
            Intake::UpToWake => locked.refresh_up_to_wake(self.side, until, waiter),
        };
        let signals = locked.signals(self.side);
        match own {
            Some(_) if signals.intersects(until) => return Some(signals),
            Some(observer) => locked.sides[self.side.index()].observers.put_back(observer),
            None => {}
        }
        None
    }

    fn watched(&self, side: Side) -> (Koid, StdArc<dyn Refresh>) {
        watched(&self.pair, side)
    }

    /// Adds the socket to the port's epoll set.
    pub(super) fn attach_wired(&self, binding: &Binding, trigger: Signals) -> Result<(), Status> {
        let locked = self.lock()?;
        let Some(wire) = locked.wire(self.side) else { return Ok(()) };
        drop(locked);
        let (token, source) = self.watched(self.side);
        binding.watch(token, source, |set| wire.watch(set, token.get(), edges(trigger)))?;
        self.pair.refresh_wired(self.side, Signals::empty());
        Ok(())
    }

    /// Adds the socket to the epoll set of the descriptor.
    pub(super) fn attach_fd_wired(&self, raised: &Raised, trigger: Signals) -> Result<(), Status> {
        let mut locked = self.lock()?;
        match locked.wire(self.side) {
            Some(wire) if !locked.signals(self.side).contains(Signals::PEER_CLOSED) => {
                wire.watch(raised.set(), 1, locked.interest(self.side, trigger))
            }
            _ => Ok(()),
        }
    }

    /// Turns the end into a socket for another process. If `is_followed`, the other process closes a
    /// second socket when it reads the end, and calls on this end wait until then; otherwise they
    /// end now. Adds the backlog, which is to be sent before the socket is.
    ///
    /// If anything fails, the end is closed and nothing else has changed.
    pub(crate) fn depart(
        mut self,
        is_followed: bool,
        backlogs: &mut Backlogs,
    ) -> Result<Departed, Status> {
        let (departed, Left { writers, unread, remains }) = self.leave(is_followed)?;
        T::drop_outside_lock(remains);
        backlogs.add(writers, unread);
        Ok(departed)
    }

    /// Under the lock: nothing is dropped in here that may hold handles.
    fn leave(&mut self, is_followed: bool) -> Result<(Departed, Left<T>), Status> {
        if self.grant.is_succeeded() {
            return Err(Status::BadHandle);
        }
        let side = self.side;
        let pair = self.pair.clone();
        let mut locked = pair.lock()?;
        let is_last = locked.sides[side.index()].handles == 1;
        let old = locked.wire(side);
        let unread = if is_last { locked.end(side).take_backlog_packets() } else { Vec::new() };
        let Carriers { writers, readers } = match Carriers::for_backlog(&unread) {
            Ok(carriers) => carriers,
            Err(status) => return fail(locked, unread, status),
        };
        let connected = match &old {
            None => locked.connect(&pair, side, readers, is_last),
            Some(wire) => reconnect(wire, readers, is_last),
        };
        let (fd, backlog) = match connected {
            Ok(connected) => connected,
            Err(status) => return fail(locked, unread, status),
        };
        let awaits = is_followed && is_last && locked.end(side).has_waiting_calls();
        let (read_watch, read_notice) = match (awaits, locked.end(side).take_read_notice()) {
            (_, Some(notice)) => (None, Some(notice)),
            (false, None) => (None, None),
            (true, None) => match seqpacket::pair() {
                Ok((here, there)) => (Some(StdArc::new(here)), Some(there)),
                Err(errno) => return fail(locked, unread, errno.into()),
            },
        };
        let extra = u64::from(locked.end(side).kind_bits()) << 32
            | u64::from(locked.signals(side).intersection(CARRIED).bits());
        self.grant.close();
        let half = &mut locked.sides[side.index()];
        half.observers.cancel(self.grant.id());
        half.handles -= 1;
        let mut remains = T::Remains::default();
        if is_last {
            half.observers.cancel_all();
            let is_awaited = read_watch.is_some();
            remains = T::departed(&pair, &mut locked, side, read_watch);
            locked.unwire(side);
            if is_awaited {
                self.pair.wired[side.index()].store(true, Ordering::Release);
                locked.recheck_waiters(side);
            }
        }
        drop(locked);
        let departed = Departed { fd, backlog, extra, read_notice };
        Ok((departed, Left { writers, unread, remains }))
    }
}

/// Releases the lock before the unread packets are dropped.
fn fail<T: End, U>(
    locked: Locked<'_, T>,
    unread: Vec<T::Unread>,
    status: Status,
) -> Result<U, Status> {
    drop(locked);
    drop(unread);
    Err(status)
}

fn watched<T: End>(pair: &Arc<Pair<T>>, side: Side) -> (Koid, StdArc<dyn Refresh>) {
    let source = Watched { pair: Arc::downgrade(pair), side };
    (pair.koids[side.index()], StdArc::new(source))
}

/// Events of the socket that can set a signal of `trigger`, at an end with these signals: what is sent to a full end stays
/// in the socket, and one that writes no more is never writable again.
fn interest(trigger: Signals, signals: Signals, has_room: bool) -> Interest {
    let sent_only = Signals::WRITABLE.union(Signals::PEER_CLOSED);
    Interest {
        read: has_room && !sent_only.contains(trigger),
        write: trigger.contains(Signals::WRITABLE) && !signals.contains(Signals::WRITE_DISABLED),
        edge: false,
    }
}

/// Events of the socket that make a port look at it.
fn edges(trigger: Signals) -> Interest {
    Interest { read: true, write: trigger.contains(Signals::WRITABLE), edge: true }
}

/// Returns another descriptor of the existing socket, and the sockets to be read first.
fn reconnect(
    wire: &Wire,
    mut backlog: Vec<OwnedFd>,
    is_last: bool,
) -> Result<(OwnedFd, Vec<OwnedFd>), Status> {
    let fd = duplicate(wire.fd())?;
    if is_last {
        backlog.extend(wire.take_backlog());
    }
    Ok((fd, backlog))
}

fn duplicate(fd: impl AsFd) -> Result<OwnedFd, Status> {
    Ok(uncopy_os::file::duplicate(fd)?)
}

impl<T: End> Locked<'_, T> {
    /// Connects the ends by a socket; `side` is to move.
    fn connect(
        &mut self,
        pair: &Arc<Pair<T>>,
        side: Side,
        readers: Vec<OwnedFd>,
        is_last: bool,
    ) -> Result<(OwnedFd, Vec<OwnedFd>), Status> {
        let (here, there) = seqpacket::pair()?;
        let kept = if is_last { None } else { Some(duplicate(&there)?) };
        if !readers.is_empty() {
            send(&here, Content::Backlog, Body::empty(), &[], &readers)?;
            drop(readers);
        }
        let peer = side.peer();
        if !self.is_closed(peer) {
            let wire = StdArc::new(Wire::new(here, Vec::new()));
            self.watch_all(pair, peer, &wire)?;
            self.set_wire(peer, wire);
            self.recheck_waiters(peer);
        }
        if let Some(kept) = kept {
            self.set_wire(side, StdArc::new(Wire::new(kept, Vec::new())));
            self.recheck_waiters(side);
        }
        Ok((there, Vec::new()))
    }

    /// Adds the socket to the epoll sets of the ports and descriptors that wait for `side`.
    fn watch_all(
        &mut self,
        pair: &Arc<Pair<T>>,
        side: Side,
        wire: &StdArc<Wire>,
    ) -> Result<(), Status> {
        let (signals, has_room) = (self.signals(side), self.end(side).has_room());
        let half: &mut Half<T> = &mut self.sides[side.index()];
        let mut result = Ok(());
        half.observers.each(|observer| {
            let interest = || interest(observer.trigger, signals, has_room);
            let watched = match &observer.kind {
                ObserverKind::Thread { .. } => Ok(()),
                ObserverKind::Port(binding) => {
                    let (token, source) = watched(pair, side);
                    let edges = edges(observer.trigger);
                    binding.watch(token, source, |set| wire.watch(set, token.get(), edges))
                }
                ObserverKind::Descriptor(raised) => match raised.upgrade() {
                    Some(raised) => wire.watch(raised.set(), 1, interest()),
                    None => Ok(()),
                },
            };
            result = result.and(watched);
        });
        result
    }
}

impl<T: End> Peered<T> {
    /// Sends a message without handles over the socket.
    pub(crate) fn transmit(&self, wire: &Wire, bytes: &[u8]) -> Result<(), Status> {
        self.record_sent(wire.send(Content::Message, bytes))
    }

    /// Checks that the socket takes another message.
    ///
    /// # Errors
    /// [`Status::ShouldWait`] if it is full.
    pub(crate) fn check_room(&self, wire: &Wire) -> Result<(), Status> {
        if wire.ready(Ready::ALL).write {
            Ok(())
        } else {
            self.record_sent(Err(Status::ShouldWait))
        }
    }

    /// Updates the signals by the result of sending, and returns it.
    pub(crate) fn record_sent(&self, sent: Result<(), Status>) -> Result<(), Status> {
        let set = match sent {
            Err(Status::ShouldWait) => Signals::empty(),
            Err(Status::PeerClosed) => Signals::PEER_CLOSED,
            _ => return sent,
        };
        let mut locked = self.lock()?;
        locked.update(self.side, Signals::WRITABLE, set);
        drop(locked);
        // There may be room again by now; an edge-triggered epoll set does not report it twice.
        self.pair.refresh_wired(self.side, Signals::READABLE);
        sent
    }

    /// Makes one end of a pair from what another process sent.
    pub(crate) fn arrive(ends: [T; 2], parts: Parts, rights: Rights) -> Option<Peered<T>> {
        let mut fds = parts.fds;
        if fds.is_empty() || !fds.iter().all(seqpacket::is_seqpacket) {
            return None;
        }
        let backlog = fds.split_off(1);
        let wire = Wire::new(fds.pop()?, backlog);
        let signals = Signals::from_bits_retain(parts.extra as u32);
        Some(Peered::remote(ends, wire, rights, signals))
    }
}
