//! Processors without copying code of their own: the kernel copies.

use libc::ucontext_t;

/// The kernel does it.
pub(super) const IS_SUPPORTED: bool = false;

/// Never called, because it is not supported.
///
/// # Safety
/// None is needed.
pub(super) unsafe fn copy(_: *mut u8, _: *const u8, _: usize) -> bool {
    false
}

/// No fault is this library's.
pub(super) fn land(_: &mut ucontext_t) -> bool {
    false
}
