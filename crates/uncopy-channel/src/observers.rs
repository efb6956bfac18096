//! Observers: threads, ports and descriptors that wait for an object's signals.

use std::collections::VecDeque;

use super::eventfd::Raised;
use super::identity::Koid;
use super::packets::{Binding, PortQueue};
use super::signals::Signals;
use super::sleep::{Waiter, Wake};
use super::sync::{Arc, Weak};

/// Observers of one object's signals. Protected by the object's lock.
#[derive(Default)]
pub struct Observers {
    /// In the order in which they are notified: the newest first (`Dispatcher::AddObserverHelper`).
    list: VecDeque<Placed>,
    added: u64,
}

/// An observer, and the number of observers added before it.
pub(super) struct Placed {
    number: u64,
    observer: Observer,
}

/// One observer, bound to the handle that it was added by.
pub(super) struct Observer {
    pub(super) handle: Koid,
    pub(super) trigger: Signals,
    pub(super) kind: ObserverKind,
}

pub(super) enum ObserverKind {
    /// A sleeping thread; `index` is the item of its `wait_many`.
    Thread { waiter: Arc<Waiter>, index: usize },
    /// A port that receives one packet.
    Port(Binding),
    /// A descriptor that polls readable while a signal of `trigger` is set.
    Descriptor(Weak<Raised>),
}

impl Observer {
    /// Notifies it of a change; returns whether it stays on the list.
    fn notify(&self, old: Signals, new: Signals) -> bool {
        // An observer is added for a level only while none of its triggers is set, so that a rising
        // signal is a match; for one that waits for an edge only a rising signal is.
        let risen = new.difference(old).intersects(self.trigger);
        match &self.kind {
            ObserverKind::Thread { waiter, index } if risen => {
                waiter.wake(Wake::Signaled { index: *index, observed: new });
                false
            }
            ObserverKind::Port(binding) if risen => {
                binding.fire(self.handle, self.trigger, new);
                false
            }
            ObserverKind::Descriptor(raised) => {
                let raised = raised.upgrade();
                raised.inspect(|raised| raised.follow(new.intersects(self.trigger))).is_some()
            }
            ObserverKind::Thread { .. } | ObserverKind::Port(_) => true,
        }
    }

    fn cancel(&self) {
        match &self.kind {
            ObserverKind::Thread { waiter, index } => {
                waiter.wake(Wake::Canceled { index: *index });
            }
            ObserverKind::Descriptor(raised) => {
                if let Some(raised) = raised.upgrade() {
                    raised.end();
                }
            }
            ObserverKind::Port(_) => {}
        }
    }

    /// Whether its port or descriptor is gone, so that notifying it has no effect.
    fn is_dead(&self) -> bool {
        match &self.kind {
            ObserverKind::Thread { .. } => false,
            ObserverKind::Port(binding) => binding.is_dead(),
            ObserverKind::Descriptor(raised) => raised.strong_count() == 0,
        }
    }
}

impl Observers {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn add(&mut self, observer: Observer) {
        // Before the list grows, observers of closed ports and dropped descriptors are removed.
        if self.list.len() == self.list.capacity() {
            self.list.retain(|placed| !placed.observer.is_dead());
        }
        let number = self.added;
        self.added += 1;
        self.list.push_front(Placed { number, observer });
    }

    /// Inserts an observer that was taken off the list at its former place.
    pub(super) fn put_back(&mut self, placed: Placed) {
        let at = self.list.partition_point(|other| other.number > placed.number);
        self.list.insert(at, placed);
    }

    /// Runs `look` for every observer.
    pub(super) fn each(&self, look: impl FnMut(&Observer)) {
        self.list.iter().map(|placed| &placed.observer).for_each(look);
    }

    /// Has the threads that wait find out again what to wait for.
    pub(super) fn recheck_waiters(&self) {
        self.each(|observer| {
            if let ObserverKind::Thread { waiter, .. } = &observer.kind {
                waiter.recheck();
            }
        });
    }

    #[cold]
    pub(super) fn notify(&mut self, old: Signals, new: Signals) {
        self.list.retain(|placed| placed.observer.notify(old, new));
    }

    /// Cancels and removes the observers of a handle that is gone.
    pub(super) fn cancel(&mut self, handle: Koid) {
        self.remove(|o| o.handle == handle);
    }

    /// Cancels and removes all observers, because the object is gone.
    pub(super) fn cancel_all(&mut self) {
        self.remove(|_| true);
    }

    fn remove(&mut self, which: impl Fn(&Observer) -> bool) {
        self.list.retain(|placed| {
            let gone = which(&placed.observer);
            if gone {
                placed.observer.cancel();
            }
            !gone
        });
    }

    /// Removes the observer of `waiter`, which no longer sleeps, and returns it.
    pub(super) fn forget(&mut self, waiter: &Arc<Waiter>) -> Option<Placed> {
        let is_it = |o: &Placed| matches!(&o.observer.kind, ObserverKind::Thread { waiter: w, .. } if Arc::ptr_eq(w, waiter));
        let at = self.list.iter().position(is_it)?;
        self.list.remove(at)
    }

    /// Removes the observers bound to `port` by `handle` and `key`; returns whether there were any.
    pub(super) fn unbind(&mut self, port: &Arc<PortQueue>, handle: Koid, key: u64) -> bool {
        let before = self.list.len();
        self.list.retain(|Placed { observer, .. }| match &observer.kind {
            ObserverKind::Port(binding) => !(observer.handle == handle && binding.is(port, key)),
            _ => true,
        });
        self.list.len() != before
    }
}
