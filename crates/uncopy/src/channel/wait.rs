//! Sleeping until a signal, a reply, or a deadline.

#[cfg(not(shuttle))]
use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
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

impl Wake {
    /// The same after a look at the object, which may be the first at its socket.
    fn up_to_date<'a>(self, mut items: impl Iterator<Item = (&'a dyn Source, Signals)>) -> Wake {
        match self {
            Wake::Signaled { index, observed } => {
                let looked =
                    items.nth(index).map(|(source, trigger)| look(source, trigger, observed));
                Wake::Signaled { index, observed: looked.unwrap_or(observed) }
            }
            Wake::Canceled { .. } | Wake::Answered => self,
        }
    }
}

/// All that is set on an object of which a signal of `trigger` was found set: `observed`, if none is
/// any more.
fn look(source: &dyn Source, trigger: Signals, observed: Signals) -> Signals {
    source.refresh(trigger);
    let now = source.current_signals();
    if now.intersects(trigger) { now } else { observed }
}

/// Why a sleep is over.
pub(super) enum Slept {
    Woken(Wake),
    /// What there is to wait for has changed.
    Look,
    TimedOut,
}

/// A place to sleep at. The first who wakes it is heard.
#[derive(Default)]
pub struct Waiter {
    state: Mutex<WaiterState>,
    changed: Condvar,
    /// Raised by whoever wakes a thread that sleeps in `poll(2)`.
    alarm: OnceLock<Arc<OwnedFd>>,
}

#[derive(Default)]
struct WaiterState {
    wake: Option<Wake>,
    look: bool,
    sleep: Sleep,
    is_raised: bool,
}

/// How somebody sleeps: to notify nobody would be a system call all the same.
#[derive(Default)]
enum Sleep {
    #[default]
    Awake,
    /// On `changed`.
    Condvar,
    /// In `poll(2)`, or in another thread's event loop.
    Poll,
}

#[cfg(not(shuttle))]
thread_local! {
    /// This thread's, while it does not sleep.
    static OWN: Cell<Option<Arc<Waiter>>> = const { Cell::new(None) };
}

/// Runs `run` with this thread's place to sleep at.
#[cfg(not(shuttle))]
pub(super) fn with_waiter<T>(run: impl FnOnce(&Arc<Waiter>) -> T) -> T {
    let mut waiter = OWN.try_with(Cell::take).ok().flatten().unwrap_or_default();
    let result = run(&waiter);
    // Nobody knows of it any more, as a rule.
    if let Some(own) = Arc::get_mut(&mut waiter) {
        *own.state.get_mut().unwrap_or_else(PoisonError::into_inner) = WaiterState::default();
        // It is dropped while the thread ends.
        let _ = OWN.try_with(|kept| kept.set(Some(waiter)));
    }
    result
}

/// The same; no run of the scheduler may see the locks of another.
#[cfg(shuttle)]
pub(super) fn with_waiter<T>(run: impl FnOnce(&Arc<Waiter>) -> T) -> T {
    run(&Arc::default())
}

impl Waiter {
    /// One that raises `alarm` for whatever happens; nobody sleeps at it otherwise.
    #[cfg(feature = "tokio")]
    pub(super) fn ringing(alarm: Arc<OwnedFd>) -> Waiter {
        let state = WaiterState { sleep: Sleep::Poll, ..WaiterState::default() };
        Waiter { state: Mutex::new(state), alarm: alarm.into(), ..Waiter::default() }
    }

    fn alarm(&self) -> Result<&Arc<OwnedFd>, Status> {
        if let Some(alarm) = self.alarm.get() {
            return Ok(alarm);
        }
        let new = Arc::new(eventfd::create()?);
        Ok(self.alarm.get_or_init(|| new))
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
        match (&state.sleep, self.alarm.get()) {
            (Sleep::Condvar, _) => self.changed.notify_one(),
            // It cannot fail while the counter is far from its end, and nobody else reads it.
            (Sleep::Poll, Some(alarm)) => state.is_raised |= eventfd::raise(&**alarm).is_ok(),
            (Sleep::Awake | Sleep::Poll, _) => {}
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
                return Slept::Look;
            }
            state.sleep = Sleep::Condvar;
            state = match deadline.remaining() {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Slept::TimedOut,
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleep = Sleep::Awake;
        }
    }

    /// The same, or until one of the sockets is ready.
    pub(super) fn poll(&self, bells: &[Bell], deadline: Deadline) -> Result<Slept, Status> {
        let remaining = deadline.remaining();
        if remaining == Some(Duration::ZERO) {
            return Ok(Slept::TimedOut);
        }
        let alarm = self.alarm()?;
        let mut state = lock(&self.state);
        if let Some(wake) = state.wake {
            return Ok(Slept::Woken(wake));
        }
        if !std::mem::take(&mut state.look) {
            state.sleep = Sleep::Poll;
            drop(state);
            let raised = Ready { read: true, ..Ready::default() };
            let wanted = bells.iter().map(|bell| (bell.fd(), bell.ready));
            let wanted = std::iter::once((alarm.as_fd(), raised)).chain(wanted);
            let slept = seqpacket::sleep(wanted, remaining);
            state = lock(&self.state);
            state.sleep = Sleep::Awake;
            if std::mem::take(&mut state.is_raised) {
                // It was, and nobody else lowers it.
                let _ = eventfd::lower(&**alarm);
            }
            slept?;
        }
        Ok(state.wake.map_or(Slept::Look, Slept::Woken))
    }

