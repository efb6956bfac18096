//! Whether other threads may exist.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Address of `__libc_single_threaded`, a `char` (glibc 2.32, `sys/single_threaded.h`).
struct Flag(NonNull<AtomicU8>);

// SAFETY: the variable is never unmapped, and is accessed by atomic loads only.
unsafe impl Send for Flag {}
// SAFETY: as above.
unsafe impl Sync for Flag {}

static FLAG: OnceLock<Option<Flag>> = OnceLock::new();

fn find_flag() -> Option<Flag> {
    let name = c"__libc_single_threaded";
    // SAFETY: looks up a name, which ends in a zero byte.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    NonNull::new(address.cast()).map(Flag)
}

/// Whether the calling thread is the only one of its process, and stays so until it starts another. False
/// if that is not known: the C library does not say, or there were other threads before.
///
/// A thread that was not made by the C library does not count. It has no thread-local memory, so that it
/// cannot run this code either. A signal handler may not start a thread (`signal-safety(7)`).
#[must_use]
pub fn is_only_one() -> bool {
    let Some(Flag(flag)) = FLAG.get_or_init(find_flag) else { return false };
    // SAFETY: one initialised byte that stays where it is. Another thread changes it only while it is 0.
    unsafe { flag.as_ref() }.load(Ordering::Relaxed) != 0
}

#[cfg(test)]
mod tests {
    use super::is_only_one;

    #[test]
    fn a_test_that_has_a_thread_of_its_own_is_not_alone() {
        assert!(!is_only_one());
    }
}
