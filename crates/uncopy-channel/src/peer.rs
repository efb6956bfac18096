//! Pairs of two ends under one lock: the common part of channels, fifos and sockets.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc as StdArc;

use super::Status;
use super::eventfd::Raised;
use super::identity::{Kind, Koid};
use super::observers::Observers;
use super::packets::Binding;
use super::rights::{Grant, Rights};
use super::signals::Signals;
use super::sleep::{PollTarget, Waiter};
use super::source::{Intake, Source};
use super::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use super::sync::{Arc, BriefGuard, BriefLock, hold};
use super::transport::carrier::Unread;
use super::transport::packet::{Content, encode_signals};
use super::transport::parcel::Load;
use super::transport::wire::Wire;
use uncopy_os::fork::Generation;

mod wired;

pub(super) use wired::{HAS_READ_NOTICE, Transport};

/// One end of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Side(u8);

impl Side {
    pub(super) const BOTH: [Side; 2] = [Side(0), Side(1)];

    pub(super) fn peer(self) -> Side {
        Side(self.0 ^ 1)
    }

    /// Returns 0 or 1; the mask lets the compiler leave out bounds checks.
    pub(super) fn index(self) -> usize {
        usize::from(self.0 & 1)
    }
}

/// Behaviour that differs between the kinds of pairs.
pub(super) trait End: Sized + Send + 'static {
    const KIND: Kind;
    const RIGHTS: Rights;
    /// Signals of a new end.
    const INITIAL: Signals;
    /// Signals that the program may change.
    const USER: Signals;
    /// Contents of an end that is closed or gone, to be dropped outside the lock.
    type Remains: Default;
    /// Unread packet of an end.
    type Unread: Unread;

    /// Closes `side`, whose last handle is closed.
    fn close(pair: &Arc<Pair<Self>>, locked: &mut Locked<'_, Self>, side: Side) -> Self::Remains;
    /// Drops what [`close`](Self::close) or [`departed`](Self::departed) returned, after the lock is
    /// released.
    fn drop_outside_lock(_remains: Self::Remains) {}
    /// Ends calls in progress on `side`.
    fn cancel_calls(_pair: &mut Locked<'_, Self>, _side: Side) {}

    /// Whether there is room for what comes over a socket.
    fn has_room(&self) -> bool {
        true
    }
    /// Whether there is room for two packets, whatever the first is.
    fn has_room_for_two(&self) -> bool {
        true
    }
    /// Takes in what came over a socket; false if this kind of object knows no such packet.
    fn take_in(_: &mut Locked<'_, Self>, _: Side, _: Content, _: Load) -> bool {
        false
    }
    /// Records that nothing comes over the socket any more.
    fn cut_off(&mut self) {}
    /// Has those who wait here, other than for signals, find out again what to wait for.
    fn recheck_waiters(&mut self) {}
    /// Takes what has not been read; it is to be read in the process that this end goes to.
    fn take_backlog_packets(&mut self) -> Vec<Self::Unread> {
        Vec::new()
    }
    /// Records that this end receives from another process, which is trusted less.
    fn became_wired(&mut self) {}
    /// Kind-specific bits sent along with a moved end.
    fn kind_bits(&self) -> u32 {
        0
    }
    /// Whether calls wait here that continue until this end is read in another process.
    fn has_waiting_calls(&self) -> bool {
        false
    }
    /// Records that `side` has gone to another process. `read_watch` hangs up when it is read there.
    fn departed(
        _pair: &Arc<Pair<Self>>,
        _locked: &mut Locked<'_, Self>,
        _side: Side,
        _read_watch: Option<StdArc<OwnedFd>>,
    ) -> Self::Remains {
        Self::Remains::default()
    }
    /// Returns the socket that hangs up when this end is read in another process, while calls wait
    /// for that.
    fn read_watch(&self) -> Option<StdArc<OwnedFd>> {
        None
    }
    /// Records that this end was read in another process, or is lost.
    fn was_read_elsewhere(&mut self) {}
    /// Takes the socket to close when this end is read here.
    fn take_read_notice(&mut self) -> Option<OwnedFd> {
        None
    }
}

pub(super) struct Pair<T> {
    /// Locks and lists belong to the process that made them.
    generation: Generation,
    koids: [Koid; 2],
    /// Written under the lock, read without.
    signals: [AtomicU32; 2],
    /// Whether the half has a wire. Written under the lock, read without.
    wired: [AtomicBool; 2],
    /// Number of looks at the half's wire to skip, because the last one found nothing.
    looks_to_skip: [AtomicU32; 2],
    sides: BriefLock<[Half<T>; 2]>,
}

pub(super) struct Half<T> {
    pub(super) end: T,
    observers: Observers,
    /// Number of open handles in this process; 0 if the end is closed or has moved to another one.
    handles: u32,
    /// Socket to the other end, if that is in another process.
    wire: Option<std::sync::Arc<Wire>>,
}

/// A locked pair.
pub(super) struct Locked<'a, T> {
    pair: &'a Pair<T>,
    sides: BriefGuard<'a, [Half<T>; 2]>,
}

