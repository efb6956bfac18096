//! Sleeping until a wake-up, a ready descriptor, or a deadline.

#[cfg(not(shuttle))]
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::signals::Signals;
use super::status::Status;
use super::sync::{Arc, Condvar, Mutex, PoisonError, lock};
use super::transport::wire::Wire;
#[cfg(not(shuttle))]
use uncopy_os::fork::Generation;
use uncopy_os::seqpacket::{self, Ready};
use uncopy_os::{eventfd, thread};

/// Time until which to wait, and how much of it to spend looking instead of sleeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    at: Option<Instant>,
    spin: Duration,
}

impl Deadline {
    /// Waits without a limit.
    pub const INFINITE: Deadline = Deadline { at: None, spin: Duration::ZERO };

    /// Returns the deadline `timeout` from now; with zero, waits check once and do not sleep.
    #[must_use]
    pub fn after(timeout: Duration) -> Deadline {
        Deadline { at: Instant::now().checked_add(timeout), spin: Duration::ZERO }
    }

    /// Returns the same deadline; a wait looks again and again for `spin` before it sleeps.
    ///
    /// A thread that sleeps is woken by the kernel, which takes microseconds. One that spins sees a
    /// message at once, and keeps a processor busy for as long as nothing comes: at most `spin` in
    /// each wait. Looking at the socket of another process is a system call each time. This pays
    /// where the peer answers within some microseconds on another processor; on one processor it
    /// keeps the peer from running. Asynchronous waits do not spin.
    ///
    /// ```
    /// use std::time::Duration;
    /// use uncopy_channel::Deadline;
    ///
    /// let soon = Deadline::after(Duration::from_secs(5)).spinning(Duration::from_micros(50));
    /// assert_ne!(soon, Deadline::INFINITE);
    /// ```
    #[must_use]
    pub const fn spinning(self, spin: Duration) -> Deadline {
        Deadline { spin, ..self }
    }

    /// Returns the time left: `None` without a limit, zero if it has passed.
    #[must_use]
    pub fn remaining(self) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Returns the same deadline for a wait that sleeps at once.
    pub(super) const fn without_spin(self) -> Deadline {
        self.spinning(Duration::ZERO)
    }

    /// End of the time to spin in a wait that begins now; `None`: sleep at once.
    pub(super) fn spin_end(self) -> Option<Instant> {
        if self.spin.is_zero() {
            return None;
        }
        let end = Instant::now().checked_add(self.spin);
        match (end, self.at) {
            (Some(end), Some(at)) => Some(end.min(at)),
            (end, at) => end.or(at),
        }
    }
}

impl From<Instant> for Deadline {
    fn from(at: Instant) -> Deadline {
        Deadline { at: Some(at), spin: Duration::ZERO }
    }
}

/// Cause of the end of a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// A signal of item `index` was set.
    Signaled { index: usize, observed: Signals },
    /// The handle of item `index` was closed or moved.
    Canceled { index: usize },
    /// A call was answered.
    Answered,
}

/// A descriptor to poll, and the events to wait for.
pub struct PollTarget {
    pub(super) descriptor: PollDescriptor,
    pub(super) ready: Ready,
}

/// Descriptor of a [`PollTarget`].
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

    /// Sleeps until it is ready; only for a thread that no other one wakes.
    pub(super) fn sleep(&self, deadline: Deadline) -> Result<(), Status> {
        let remaining = deadline.remaining();
        if remaining == Some(Duration::ZERO) {
            return Err(Status::TimedOut);
        }
        Ok(seqpacket::sleep(std::iter::once((self.fd(), self.ready)), remaining)?)
    }
}

/// Result of a sleep.
pub(super) enum Slept {
    Woken(Wake),
    /// The set of descriptors to wait for may have changed.
    Recheck,
    TimedOut,
}

/// A place where one thread sleeps. The first wake-up counts.
#[derive(Default)]
pub struct Waiter {
    state: Mutex<WaiterState>,
    changed: Condvar,
    /// Eventfd that wakes a thread that sleeps in `poll(2)`.
    alarm: OnceLock<Arc<OwnedFd>>,
}

