//! A memory barrier on all other threads of this process, so that these need none.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration, of `linux/membarrier.h`.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Time after which every processor has made its earlier stores visible.
const STORE_DELAY: Duration = Duration::from_millis(1);

/// Orders memory accesses with all other threads: either this thread sees what another one stored
/// before, or that one will see what this thread stored before the call. Uses `membarrier(2)`; if a
/// filter forbids it or it does not exist (Linux before 4.14), sleeps a millisecond, which is longer
/// than stores stay in a processor.
#[cold]
pub(super) fn synchronize_others() {
    static IS_REGISTERED: OnceLock<bool> = OnceLock::new();
    let is_registered = *IS_REGISTERED.get_or_init(|| command(REGISTER_PRIVATE_EXPEDITED));
    if !(is_registered && command(PRIVATE_EXPEDITED)) {
        thread::sleep(STORE_DELAY);
    }
}

fn command(number: libc::c_int) -> bool {
    // SAFETY: only takes numbers.
    unsafe { libc::syscall(libc::SYS_membarrier, number, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::{PRIVATE_EXPEDITED, REGISTER_PRIVATE_EXPEDITED, command, synchronize_others};

    #[test]
    fn the_kernel_knows_the_commands() {
        synchronize_others();
        assert!(command(REGISTER_PRIVATE_EXPEDITED) && command(PRIVATE_EXPEDITED));
        // A command that does not exist.
        assert!(!command(1 << 30));
    }
}