impl<T: End> Pair<T> {
    fn new(ends: [T; 2]) -> Pair<T> {
        let half = |end| Half { end, observers: Observers::default(), handles: 1, wire: None };
        Pair {
            generation: Generation::current(),
            koids: [Koid::next(), Koid::next()],
            signals: [T::INITIAL.bits(); 2].map(AtomicU32::new),
            wired: [false; 2].map(AtomicBool::new),
            looks_to_skip: [0; 2].map(AtomicU32::new),
            sides: BriefLock::new(ends.map(half)),
        }
    }
}

impl<T> Pair<T> {
    /// Locks the pair. Fails in a child that was forked from the process that made it, because
    /// another thread may have been changing it at that moment.
    #[inline]
    pub(super) fn lock(&self) -> Result<Locked<'_, T>, Status> {
        if self.generation != Generation::current() {
            return Err(Status::BadState);
        }
        Ok(Locked { pair: self, sides: hold(&self.sides) })
    }

    #[inline]
    pub(super) fn signals(&self, side: Side) -> Signals {
        Signals::from_bits_retain(self.signals[side.index()].load(Ordering::Acquire))
    }
}

impl<T> Locked<'_, T> {
    #[inline]
    pub(super) fn end(&mut self, side: Side) -> &mut T {
        &mut self.sides[side.index()].end
    }

    #[inline]
    pub(super) fn is_closed(&self, side: Side) -> bool {
        self.sides[side.index()].handles == 0
    }

    /// Whether the peer of `side` is closed, here or elsewhere, or `side` itself is: a handle that
    /// was succeeded may still be in use then. Whoever closes an end sets the signal at its peer.
    #[inline]
    pub(super) fn is_orphan(&self, side: Side) -> bool {
        self.signals(side).contains(Signals::PEER_CLOSED) || self.is_closed(side)
    }

    /// Status of a read at `side` that finds nothing.
    pub(super) fn nothing_to_read(&self, side: Side) -> Status {
        if self.is_orphan(side) { Status::PeerClosed } else { Status::ShouldWait }
    }

    #[inline]
    pub(super) fn signals(&self, side: Side) -> Signals {
        Signals::from_bits_retain(self.pair.signals[side.index()].load(Ordering::Relaxed))
    }

    /// Changes signals and notifies the observers that wait for them.
    #[inline]
    pub(super) fn update(&mut self, side: Side, clear: Signals, set: Signals) {
        let old = self.signals(side);
        let new = old.difference(clear).union(set);
        if new == old {
            return;
        }
        // A plain store: only holders of the lock write.
        self.pair.signals[side.index()].store(new.bits(), Ordering::Release);
        let observers = &mut self.sides[side.index()].observers;
        if !observers.is_empty() {
            observers.notify(old, new);
        }
    }
}

/// A handle to one end.
pub(super) struct Peered<T: End> {
    pub(super) pair: Arc<Pair<T>>,
    pub(super) side: Side,
    pub(super) grant: Grant,
}

impl<T: End> Peered<T> {
    pub(super) fn pair(ends: [T; 2]) -> [Peered<T>; 2] {
        let pair = Arc::new(Pair::new(ends));
        Side::BOTH.map(|side| Peered { pair: pair.clone(), side, grant: Grant::new(T::RIGHTS) })
    }

