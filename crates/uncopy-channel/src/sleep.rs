//! Sleeping until somebody wakes the sleeper, a descriptor is ready, or a deadline.

#[cfg(not(shuttle))]
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::signals::Signals;
use super::status::Status;
use super::sync::{Arc, Condvar, Mutex, PoisonError, lock};
use super::transport::wire::Wire;
use uncopy_os::eventfd;
use uncopy_os::seqpacket::{self, Ready};

/// Until when to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// For ever.
    pub const INFINITE: Deadline = Deadline(None);

    /// Returns the deadline `timeout` from now; zero looks once and does not sleep.
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

/// A descriptor to poll, and for what.
pub struct PollTarget {
    pub(super) descriptor: PollDescriptor,
    pub(super) ready: Ready,
}

/// The descriptor of a [`PollTarget`].
pub(super) enum PollDescriptor {
    Wire(std::sync::Arc<Wire>),
    Epoll(std::sync::Arc<OwnedFd>),
}

impl PollTarget {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match &self.descriptor {
            PollDescriptor::Wire(wire) => wire.fd(),
            PollDescriptor::Epoll(set) => set.as_fd(),
        }
    }
}

/// Why a sleep is over.
pub(super) enum Slept {
    Woken(Wake),
    /// What there is to wait for has changed.
    Recheck,
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
    recheck: bool,
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
            self.wake_sleeper(&mut state);
        }
    }

    /// Has the sleeper find out again what to wait for.
    pub(super) fn recheck(&self) {
        let mut state = lock(&self.state);
        state.recheck = true;
        self.wake_sleeper(&mut state);
    }

    fn wake_sleeper(&self, state: &mut WaiterState) {
        match (&state.sleep, self.alarm.get()) {
            (Sleep::Condvar, _) => self.changed.notify_one(),
            // It cannot fail while the counter is far from its end, and nobody else reads it.
            (Sleep::Poll, Some(alarm)) => state.is_raised |= eventfd::raise(&**alarm).is_ok(),
            (Sleep::Awake | Sleep::Poll, _) => {}
        }
    }

    /// Sleeps until somebody here wakes it.
    pub(super) fn sleep(&self, deadline: Deadline) -> Slept {
        let mut state = lock(&self.state);
        loop {
            if let Some(wake) = state.wake {
                return Slept::Woken(wake);
            }
            if std::mem::take(&mut state.recheck) {
                return Slept::Recheck;
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
    pub(super) fn poll(&self, targets: &[PollTarget], deadline: Deadline) -> Result<Slept, Status> {
        let remaining = deadline.remaining();
        if remaining == Some(Duration::ZERO) {
            return Ok(Slept::TimedOut);
        }
        let alarm = self.alarm()?;
        let mut state = lock(&self.state);
        if let Some(wake) = state.wake {
            return Ok(Slept::Woken(wake));
        }
        if !std::mem::take(&mut state.recheck) {
            state.sleep = Sleep::Poll;
            drop(state);
            let raised = Ready { read: true, ..Ready::default() };
            let wanted = targets.iter().map(|poll_target| (poll_target.fd(), poll_target.ready));
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
        Ok(state.wake.map_or(Slept::Recheck, Slept::Woken))
    }

    /// What woke it, if anything did.
    pub(super) fn woken(&self) -> Option<Wake> {
        lock(&self.state).wake
    }
}