#[derive(Default)]
struct WaiterState {
    wake: Option<Wake>,
    recheck: bool,
    sleep: Sleep,
    is_raised: bool,
}

/// How the thread sleeps. Notifying a condition variable costs a system call even without a
/// sleeper.
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
    /// This thread's waiter, while it does not sleep, and the process that made it.
    static OWN: Cell<Option<(Generation, Arc<Waiter>)>> = const { Cell::new(None) };
}

/// Runs `run` with this thread's waiter.
#[cfg(not(shuttle))]
pub(super) fn with_waiter<T>(run: impl FnOnce(&Arc<Waiter>) -> T) -> T {
    let generation = Generation::current();
    // After a fork, parent and child would take each other's wake-ups from one eventfd.
    let own = OWN.try_with(Cell::take).ok().flatten().filter(|(maker, _)| *maker == generation);
    let mut waiter = own.map(|(_, waiter)| waiter).unwrap_or_default();
    let result = run(&waiter);
    // Usually no observer refers to it any more.
    if let Some(own) = Arc::get_mut(&mut waiter) {
        *own.state.get_mut().unwrap_or_else(PoisonError::into_inner) = WaiterState::default();
        // Fails while the thread ends; the waiter is dropped then.
        let _ = OWN.try_with(|kept| kept.set(Some((generation, waiter))));
    }
    result
}

/// Runs `run` with a new waiter: no run of the scheduler may see the locks of another run.
#[cfg(shuttle)]
pub(super) fn with_waiter<T>(run: impl FnOnce(&Arc<Waiter>) -> T) -> T {
    run(&Arc::default())
}

impl Waiter {
    /// Returns a waiter that raises `alarm` at every wake-up; no thread sleeps at it.
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

    /// Returns the eventfd by which other threads wake it out of `poll(2)`; `None` if there are none, because none
    /// begins while it sleeps.
    fn alarm_for_others(&self) -> Result<Option<&Arc<OwnedFd>>, Status> {
        if thread::is_only_one() { Ok(None) } else { self.alarm().map(Some) }
    }

    /// Makes the descriptor that [`poll`](Self::poll) needs, so that it does not fail for want of one.
    ///
    /// # Errors
    /// [`Status::NoResources`] if descriptors run out.
    pub(super) fn prepare_to_poll(&self) -> Result<(), Status> {
        self.alarm_for_others().map(drop)
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
            // Cannot fail while the counter is far from its limit, and only the sleeper reads it.
            (Sleep::Poll, Some(alarm)) => state.is_raised |= eventfd::raise(&**alarm).is_ok(),
            (Sleep::Awake | Sleep::Poll, _) => {}
        }
    }

    /// Sleeps until a thread of this process wakes it.
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

    /// Sleeps until a thread of this process wakes it, or one of the targets is ready.
    pub(super) fn poll(&self, targets: &[PollTarget], deadline: Deadline) -> Result<Slept, Status> {
        let remaining = deadline.remaining();
        if remaining == Some(Duration::ZERO) {
            return Ok(Slept::TimedOut);
        }
        let alarm = self.alarm_for_others()?;
        let mut state = lock(&self.state);
        if let Some(wake) = state.wake {
            return Ok(Slept::Woken(wake));
        }
        if !std::mem::take(&mut state.recheck) {
            state.sleep = Sleep::Poll;
            drop(state);
            let raised = Ready { read: true, ..Ready::default() };
            let wanted = targets.iter().map(|poll_target| (poll_target.fd(), poll_target.ready));
            let wanted = alarm.map(|alarm| (alarm.as_fd(), raised)).into_iter().chain(wanted);
            let slept = seqpacket::sleep(wanted, remaining);
            state = lock(&self.state);
            state.sleep = Sleep::Awake;
            if std::mem::take(&mut state.is_raised)
                && let Some(alarm) = alarm
            {
                // It was raised, and only this thread lowers it.
                let _ = eventfd::lower(&**alarm);
            }
            slept?;
        }
        Ok(state.wake.map_or(Slept::Recheck, Slept::Woken))
    }

    /// Returns what woke it, if anything did.
    pub(super) fn woken(&self) -> Option<Wake> {
        lock(&self.state).wake
    }
}