    /// Sleeps until a wake-up or the deadline (`None`), looking after the sockets of `items`
    /// meanwhile: each with the signals it is waited for, none for everything that comes. `bells`
    /// are those to begin with.
    pub(super) fn rest<'a>(
        self: &Arc<Waiter>,
        items: &(impl Iterator<Item = (&'a dyn Source, Signals)> + Clone),
        bells: &mut Bells,
        deadline: Deadline,
    ) -> Result<Option<Wake>, Status> {
        loop {
            let slept =
                if bells.is_empty() { self.sleep(deadline) } else { self.poll(bells, deadline)? };
            let is_over = match slept {
                Slept::Woken(wake) if bells.is_empty() => return Ok(Some(wake)),
                Slept::Woken(wake) => return Ok(Some(wake.up_to_date(items.clone()))),
                Slept::TimedOut if bells.is_empty() => return Ok(self.woken()),
                Slept::TimedOut => true,
                Slept::Look => false,
            };
            for (index, (source, trigger)) in items.clone().enumerate() {
                if let Some(observed) = source.settle(self, trigger) {
                    return Ok(Some(Wake::Signaled { index, observed }));
                }
            }
            let wake = self.woken();
            if is_over || wake.is_some() {
                return Ok(wake.map(|wake| wake.up_to_date(items.clone())));
            }
            bells.clear();
            bells.extend(items.clone().filter_map(|(source, trigger)| source.bell(trigger)));
        }
    }

    /// What woke it, if anything did.
    pub(super) fn woken(&self) -> Option<Wake> {
        lock(&self.state).wake
    }
}

/// What a wait polls.
pub(super) type Bells = ArrayVec<Bell, MAX_WAIT_ITEMS>;

/// Waits for any of `trigger` on one object; says what is set.
#[cold]
pub(super) fn wait_one(
    source: &dyn Source,
    trigger: Signals,
    deadline: Deadline,
) -> Result<Signals, Status> {
    let wake = with_waiter(|waiter| {
        let mut bells = Bells::new();
        if let Some(observed) = watch(source, waiter, 0, trigger, &mut bells)? {
            let observed = look(source, trigger, observed);
            return Ok(Some(Wake::Signaled { index: 0, observed }));
        }
        let rested = waiter.rest(&std::iter::once((source, trigger)), &mut bells, deadline);
        if let Ok(Some(wake)) = rested {
            // Whoever wakes takes off the list.
            return Ok(Some(wake));
        }
        source.observers(&mut |_, observers| drop(observers.forget(waiter)));
        // A wake-up between the deadline and `forget` counts.
        rested.map(|_| waiter.woken())
    });
    match wake? {
        Some(Wake::Signaled { observed, .. }) => Ok(observed),
        Some(Wake::Canceled { .. } | Wake::Answered) => Err(Status::Canceled),
        None => Err(Status::TimedOut),
    }
}

/// Puts `waiter` on the object's list, and what to poll into `bells`, unless a signal of `trigger`
/// is set already, as far as this process knows.
fn watch(
    source: &dyn Source,
    waiter: &Arc<Waiter>,
    index: usize,
    trigger: Signals,
    bells: &mut Bells,
) -> Result<Option<Signals>, Status> {
    // Unless the closure runs: the object belongs to the process that forked this one.
    let mut result = Err(Status::BadState);
    let bell = source.observers_and_bell(trigger, &mut |signals, observers| {
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
    bells.extend(bell);
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
    with_waiter(|waiter| wait_many_at(waiter, items, deadline))
}

fn wait_many_at(
    waiter: &Arc<Waiter>,
    items: &mut [WaitItem<'_>],
    deadline: Deadline,
) -> Result<(), Status> {
    let mut bells = Bells::new();
    let mut watched = 0;
    let mut found = Ok(None);
    for (index, item) in items.iter().enumerate() {
        item.object.refresh(item.wait_for);
        found = watch(item.object, waiter, index, item.wait_for, &mut bells);
        watched = index + 1;
        if !matches!(found, Ok(None)) {
            break;
        }
    }
    let mut rested = Ok(None);
    if let Ok(None) = found {
        let sources = items.iter().map(|item| (item.object as &dyn Source, item.wait_for));
        rested = waiter.rest(&sources, &mut bells, deadline);
    }
    for item in &items[..watched] {
        item.object.observers(&mut |_, observers| drop(observers.forget(waiter)));
    }
    let found = found?;
    for (index, item) in items.iter_mut().enumerate() {
        // Those before what was found have just been looked at.
        let is_fresh = found.is_some() && index < watched;
        let object = item.object;
        item.pending = if is_fresh { object.current_signals() } else { object.signals() };
    }
    let wake = match found {
        Some(observed) => Some(Wake::Signaled { index: watched - 1, observed }),
        None => rested?.or_else(|| waiter.woken()),
    };
    match wake {
        Some(Wake::Signaled { index, observed }) => {
            let item = &mut items[index];
            if !item.pending.intersects(item.wait_for) {
                item.pending = observed;
            }
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
