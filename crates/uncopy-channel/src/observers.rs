//! Observers: threads, ports and descriptors that wait for an object's signals.

use std::collections::VecDeque;

use super::eventfd::Raised;
use super::identity::Koid;
use super::packets::{Binding, PortQueue};
use super::signals::Signals;
use super::sleep::{Waiter, Wake};
use super::sync::{Arc, Weak};

/// Who is to hear of changes of one object's signals. Lives under the object's lock.
#[derive(Default)]
pub struct Observers {
    /// In the order in which they are told: the newest first (`Dispatcher::AddObserverHelper`).
    list: VecDeque<Placed>,
    added: u64,
}

/// An observer, and how many came before it.
pub(super) struct Placed {
    number: u64,
    observer: Observer,
}

/// One of them, bound to the handle it came by.
pub(super) struct Observer {
    pub(super) handle: Koid,
    pub(super) trigger: Signals,
    pub(super) kind: ObserverKind,
}

pub(super) enum ObserverKind {
    /// A thread that sleeps; `index` is the item of its `wait_many`.
    Thread { waiter: Arc<Waiter>, index: usize },
    /// A port that gets one packet.
    Port(Binding),
    /// A descriptor that polls readable while a signal of `trigger` is set.
    Descriptor(Weak<Raised>),
}

impl Observer {
    /// Tells it of a change; false when it has nothing more to wait for.
    fn hear(&self, old: Signals, new: Signals) -> bool {
        // What waits for a level has none of its triggers set, so that a rise is a match; for one
        // that waits for an edge nothing else is.
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

    /// Nobody would notice if it were told.
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
        // Before it grows, what closed ports and dropped descriptors left is cleared away.
        if self.list.len() == self.list.capacity() {
            self.list.retain(|placed| !placed.observer.is_dead());
        }
        let number = self.added;
        self.added += 1;
        self.list.push_front(Placed { number, observer });
    }

    /// Puts one that was taken off back in its place.
    pub(super) fn put_back(&mut self, placed: Placed) {
        let at = self.list.partition_point(|other| other.number > placed.number);
        self.list.insert(at, placed);
    }

    /// Looks at every one.
    pub(super) fn each(&self, look: impl FnMut(&Observer)) {
        self.list.iter().map(|placed| &placed.observer).for_each(look);
    }

    #[cold]
    pub(super) fn notify(&mut self, old: Signals, new: Signals) {
        self.list.retain(|placed| placed.observer.hear(old, new));
    }

    /// The handle `handle` is gone.
    pub(super) fn cancel(&mut self, handle: Koid) {
        self.remove(|o| o.handle == handle);
    }

    /// The object itself is gone.
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

    /// `waiter` no longer sleeps; what was listed for it.
    pub(super) fn forget(&mut self, waiter: &Arc<Waiter>) -> Option<Placed> {
        let is_it = |o: &Placed| matches!(&o.observer.kind, ObserverKind::Thread { waiter: w, .. } if Arc::ptr_eq(w, waiter));
        let at = self.list.iter().position(is_it)?;
        self.list.remove(at)
    }

    /// Removes what is bound to `port` by `handle` and `key`; says whether there was anything.
    pub(super) fn unbind(&mut self, port: &Arc<PortQueue>, handle: Koid, key: u64) -> bool {
        let before = self.list.len();
        self.list.retain(|Placed { observer, .. }| match &observer.kind {
            ObserverKind::Port(binding) => !(observer.handle == handle && binding.is(port, key)),
            _ => true,
        });
        self.list.len() != before
    }
}
