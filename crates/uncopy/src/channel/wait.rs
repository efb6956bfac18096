//! Sleeping until a signal, a reply, or a deadline.

use std::time::{Duration, Instant};

use super::handle::{Object, Source};
use super::rights::Rights;
use super::signals::{Observer, ObserverKind, Signals};
use super::sync::{Arc, Condvar, Mutex, PoisonError, lock};
use super::{MAX_WAIT_ITEMS, Status};

/// Until when to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// For ever.
    pub const INFINITE: Deadline = Deadline(None);

    /// For `timeout` from now; zero looks once and does not sleep.
    #[must_use]
    pub fn after(timeout: Duration) -> Deadline {
        Deadline(Instant::now().checked_add(timeout))
    }

    /// What is left: `None` for ever, zero when it has passed.
    pub(super) fn remaining(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

impl From<Instant> for Deadline {
    fn from(at: Instant) -> Deadline {
        Deadline(Some(at))
    }
}

/// What ended a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// A signal of item `index`.
    Signaled { index: usize, observed: Signals },
    /// The handle of item `index` was closed or moved.
    Canceled { index: usize },
    /// A call has its answer.
    Answered,
}

/// A place to sleep at. The first who wakes it is heard.
#[derive(Default)]
pub(super) struct Waiter {
    wake: Mutex<Option<Wake>>,
    changed: Condvar,
}

impl Waiter {
    pub(super) fn wake(&self, wake: Wake) {
        let mut slot = lock(&self.wake);
        if slot.is_none() {
            *slot = Some(wake);
            self.changed.notify_one();
        }
    }

    /// Sleeps; `None` when the deadline passed.
    pub(super) fn sleep(&self, deadline: Deadline) -> Option<Wake> {
        let mut slot = lock(&self.wake);
        loop {
            if slot.is_some() {
                return *slot;
            }
            slot = match deadline.remaining() {
                None => self.changed.wait(slot).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return None,
                Some(left) => {
                    self.changed.wait_timeout(slot, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// What woke it, if anything did.
    fn woken(&self) -> Option<Wake> {
        *lock(&self.wake)
    }
}

/// Waits for any of `trigger` on one object; says what is set.
#[cold]
pub(super) fn wait_one(
    source: &dyn Source,
    trigger: Signals,
    deadline: Deadline,
) -> Result<Signals, Status> {
    let waiter = Arc::new(Waiter::default());
    if let Some(observed) = watch(source, &waiter, 0, trigger)? {
        return Ok(observed);
    }
    let woken = waiter.sleep(deadline);
    source.observers(&mut |_, observers| observers.forget(&waiter));
    // A wake-up between the deadline and `forget` counts.
    match woken.or_else(|| waiter.woken()) {
        Some(Wake::Signaled { observed, .. }) => Ok(observed),
        Some(Wake::Canceled { .. } | Wake::Answered) => Err(Status::Canceled),
        None => Err(Status::TimedOut),
    }
}

/// Puts `waiter` on the object's list unless a signal of `trigger` is set already.
fn watch(
    source: &dyn Source,
    waiter: &Arc<Waiter>,
    index: usize,
    trigger: Signals,
) -> Result<Option<Signals>, Status> {
    // Unless the closure runs: the object belongs to the process that forked this one.
    let mut result = Err(Status::BadState);
    source.observers(&mut |signals, observers| {
        // Under the object's lock: whoever revokes the handle either sees this observer or has
        // already taken the right.
        if let Err(status) = source.grant().check(Rights::WAIT) {
            result = Err(status);
        } else if signals.intersects(trigger) {
            result = Ok(Some(signals));
        } else {
            let kind = ObserverKind::Thread { waiter: waiter.clone(), index };
            observers.add(Observer { handle: source.grant().id(), trigger, kind });
            result = Ok(None);
        }
    });
    result
}

/// One item of [`wait_many`].
pub struct WaitItem<'a> {
    /// The object.
    pub object: &'a dyn Object,
    /// Signals that end the wait.
    pub wait_for: Signals,
    /// Signals found set when the wait ended.
    pub pending: Signals,
}

impl<'a> WaitItem<'a> {
    /// Waits for any of `wait_for` on `object`.
    #[must_use]
    pub fn new(object: &'a dyn Object, wait_for: Signals) -> WaitItem<'a> {
        WaitItem { object, wait_for, pending: Signals::empty() }
    }
}

/// Waits until one of at most 64 objects has a signal it waits for. `pending` of every item is
/// then what is set on it, also after a deadline.
///
/// # Errors
/// [`Status::OutOfRange`] for more than 64 items; [`Status::AccessDenied`] without
/// [`Rights::WAIT`]; [`Status::TimedOut`]; [`Status::Canceled`] if a handle was revoked meanwhile
/// (that item's `pending` then holds [`Signals::HANDLE_CLOSED`]). No items: sleeps, then
/// `TimedOut`.
pub fn wait_many(items: &mut [WaitItem<'_>], deadline: Deadline) -> Result<(), Status> {
    if items.len() > MAX_WAIT_ITEMS {
        return Err(Status::OutOfRange);
    }
    for item in &*items {
        item.object.grant().check(Rights::WAIT)?;
    }
    let waiter = Arc::new(Waiter::default());
    let mut watched = 0;
    let mut found = Ok(None);
    for (index, item) in items.iter().enumerate() {
        found = watch(item.object, &waiter, index, item.wait_for);
        watched = index + 1;
        if !matches!(found, Ok(None)) {
            break;
        }
    }
    if let Ok(None) = found {
        waiter.sleep(deadline);
    }
    for item in &items[..watched] {
        item.object.observers(&mut |_, observers| observers.forget(&waiter));
    }
    for item in &mut *items {
        item.pending = item.object.signals();
    }
    if found?.is_some() {
        return Ok(());
    }
    match waiter.woken() {
        Some(Wake::Signaled { index, observed }) => {
            items[index].pending |= observed;
            Ok(())
        }
        Some(Wake::Canceled { index }) => {
            items[index].pending |= Signals::HANDLE_CLOSED;
            Err(Status::Canceled)
        }
        Some(Wake::Answered) => Err(Status::Canceled),
        None => Err(Status::TimedOut),
    }
}
