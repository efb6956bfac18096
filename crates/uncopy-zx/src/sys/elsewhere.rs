//! Processors without copying code of their own: the kernel copies.

use libc::ucontext_t;

use super::fault::Copy;

/// The kernel does it.
pub(super) const IS_SUPPORTED: bool = false;

/// Never asked for, because it is not supported.
pub(super) fn best() -> Copy {
    /// # Safety
    /// None is needed.
    unsafe extern "C" fn refuse(_: *mut u8, _: *const u8, _: usize) -> u32 {
        1
    }
    refuse
}

/// None.
#[cfg(test)]
pub(super) fn all() -> Vec<Copy> {
    Vec::new()
}

/// No fault is this library's.
pub(super) fn land(_: &mut ucontext_t) -> bool {
    false
}
