//! Pauses copies between pieces and resumes them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::control::Control;

/// Interval at which a halted copy asks whether it is to stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Pauses and resumes copies: any number of them, single files and jobs, from any thread.
///
/// A copy whose [context](super::CopyContext::gate) has a [`Gate`] of it finishes the current piece
/// and waits; so does every worker of a job. While it waits its observer is asked
/// every 50 ms, and may stop it as at any other time. A single `fsync` or `FICLONE` is a piece. The
/// time between [`Pause::pause`] and [`Pause::resume`] is no part of the durations in receipts and
/// summaries, and a [`Throttle`](super::Throttle) does not make up for it.
///
/// A clone is another handle of the same pause. Dropping the last handle resumes the copies,
/// because nothing else could.
///
/// ```
/// use std::time::Duration;
/// use uncopy::copy::{CopyContext, CopyOptions, Pause, copy_file_in};
/// # let directory = std::env::temp_dir().join(format!("uncopy-pause-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # let (source, destination) = (directory.join("source"), directory.join("copy"));
/// # std::fs::write(&source, [1; 5000])?;
/// let pause = Pause::new();
/// let gate = pause.gate();
/// let (options, context) = (CopyOptions::new(), CopyContext::new().gate(&gate));
/// pause.pause();
/// let copied = std::thread::scope(|scope| {
///     let copy = scope.spawn(|| {
///         copy_file_in(&source, &destination, &options, &context, &mut ())
///     });
///     while pause.copies() == 0 || !pause.is_quiet() {
///         std::thread::sleep(Duration::from_millis(1));
///     }
///     // Whatever it was doing, it moves nothing now.
///     assert!(!destination.exists());
///     pause.resume();
///     copy.join().unwrap()
/// });
/// assert_eq!(copied?.receipt().map(|receipt| receipt.bytes), Some(5000));
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Pause {
    handle: Arc<Handle>,
}

/// The caller's side; dropping the last one opens the gate permanently.
#[derive(Debug, Default)]
struct Handle(Arc<GateState>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// The copies' side of a [`Pause`]: copies wait here while it lasts. A clone is the same gate.
///
/// Two gates are equal if one pause closes both.
#[derive(Debug, Clone)]
pub struct Gate {
    state: Arc<GateState>,
}

impl PartialEq for Gate {
    fn eq(&self, other: &Gate) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Eq for Gate {}

#[derive(Debug, Default)]
struct GateState {
    /// Copy of `times`, for threads that pass: one load, and no lock, as long as it is false.
    closed: AtomicBool,
    /// Nanoseconds of all pauses that are over.
    paused: AtomicU64,
    /// Threads that copy.
    inside: AtomicUsize,
    /// Number of those that wait, at this gate or for work.
    resting: AtomicUsize,
    times: Mutex<Times>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Times {
    closed_since: Option<Instant>,
    /// When it was last opened again.
    opened: Option<Instant>,
}

impl Pause {
    /// Makes a pause that is not active.
    #[must_use]
    pub fn new() -> Pause {
        Pause::default()
    }

    /// Returns a gate for copies to wait at; it does not keep the pause alive.
    #[must_use]
    pub fn gate(&self) -> Gate {
        Gate { state: Arc::clone(&self.handle.0) }
    }

    /// Lets copies finish their current piece and then wait. Returns at once; [`Pause::is_quiet`]
    /// says when all of them wait. Does nothing if they are paused already.
    pub fn pause(&self) {
        let state = &self.handle.0;
        state.lock().closed_since.get_or_insert_with(Instant::now);
        state.closed.store(true, Ordering::SeqCst);
    }

    /// Resumes the copies. Does nothing if they are not paused.
    pub fn resume(&self) {
        self.handle.0.open();
    }

    /// Whether it is between [`Pause::pause`] and [`Pause::resume`].
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.handle.0.is_closed()
    }

    /// Whether it is paused and every thread of every copy waits: none moves a byte or creates a
    /// name before it is resumed. Also true if there is no copy.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let state = &self.handle.0;
        // The order of the two loads matters: a thread that begins to work is no longer resting.
        let inside = state.inside.load(Ordering::SeqCst);
        state.is_closed() && state.resting.load(Ordering::SeqCst) == inside
    }

    /// Number of threads that copy or wait to: one for a file, one for each worker of a job.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.handle.0.inside.load(Ordering::SeqCst)
    }

    /// Total time that it was paused so far.
    #[must_use]
    pub fn paused_for(&self) -> Duration {
        self.handle.0.paused_for()
    }
}

