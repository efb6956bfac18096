//! Sleeping until a signal, a reply, or a deadline.

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;

use super::handle::{Bell, Object, Source};
use super::rights::Rights;
use super::signals::{Observer, ObserverKind, Signals};
use super::sync::{Arc, Condvar, Mutex, PoisonError, lock};
use super::{MAX_WAIT_ITEMS, Status};
use crate::sys::eventfd;
use crate::sys::seqpacket::{self, Ready};

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

/// Why a sleep is over.
pub(super) enum Slept {
    Woken(Wake),
    /// What there is to wait for has changed, and perhaps a peer is closed.
    Look {
        hung_up: bool,
    },
    TimedOut,
}

/// A place to sleep at. The first who wakes it is heard.
#[derive(Default)]
pub(super) struct Waiter {
    state: Mutex<WaiterState>,
    changed: Condvar,
}

#[derive(Default)]
struct WaiterState {
    wake: Option<Wake>,
    look: bool,
    /// It sleeps on `changed`. To notify nobody would be a system call all the same.
    is_asleep: bool,
    /// Raised by whoever wakes this, while it sleeps in `poll(2)`.
    alarm: Option<Arc<OwnedFd>>,
    is_raised: bool,
}

/// An eventfd of this thread's, for all its sleeps.
struct Alarm {
    fd: Arc<OwnedFd>,
    is_raised: bool,
}

thread_local! {
    static ALARM: Cell<Option<Arc<OwnedFd>>> = const { Cell::new(None) };
}

impl Alarm {
    fn take() -> Result<Alarm, Status> {
        match ALARM.take() {
            Some(fd) => Ok(Alarm { fd, is_raised: false }),
            None => Ok(Alarm { fd: Arc::new(eventfd::create()?), is_raised: false }),
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if self.is_raised {
            // It was, and nobody else lowers it.
            let _ = eventfd::lower(&*self.fd);
        }
        ALARM.set(Some(self.fd.clone()));
    }
}

impl Waiter {
    /// One that raises `alarm` for whatever happens; nobody sleeps at it otherwise.
    #[cfg(feature = "tokio")]
    pub(super) fn ringing(alarm: Arc<OwnedFd>) -> Waiter {
        let state = WaiterState { alarm: Some(alarm), ..WaiterState::default() };
        Waiter { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn wake(&self, wake: Wake) {
        let mut state = lock(&self.state);
        if state.wake.is_none() {
            state.wake = Some(wake);
            self.rouse(&mut state);
        }
    }

    /// Has the sleeper look again what to wait for.
    pub(super) fn look(&self) {
        let mut state = lock(&self.state);
        state.look = true;
        self.rouse(&mut state);
    }

    fn rouse(&self, state: &mut WaiterState) {
        match &state.alarm {
            // It cannot fail while the counter is far from its end, and nobody else reads it.
            Some(alarm) => state.is_raised |= eventfd::raise(&**alarm).is_ok(),
            None if state.is_asleep => self.changed.notify_one(),
            None => {}
        }
    }

    /// Sleeps until somebody here wakes it.
    fn sleep(&self, deadline: Deadline) -> Slept {
        let mut state = lock(&self.state);
        loop {
            if let Some(wake) = state.wake {
                return Slept::Woken(wake);
            }
            if std::mem::take(&mut state.look) {
                return Slept::Look { hung_up: false };
            }
            state.is_asleep = true;
            state = match deadline.remaining() {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Slept::TimedOut,
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.is_asleep = false;
        }
    }

    /// The same, or until one of the sockets is ready.
    pub(super) fn poll(&self, bells: &[Bell], deadline: Deadline) -> Result<Slept, Status> {
        let remaining = deadline.remaining();
        if remaining == Some(Duration::ZERO) {
            return Ok(Slept::TimedOut);
        }
        let mut alarm = Alarm::take()?;
        let mut state = lock(&self.state);
        if let Some(wake) = state.wake {
            return Ok(Slept::Woken(wake));
        }
        let mut hung_up = false;
        if !std::mem::take(&mut state.look) {
            state.alarm = Some(alarm.fd.clone());
            drop(state);
            let raised = Ready { read: true, ..Ready::default() };
            let wanted = bells.iter().map(|bell| (bell.fd(), bell.ready));
            let wanted = std::iter::once((alarm.fd.as_fd(), raised)).chain(wanted);
            let slept = seqpacket::sleep(wanted, remaining);
            state = lock(&self.state);
            state.alarm = None;
            alarm.is_raised = std::mem::take(&mut state.is_raised);
            hung_up = slept?;
        }
        Ok(state.wake.map_or(Slept::Look { hung_up }, Slept::Woken))
    }

    /// Sleeps until a wake-up or the deadline (`None`), looking after the sockets of `items`
    /// meanwhile: each with the signals it is waited for, none for everything that comes.
    pub(super) fn rest<'a>(
        &self,
        items: &(impl Iterator<Item = (&'a dyn Source, Signals)> + Clone),
        deadline: Deadline,
    ) -> Result<Option<Wake>, Status> {
        loop {
            let bells: ArrayVec<Bell, MAX_WAIT_ITEMS> =
                items.clone().filter_map(|(source, trigger)| source.bell(trigger)).collect();
            let slept =
                if bells.is_empty() { self.sleep(deadline) } else { self.poll(&bells, deadline)? };
            let is_over = match slept {
                Slept::Woken(wake) => return Ok(Some(wake)),
                Slept::TimedOut if bells.is_empty() => return Ok(self.woken()),
                Slept::TimedOut => true,
                Slept::Look { .. } => false,
            };
            for (source, trigger) in items.clone() {
                match slept {
                    Slept::Look { hung_up: false } => source.take_in(trigger),
                    _ => source.refresh(trigger),
                }
            }
            let wake = self.woken();
            if is_over || wake.is_some() {
                return Ok(wake);
            }
        }
    }

    /// What woke it, if anything did.
    pub(super) fn woken(&self) -> Option<Wake> {
        lock(&self.state).wake
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
    let woken = waiter.rest(&std::iter::once((source, trigger)), deadline);
    source.observers(&mut |_, observers| observers.forget(&waiter));
    // A wake-up between the deadline and `forget` counts.
    match woken?.or_else(|| waiter.woken()) {
        Some(Wake::Signaled { observed, .. }) => Ok(observed),
        Some(Wake::Canceled { .. } | Wake::Answered) => Err(Status::Canceled),
        None => Err(Status::TimedOut),
    }
}

/// Puts `waiter` on the object's list unless a signal of `trigger` is set already, as far as this
/// process knows.
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
        if let Err(status) = source.grant().check_binding(Rights::WAIT) {
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
        item.object.refresh(item.wait_for);
        found = watch(item.object, &waiter, index, item.wait_for);
        watched = index + 1;
        if !matches!(found, Ok(None)) {
            break;
        }
    }
    let mut rested = Ok(None);
    if let Ok(None) = found {
        let sources = items.iter().map(|item| (item.object as &dyn Source, item.wait_for));
        rested = waiter.rest(&sources, deadline);
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
    match rested?.or_else(|| waiter.woken()) {
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
