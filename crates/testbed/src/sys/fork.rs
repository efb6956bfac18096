//! Children that go on with this program.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seconds after which a child that hangs is killed.
const HANG: u32 = 60;

/// Runs `check` in a child made by `fork(2)`, without `exec`. Says whether it was true there; a child
/// that panics, is killed or hangs says no.
///
/// The child has this thread alone, and whatever locks others held are held there for ever. It may
/// allocate memory all the same (glibc sees to that).
///
/// # Panics
/// If there is no child to be had.
pub fn in_a_child(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `check` and leaves by `_exit(2)`, without destructors of the harness.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: has a signal sent later, whose default action is the end.
        unsafe { libc::alarm(HANG) };
        let is_right = catch_unwind(AssertUnwindSafe(check)).unwrap_or(false);
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    assert!(child > 0, "fork failed");
    let mut status = -1;
    // SAFETY: `child` is this process's own, and `status` lives through the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    waited == child && status == 0
}
