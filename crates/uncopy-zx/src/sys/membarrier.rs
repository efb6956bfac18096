//! Having the other threads of this process pass a barrier, so that they need none of their own.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration, of `linux/membarrier.h`.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Much longer than any processor keeps a store to itself.
const SURELY: Duration = Duration::from_millis(1);

/// What another thread stored before is seen by this one, or that thread will see what this one
/// did before the call. `membarrier(2)`; where a filter forbids it or there is none (Linux before
/// 4.14) this takes a millisecond, after which stores have long left the processors that made them.
#[cold]
pub(super) fn others_catch_up() {
    static IS_REGISTERED: OnceLock<bool> = OnceLock::new();
    let is_registered = *IS_REGISTERED.get_or_init(|| command(REGISTER_PRIVATE_EXPEDITED));
    if !(is_registered && command(PRIVATE_EXPEDITED)) {
        thread::sleep(SURELY);
    }
}

fn command(number: libc::c_int) -> bool {
    // SAFETY: takes numbers alone.
    unsafe { libc::syscall(libc::SYS_membarrier, number, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::{PRIVATE_EXPEDITED, REGISTER_PRIVATE_EXPEDITED, command, others_catch_up};

    #[test]
    fn the_kernel_knows_the_commands() {
        others_catch_up();
        assert!(command(REGISTER_PRIVATE_EXPEDITED) && command(PRIVATE_EXPEDITED));
        // One that there is not.
        assert!(!command(1 << 30));
    }
}