impl GateState {
    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn open(&self) {
        let mut times = self.lock();
        if let Some(since) = times.closed_since.take() {
            let now = Instant::now();
            let nanoseconds = u64::try_from((now - since).as_nanos()).unwrap_or(u64::MAX);
            self.paused.fetch_add(nanoseconds, Ordering::SeqCst);
            times.opened = Some(now);
            self.closed.store(false, Ordering::SeqCst);
        }
        drop(times);
        self.wake.notify_all();
    }

    fn paused_for(&self) -> Duration {
        let over = || Duration::from_nanos(self.paused.load(Ordering::SeqCst));
        if !self.is_closed() {
            return over();
        }
        let times = self.lock();
        over() + times.closed_since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Result of passing a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// The gate was open.
    Open,
    /// The gate was closed, and opened at this time.
    Opened(Instant),
    /// The copy is to stop.
    Stopped,
}

impl Gate {
    /// Asks whether to continue, and waits while the gate is closed, asking again from time to
    /// time.
    pub(super) fn pass(&self, mut ask: impl FnMut() -> Control) -> Passed {
        if ask() == Control::Stop {
            return Passed::Stopped;
        }
        if self.state.is_closed() { self.wait(ask) } else { Passed::Open }
    }

    /// Does the same for callers that submit nothing.
    pub(super) fn control(&self, ask: impl FnMut() -> Control) -> Control {
        match self.pass(ask) {
            Passed::Stopped => Control::Stop,
            Passed::Open | Passed::Opened(_) => Control::Continue,
        }
    }

    #[cold]
    fn wait(&self, mut ask: impl FnMut() -> Control) -> Passed {
        let _resting = self.rest();
        loop {
            let times = self.state.lock();
            if times.closed_since.is_some() {
                let waited = self.state.wake.wait_timeout(times, PATIENCE);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            } else {
                return times.opened.map_or(Passed::Open, Passed::Opened);
            }
            if ask() == Control::Stop {
                return Passed::Stopped;
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.is_closed()
    }

    /// Counts this thread as copying until the returned guard is dropped.
    pub(super) fn enter(&self) -> Inside {
        self.state.inside.fetch_add(1, Ordering::SeqCst);
        Inside(Arc::clone(&self.state))
    }

    /// Counts this thread as resting until the returned guard is dropped.
    pub(super) fn rest(&self) -> Resting<'_> {
        self.state.resting.fetch_add(1, Ordering::SeqCst);
        Resting(&self.state)
    }
}

/// Guard of a thread that copies.
pub(super) struct Inside(Arc<GateState>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Guard of a thread that waits.
pub(super) struct Resting<'a>(&'a GateState);

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        self.0.resting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Measures working time, without pauses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopwatch<'a> {
    begin: Instant,
    gate: Option<&'a Gate>,
    paused_before: Duration,
}

impl<'a> Stopwatch<'a> {
    pub(super) fn start(gate: Option<&'a Gate>) -> Stopwatch<'a> {
        let paused_before = paused_for(gate);
        Stopwatch { begin: Instant::now(), gate, paused_before }
    }

    pub(super) fn elapsed(&self) -> Duration {
        let paused = paused_for(self.gate).saturating_sub(self.paused_before);
        self.begin.elapsed().saturating_sub(paused)
    }
}

fn paused_for(gate: Option<&Gate>) -> Duration {
    gate.map_or(Duration::ZERO, |gate| gate.state.paused_for())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Waits at the gate on another thread; returns when it does.
    fn waiting<'s>(
        scope: &'s thread::Scope<'s, '_>,
        pause: &Pause,
        ask: impl FnMut() -> Control + Send + 's,
    ) -> thread::ScopedJoinHandle<'s, Passed> {
        let gate = pause.gate();
        let before = pause.copies();
        let thread = scope.spawn(move || {
            let _inside = gate.enter();
            gate.pass(ask)
        });
        while pause.copies() == before || !pause.is_quiet() {
            thread::yield_now();
        }
        thread
    }