    /// Whether both are handles to the same end of the same pair.
    pub(super) fn is_same_end(&self, other: &Peered<T>) -> bool {
        self.side == other.side && Arc::ptr_eq(&self.pair, &other.pair)
    }

    #[inline]
    pub(super) fn lock(&self) -> Result<Locked<'_, T>, Status> {
        self.pair.lock()
    }

    /// Closes this handle, once; returns the contents of the end if it was the last handle.
    pub(super) fn close(&mut self) -> T::Remains {
        let side = self.side;
        let is_succeeded = self.grant.is_succeeded();
        if self.grant.close() {
            return T::Remains::default();
        }
        let Ok(mut locked) = self.pair.lock() else {
            // In a forked child: another thread may have been changing it, so it is not dropped.
            std::mem::forget(self.pair.clone());
            return T::Remains::default();
        };
        if is_succeeded {
            return T::Remains::default();
        }
        let half = &mut locked.sides[side.index()];
        half.observers.cancel(self.grant.id());
        half.handles -= 1;
        if half.handles > 0 {
            return T::Remains::default();
        }
        half.observers.cancel_all();
        let remains = T::close(&self.pair, &mut locked, side);
        locked.unwire(side);
        remains
    }
}

impl<T: End> Source for Peered<T> {
    #[inline]
    fn grant(&self) -> &Grant {
        &self.grant
    }

    fn grant_mut(&mut self) -> &mut Grant {
        &mut self.grant
    }

    fn object_kind(&self) -> Kind {
        T::KIND
    }

    fn koids(&self) -> (Koid, Option<Koid>) {
        let koids = self.pair.koids;
        (koids[self.side.index()], Some(koids[self.side.peer().index()]))
    }

    #[inline]
    fn current_signals(&self) -> Signals {
        self.pair.signals(self.side)
    }

    fn observers(&self, run: &mut dyn FnMut(Signals, &mut Observers)) {
        if let Ok(mut locked) = self.lock() {
            let signals = locked.signals(self.side);
            run(signals, &mut locked.sides[self.side.index()].observers);
        }
    }

    #[inline]
    fn refresh(&self, until: Signals) {
        if self.is_wired() {
            self.pair.refresh_wired(self.side, until);
        }
    }

    #[inline]
    fn expects_sleep(&self, until: Signals) -> bool {
        self.is_wired() && self.expects_sleep_wired(until)
    }

    fn settle(&self, waiter: &Arc<Waiter>, until: Signals, intake: Intake) -> Option<Signals> {
        if self.is_wired() { self.settle_wired(waiter, until, intake) } else { None }
    }

    fn observers_and_poll_target(
        &self,
        trigger: Signals,
        run: &mut dyn FnMut(Signals, &mut Observers),
    ) -> Option<PollTarget> {
        let mut locked = self.lock().ok()?;
        let signals = locked.signals(self.side);
        run(signals, &mut locked.sides[self.side.index()].observers);
        locked.poll_target(self.side, trigger)
    }

    fn poll_target(&self, trigger: Signals) -> Option<PollTarget> {
        self.lock().ok()?.poll_target(self.side, trigger)
    }

    fn attach(&self, binding: &Binding, trigger: Signals) -> Result<(), Status> {
        self.attach_wired(binding, trigger)
    }

    fn attach_fd(&self, raised: &Raised, trigger: Signals) -> Result<(), Status> {
        self.attach_fd_wired(raised, trigger)
    }

    fn change(&self, clear: Signals, set: Signals) -> Result<(), Status> {
        if !T::USER.contains(clear.union(set)) {
            return Err(Status::InvalidArgs);
        }
        // Earlier changes of a peer in another process come first.
        self.refresh(Signals::empty());
        self.lock()?.update(self.side, clear, set);
        Ok(())
    }

    fn change_peer(&self, clear: Signals, set: Signals) -> Result<(), Status> {
        if !T::USER.contains(clear.union(set)) {
            return Err(Status::InvalidArgs);
        }
        match self.lock()?.transport(self.side)? {
            Transport::Local(mut locked) => locked.update(self.side.peer(), clear, set),
            Transport::Wired(wire) => {
                let body = encode_signals(clear, set);
                wire.send(Content::Signals, &body)?;
            }
        }
        Ok(())
    }

