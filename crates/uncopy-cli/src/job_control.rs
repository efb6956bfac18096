//! Job control of a shell (Ctrl-Z and `fg`), and signals that request the progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use uncopy::copy::{Gate, Pause};

#[cfg(unix)]
use crate::stop::{ignored_signals, mask};
#[cfg(unix)]
use signal_hook::consts::signal::{SIGCONT, SIGTSTP, SIGUSR1};

/// Signals that request the progress. Ctrl-T sends `SIGINFO`, which Linux does not have.
#[cfg(target_os = "macos")]
const STATUS: [i32; 2] = [SIGUSR1, signal_hook::consts::signal::SIGINFO];
#[cfg(all(unix, not(target_os = "macos")))]
const STATUS: [i32; 1] = [SIGUSR1];

/// Pauses copies at their next piece on `SIGTSTP`, stops the process when all are paused, and
/// resumes them after `SIGCONT`.
#[derive(Debug, Default)]
pub(crate) struct JobControl {
    pause: Pause,
    /// 1 after `SIGTSTP`, 0 after `SIGCONT`: the last one counts.
    suspend: Arc<AtomicUsize>,
    status: Arc<AtomicBool>,
    listening: AtomicBool,
    /// Set while a thread stops the process: only one does.
    stopping: AtomicBool,
}

/// Next action of job control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SuspendAction {
    Nothing,
    /// Pause the copies.
    Pause,
    /// All copies are paused: stop the process.
    Stop,
    Resume,
}

/// Decides the next action.
fn next_action(is_requested: bool, is_paused: bool, is_quiet: bool) -> SuspendAction {
    match (is_requested, is_paused, is_quiet) {
        (true, false, _) => SuspendAction::Pause,
        (true, true, true) => SuspendAction::Stop,
        (false, true, _) => SuspendAction::Resume,
        (true, true, false) | (false, false, _) => SuspendAction::Nothing,
    }
}

impl JobControl {
    /// Installs the handlers of signals that request the progress, which would end the process. [`JobControl::listen`]
    /// installs the others.
    pub(crate) fn new() -> JobControl {
        let control = JobControl::default();
        #[cfg(unix)]
        for signal in STATUS.into_iter().filter(|signal| ignored_signals() & mask(*signal) == 0) {
            let _ = signal_hook::flag::register(signal, Arc::clone(&control.status));
        }
        control
    }

    /// Returns the gate where the copies of this command wait while they are paused.
    pub(crate) fn gate(&self) -> Gate {
        self.pause.gate()
    }

    /// Installs the handlers of Ctrl-Z and `fg`, when copies can be paused. A signal that the parent ignores stays ignored;
    /// without a handler a signal has its default action.
    pub(crate) fn listen(&self) {
        if !self.listening.load(Ordering::Relaxed) && !self.listening.swap(true, Ordering::Relaxed)
        {
            self.install_handlers();
        }
    }

    fn install_handlers(&self) {
        #[cfg(unix)]
        {
            if ignored_signals() & mask(SIGTSTP) == 0 {
                for (signal, value) in [(SIGCONT, 0), (SIGTSTP, 1)] {
                    let suspend = Arc::clone(&self.suspend);
                    let _ = signal_hook::flag::register_usize(signal, suspend, value);
                }
            }
        }
    }

    /// Acts on the signals. Called between pieces by every thread that copies, and by those that
    /// wait at the gate.
    pub(crate) fn handle_signals(&self) {
        let is_requested = self.suspend.load(Ordering::Relaxed) == 1;
        let is_paused = self.pause.is_paused();
        if !is_requested && !is_paused {
            return;
        }
        match next_action(is_requested, is_paused, self.pause.is_quiet()) {
            SuspendAction::Nothing => {}
            SuspendAction::Pause => self.pause.pause(),
            SuspendAction::Stop => {
                if !self.stopping.swap(true, Ordering::SeqCst) {
                    stop_process();
                    self.suspend.store(0, Ordering::Relaxed);
                    self.pause.resume();
                    self.stopping.store(false, Ordering::SeqCst);
                }
            }
            SuspendAction::Resume => self.pause.resume(),
        }
    }

    /// Whether one of [`STATUS`] arrived since the last call.
    pub(crate) fn take_status_request(&self) -> bool {
        self.status.load(Ordering::Relaxed) && self.status.swap(false, Ordering::Relaxed)
    }

    /// Starts a clock that does not run in pauses.
    pub(crate) fn clock(&self) -> Clock {
        let paused_before = self.pause.paused_for();
        Clock { begin: Instant::now(), pause: self.pause.clone(), paused_before }
    }
}

/// Stops the process until `SIGCONT`, as Ctrl-Z does by default.
fn stop_process() {
    #[cfg(unix)]
    let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
}

/// Clock of the time at work.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    begin: Instant,
    pause: Pause,
    paused_before: Duration,
}

impl Clock {
    /// Returns the time since the start, without pauses.
    pub(crate) fn at_work(&self) -> Duration {
        let paused = self.pause.paused_for().saturating_sub(self.paused_before);
        self.begin.elapsed().saturating_sub(paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_stops_when_all_copies_are_paused_and_resumes_once() {
        // Suspend requested, paused, quiet.
        for (found, expected) in [
            ((false, false, false), SuspendAction::Nothing),
            ((true, false, false), SuspendAction::Pause),
            ((true, false, true), SuspendAction::Pause),
            ((true, true, false), SuspendAction::Nothing),
            ((true, true, true), SuspendAction::Stop),
            // SIGCONT came before all copies were paused.
            ((false, true, false), SuspendAction::Resume),
            ((false, true, true), SuspendAction::Resume),
        ] {
            assert_eq!(next_action(found.0, found.1, found.2), expected, "{found:?}");
        }
    }

    #[test]
    fn a_request_that_is_taken_back_leaves_no_pause() {
        let control = JobControl::default();
        control.handle_signals();
        assert!(!control.pause.is_paused());
        control.suspend.store(1, Ordering::Relaxed);
        control.handle_signals();
        assert!(control.pause.is_paused());
        control.suspend.store(0, Ordering::Relaxed);
        control.handle_signals();
        assert!(!control.pause.is_paused());
    }

    #[test]
    fn the_clock_stands_still_in_pauses() {
        let control = JobControl::default();
        let pause = |clock: &Clock| {
            control.pause.pause();
            let (before, since) = (clock.at_work(), Instant::now());
            std::thread::sleep(Duration::from_millis(20));
            let (after, paused) = (clock.at_work(), since.elapsed());
            control.pause.resume();
            assert!(after < before + paused, "{before:?} {after:?}");
            paused
        };
        let begin = Instant::now();
        let first = control.clock();
        let paused = pause(&first);
        // A later clock does not include that pause.
        let second = control.clock();
        assert!(second.at_work() <= begin.elapsed() - paused);
        let paused = paused + pause(&second);
        assert!(first.at_work() <= begin.elapsed() - paused);
    }
}