    #[test]
    fn an_open_gate_asks_once() {
        let mut asked = 0;
        let passed = Pause::new().gate().pass(|| {
            asked += 1;
            Control::Continue
        });
        assert_eq!((passed, asked), (Passed::Open, 1));
    }

    #[test]
    fn everybody_waits_and_goes_on() {
        let pause = Pause::new();
        pause.pause();
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..3).map(|_| waiting(scope, &pause, || Control::Continue)).collect();
            assert!(threads.iter().all(|thread| !thread.is_finished()));
            pause.clone().resume();
            for thread in threads {
                assert!(matches!(thread.join().unwrap(), Passed::Opened(_)));
            }
        });
        assert_eq!(pause.copies(), 0);
        assert!(!pause.is_quiet() && !pause.is_paused());
    }

    #[test]
    fn a_wish_to_stop_is_heard_at_a_closed_gate() {
        let pause = Pause::new();
        pause.pause();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let thread = waiting(scope, &pause, || match stop.load(Ordering::Relaxed) {
                true => Control::Stop,
                false => Control::Continue,
            });
            stop.store(true, Ordering::Relaxed);
            assert_eq!(thread.join().unwrap(), Passed::Stopped);
        });
        assert!(pause.is_paused() && pause.is_quiet());
    }

    #[test]
    fn the_end_of_the_last_handle_opens_the_gate() {
        let (pause, gate) = {
            let pause = Pause::new();
            (pause.clone(), pause.gate())
        };
        pause.pause();
        assert!(gate.is_closed(), "one handle is still there");
        thread::scope(|scope| {
            let thread = waiting(scope, &pause, || Control::Continue);
            drop(pause);
            assert!(matches!(thread.join().unwrap(), Passed::Opened(_)));
        });
        assert!(!gate.is_closed());
    }

    #[test]
    fn who_works_makes_it_unquiet() {
        let pause = Pause::new();
        let gate = pause.gate();
        let inside = gate.enter();
        pause.pause();
        assert!(!pause.is_quiet());
        let resting = gate.rest();
        assert!(pause.is_quiet());
        drop(resting);
        assert!(!pause.is_quiet());
        drop(inside);
        assert!(pause.is_quiet());
    }

    #[test]
    fn pauses_are_no_time_at_work() {
        let pause = Pause::new();
        let gate = pause.gate();
        let begin = Instant::now();
        let watch = Stopwatch::start(Some(&gate));
        let mut paused = Duration::ZERO;
        for _ in 0..2 {
            pause.pause();
            // A second call to pause has no effect.
            pause.pause();
            let since = Instant::now();
            thread::sleep(Duration::from_millis(5));
            paused += since.elapsed();
            // Also during the pause.
            assert!(watch.elapsed() <= begin.elapsed() - paused);
            pause.resume();
            pause.resume();
        }
        assert!(pause.paused_for() >= paused, "{:?} {paused:?}", pause.paused_for());
        let (at_work, all) = (watch.elapsed(), begin.elapsed());
        assert!(at_work + paused <= all, "{at_work:?} of {all:?}");
        assert!(Stopwatch::start(Some(&gate)).elapsed() <= begin.elapsed() - paused);
    }
}