    fn cancel_calls(&self) {
        if let Ok(mut locked) = self.lock() {
            T::cancel_calls(&mut locked, self.side);
        }
    }

    fn handle_count(&self) -> usize {
        self.lock().map_or(0, |locked| locked.sides[self.side.index()].handles as usize)
    }

    fn reissue(&self, grant: Grant) -> Result<Peered<T>, Status> {
        let mut locked = self.lock()?;
        let handles = &mut locked.sides[self.side.index()].handles;
        if *handles == 0 {
            return Err(Status::BadHandle);
        }
        *handles += 1;
        Ok(Peered { pair: self.pair.clone(), side: self.side, grant })
    }

    fn succeeded_by(&self, grant: Grant) -> Result<Peered<T>, Status> {
        drop(self.lock()?);
        Ok(Peered { pair: self.pair.clone(), side: self.side, grant })
    }
}

impl<T: End> Drop for Peered<T> {
    fn drop(&mut self) {
        T::drop_outside_lock(self.close());
    }
}

impl<T: End> fmt::Debug for Peered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("kind", &T::KIND)
            .field("koid", &self.koids().0)
            .field("signals", &self.current_signals())
            .finish_non_exhaustive()
    }
}

/// Implements `Source` for a public type around `Peered`.
macro_rules! peered {
    ($name:ident) => {
        impl crate::source::Source for $name {
            #[inline]
            fn grant(&self) -> &crate::rights::Grant {
                &self.0.grant
            }

            fn grant_mut(&mut self) -> &mut crate::rights::Grant {
                &mut self.0.grant
            }

            fn object_kind(&self) -> crate::Kind {
                self.0.object_kind()
            }

            fn koids(&self) -> (crate::Koid, Option<crate::Koid>) {
                self.0.koids()
            }

            #[inline]
            fn current_signals(&self) -> crate::Signals {
                self.0.current_signals()
            }

            fn observers(
                &self,
                run: &mut dyn FnMut(crate::Signals, &mut crate::observers::Observers),
            ) {
                self.0.observers(run);
            }

            #[inline]
            fn refresh(&self, until: crate::Signals) {
                self.0.refresh(until);
            }

            #[inline]
            fn expects_sleep(&self, until: crate::Signals) -> bool {
                self.0.expects_sleep(until)
            }

            fn settle(
                &self,
                waiter: &crate::sync::Arc<crate::sleep::Waiter>,
                until: crate::Signals,
                intake: crate::source::Intake,
            ) -> Option<crate::Signals> {
                self.0.settle(waiter, until, intake)
            }

            fn observers_and_poll_target(
                &self,
                trigger: crate::Signals,
                run: &mut dyn FnMut(crate::Signals, &mut crate::observers::Observers),
            ) -> Option<crate::sleep::PollTarget> {
                self.0.observers_and_poll_target(trigger, run)
            }

            fn poll_target(&self, trigger: crate::Signals) -> Option<crate::sleep::PollTarget> {
                self.0.poll_target(trigger)
            }

            fn attach(
                &self,
                binding: &crate::packets::Binding,
                trigger: crate::Signals,
            ) -> Result<(), crate::Status> {
                self.0.attach(binding, trigger)
            }

            fn attach_fd(
                &self,
                raised: &crate::eventfd::Raised,
                trigger: crate::Signals,
            ) -> Result<(), crate::Status> {
                self.0.attach_fd(raised, trigger)
            }

            fn change(
                &self,
                clear: crate::Signals,
                set: crate::Signals,
            ) -> Result<(), crate::Status> {
                self.0.change(clear, set)
            }

            fn change_peer(
                &self,
                clear: crate::Signals,
                set: crate::Signals,
            ) -> Result<(), crate::Status> {
                self.0.change_peer(clear, set)
            }

            fn cancel_calls(&self) {
                self.0.cancel_calls();
            }

            fn handle_count(&self) -> usize {
                self.0.handle_count()
            }

            fn reissue(&self, grant: crate::rights::Grant) -> Result<$name, crate::Status> {
                self.0.reissue(grant).map($name)
            }

            fn succeeded_by(&self, grant: crate::rights::Grant) -> Result<$name, crate::Status> {
                self.0.succeeded_by(grant).map($name)
            }
        }
    };
}
pub(super) use peered;
