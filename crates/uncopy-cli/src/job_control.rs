//! What a shell's job control and a curious user ask of a copy: to halt (Ctrl-Z) and go on, and to
//! say how far it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use uncopy::copy::{Gate, Pause};

#[cfg(unix)]
use crate::stop::{ignored_signals, mask};
#[cfg(unix)]
use signal_hook::consts::signal::{SIGCONT, SIGTSTP, SIGUSR1};

/// Those that ask how far it is. Ctrl-T sends `SIGINFO` where there is one; Linux has none.
#[cfg(target_os = "macos")]
const STATUS: [i32; 2] = [SIGUSR1, signal_hook::consts::signal::SIGINFO];
#[cfg(all(unix, not(target_os = "macos")))]
const STATUS: [i32; 1] = [SIGUSR1];

/// Halts copies at their next piece when `SIGTSTP` comes, stops the process when none moves any
/// more, and lets them go on after `SIGCONT`.
#[derive(Debug, Default)]
pub(crate) struct JobControl {
    pause: Pause,
    /// 1 after `SIGTSTP`, 0 after `SIGCONT`: what came last counts.
    suspend: Arc<AtomicUsize>,
    status: Arc<AtomicBool>,
    listening: AtomicBool,
    /// One thread stops the process, once.
    stopping: AtomicBool,
}

/// What is to be done about the wish to halt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Nothing,
    /// Let everybody come to rest.
    Pause,
    /// Everybody does: stop the process.
    Stop,
    GoOn,
}

/// What follows from the wish, and from what is the case.
fn step(is_wished: bool, is_paused: bool, is_quiet: bool) -> Step {
    match (is_wished, is_paused, is_quiet) {
        (true, false, _) => Step::Pause,
        (true, true, true) => Step::Stop,
        (false, true, _) => Step::GoOn,
        (true, true, false) | (false, false, _) => Step::Nothing,
    }
}

impl JobControl {
    /// Where the copies of this command have to wait.
    pub(crate) fn gate(&self) -> Gate {
        self.pause.gate()
    }

    /// Takes the signals from now on. One that the parent chose to ignore stays ignored, and without
    /// a handler a signal does what it does to any program.
    pub(crate) fn listen(&self) {
        if self.listening.load(Ordering::Relaxed) || self.listening.swap(true, Ordering::Relaxed) {
            return;
        }
        #[cfg(unix)]
        {
            let ignored = ignored_signals();
            let is_taken = |signal| ignored & mask(signal) == 0;
            if is_taken(SIGTSTP) {
                for (signal, wish) in [(SIGCONT, 0), (SIGTSTP, 1)] {
                    let suspend = Arc::clone(&self.suspend);
                    let _ = signal_hook::flag::register_usize(signal, suspend, wish);
                }
            }
            for signal in STATUS.into_iter().filter(|signal| is_taken(*signal)) {
                let _ = signal_hook::flag::register(signal, Arc::clone(&self.status));
            }
        }
    }

    /// Called between pieces, by every thread that copies, and by those that wait at the gate.
    pub(crate) fn heed(&self) {
        let is_wished = self.suspend.load(Ordering::Relaxed) == 1;
        let is_paused = self.pause.is_paused();
        if !is_wished && !is_paused {
            return;
        }
        match step(is_wished, is_paused, self.pause.is_quiet()) {
            Step::Nothing => {}
            Step::Pause => self.pause.pause(),
            Step::Stop => {
                if !self.stopping.swap(true, Ordering::SeqCst) {
                    stop_process();
                    self.suspend.store(0, Ordering::Relaxed);
                    self.pause.resume();
                    self.stopping.store(false, Ordering::SeqCst);
                }
            }
            Step::GoOn => self.pause.resume(),
        }
    }

    /// One of [`STATUS`] came: somebody wants to know how far it is. Once for each signal.
    pub(crate) fn takes_status(&self) -> bool {
        self.status.load(Ordering::Relaxed) && self.status.swap(false, Ordering::Relaxed)
    }

    /// A clock that begins now, and stands still in pauses.
    pub(crate) fn clock(&self) -> Clock {
        let paused_before = self.pause.paused_for();
        Clock { begin: Instant::now(), pause: self.pause.clone(), paused_before }
    }
}

/// Stops the process until `SIGCONT`, as Ctrl-Z would have.
fn stop_process() {
    #[cfg(unix)]
    let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
}

/// Tells time at work.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    begin: Instant,
    pause: Pause,
    paused_before: Duration,
}

impl Clock {
    /// Time at work since it began.
    pub(crate) fn at_work(&self) -> Duration {
        let paused = self.pause.paused_for().saturating_sub(self.paused_before);
        self.begin.elapsed().saturating_sub(paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_stops_when_nothing_moves_and_goes_on_once() {
        // Wished, paused, quiet.
        for (found, expected) in [
            ((false, false, false), Step::Nothing),
            ((true, false, false), Step::Pause),
            ((true, false, true), Step::Pause),
            ((true, true, false), Step::Nothing),
            ((true, true, true), Step::Stop),
            // SIGCONT came before all were at rest.
            ((false, true, false), Step::GoOn),
            ((false, true, true), Step::GoOn),
        ] {
            assert_eq!(step(found.0, found.1, found.2), expected, "{found:?}");
        }
    }

    #[test]
    fn a_wish_that_is_taken_back_leaves_no_pause() {
        let control = JobControl::default();
        control.heed();
        assert!(!control.pause.is_paused());
        control.suspend.store(1, Ordering::Relaxed);
        control.heed();
        assert!(control.pause.is_paused());
        control.suspend.store(0, Ordering::Relaxed);
        control.heed();
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
        // One that begins later knows nothing of it.
        let second = control.clock();
        assert!(second.at_work() <= begin.elapsed() - paused);
        let paused = paused + pause(&second);
        assert!(first.at_work() <= begin.elapsed() - paused);
    }
}
