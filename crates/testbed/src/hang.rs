//! Tests that hang: the run ends with an error that names them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Exit code of a test run with failed tests.
const FAILED: i32 = 101;
const INTERVAL: Duration = Duration::from_secs(5);

/// Beginnings of the tests that run.
static RUNNING: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());

/// Test that is watched until this is dropped.
pub(crate) struct Watched(String);

impl Drop for Watched {
    fn drop(&mut self) {
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Watches a test that begins.
pub(crate) fn watch(name: &str) -> Watched {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    running.insert(name.to_owned(), Instant::now());
    Watched(name.to_owned())
}

/// Ends the process once a test has run for `limit`.
pub(crate) fn end_after(limit: Duration) {
    thread::spawn(move || {
        loop {
            thread::sleep(INTERVAL);
            let hanging = hanging(limit);
            if !hanging.is_empty() {
                let minutes = limit.as_secs() / 60;
                eprintln!("\nstill running after {minutes} minutes: {}", hanging.join(", "));
                std::process::exit(FAILED);
            }
        }
    });
}

fn hanging(limit: Duration) -> Vec<String> {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_hanging = |(_, began): &(&String, &Instant)| began.elapsed() >= limit;
    running.iter().filter(is_hanging).map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_for_long_is_named_until_it_ends() {
        let first = watch("first");
        let _second = watch("second");
        assert_eq!(hanging(Duration::ZERO), ["first", "second"]);
        assert_eq!(hanging(Duration::from_secs(3600)), [""; 0]);
        drop(first);
        assert_eq!(hanging(Duration::ZERO), ["second"]);
    }
}
