//! Waiting for conditions.

use std::time::{Duration, Instant};

/// Longer than any successful operation takes, also on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

/// Waits until `is_there` returns `true`.
///
/// # Panics
/// On a timeout, with `what`.
#[track_caller]
pub fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_there() {
        assert!(Instant::now() < deadline, "no {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
