//! Forked children that continue in this program.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seconds until a hanging child is killed.
const HANG: u32 = 60;

/// Runs `check` in a child made by `fork(2)`, without `exec`. Returns its result; `false` if the
/// child panics, hangs or is killed.
///
/// The child has only this thread, and locks held by other threads stay locked forever. It may
/// still allocate memory (glibc ensures that).
///
/// # Panics
/// If the child cannot be created.
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
