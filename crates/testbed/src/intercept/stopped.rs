//! Programs that are stopped in a call.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Intercept;
use super::supervisor::Supervision;
use crate::process::thread_states;
use crate::program::STOP_TIMEOUT;

/// A program stopped by a test; killed when dropped.
#[derive(Debug)]
pub struct Stopped {
    supervision: Supervision,
}

impl Stopped {
    pub(crate) fn wait(mut supervision: Supervision, context: &str) -> Stopped {
        assert!(wait_for_stop(&mut supervision), "it ended before {context}");
        Stopped { supervision }
    }

    /// Returns its process id.
    #[must_use]
    pub fn process_id(&self) -> i32 {
        self.supervision.running.process_id()
    }

    /// Lets it run to its end.
    ///
    /// # Panics
    /// If it does not end.
    #[must_use]
    pub fn resume(self) -> Intercept {
        send(&self.supervision, Signal::CONT);
        self.supervision.finish()
    }

    /// Sends it a signal and lets it run to its end.
    #[must_use]
    pub fn resume_with(self, signal: Signal) -> Intercept {
        send(&self.supervision, signal);
        self.resume()
    }

    /// Kills it with `kill -9`.
    pub fn kill(self) {
        send(&self.supervision, Signal::KILL);
        let _ = self.supervision.finish();
    }
}

/// A program that stops repeatedly.
#[derive(Debug)]
pub struct Stepping {
    supervision: Supervision,
}

impl Stepping {
    pub(crate) fn new(supervision: Supervision) -> Stepping {
        Stepping { supervision }
    }

    /// Waits for the next stop. `false`: the program ended instead.
    ///
    /// # Panics
    /// If neither happens.
    pub fn wait(&mut self) -> bool {
        wait_for_stop(&mut self.supervision)
    }

    /// Lets the stopped program run.
    pub fn go_on(&mut self) {
        send(&self.supervision, Signal::CONT);
    }

    /// Waits for its end.
    #[must_use]
    pub fn end(self) -> Intercept {
        self.supervision.finish()
    }
}

fn send(supervision: &Supervision, signal: Signal) {
    let process = Pid::from_raw(supervision.running.process_id()).expect("a child has a number");
    kill_process(process, signal).expect("it is stopped and not gone");
}

/// Waits until all threads have stopped. `false`: the program ended instead.
fn wait_for_stop(supervision: &mut Supervision) -> bool {
    let deadline = Instant::now() + STOP_TIMEOUT;
    // Whoever answers ends with the program.
    let is_sent = supervision.stops.recv_timeout(STOP_TIMEOUT);
    loop {
        if supervision.running.has_ended() {
            return false;
        }
        let states = thread_states(supervision.running.process_id());
        if is_sent.is_ok() && !states.is_empty() && states.iter().all(|state| *state == 'T') {
            return true;
        }
        assert!(Instant::now() < deadline, "it hangs before it stops: {states:?}");
        std::thread::sleep(Duration::from_micros(200));
    }
}
