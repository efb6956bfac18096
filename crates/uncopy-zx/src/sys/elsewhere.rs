//! Processors without copying code in this library: the kernel copies.

use libc::ucontext_t;

use super::fault::Copy;

/// Whether signal handlers can recover from bad pointers: no, the kernel copies.
pub(super) const IS_SUPPORTED: bool = false;

/// Returns a function that is never called, because the mode is not supported.
pub(super) fn best() -> Copy {
    /// # Safety
    /// None is needed.
    unsafe extern "C" fn refuse(_: *mut u8, _: *const u8, _: usize) -> u32 {
        1
    }
    refuse
}

/// Returns no copy functions.
#[cfg(test)]
pub(super) fn all() -> Vec<Copy> {
    Vec::new()
}

/// Returns false: no fault is this library's.
pub(super) fn land(_: &mut ucontext_t) -> bool {
    false
}
