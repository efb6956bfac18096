//! Budget of memory that tests side by side may lock.
//!
//! Registered buffers of io_uring and pages that `MSG_ZEROCOPY` lends count against one limit for all
//! processes of a user (`RLIMIT_MEMLOCK`; 8 MiB by default), unless they have `CAP_IPC_LOCK`.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::sys::locked::try_to_lock;
use crate::wait_for;

/// Sum of what running tests may lock, in MiB.
const BUDGET: u32 = 8;

/// Part of each reservation that is not tried: a ring takes some pages itself, and memory that begins within a page
/// one more.
const OWN_OF_RING_BYTES: usize = 64 << 10;

static FREE: Mutex<u32> = Mutex::new(BUDGET);
static RETURNED: Condvar = Condvar::new();

/// Part of the budget, returned when dropped.
pub(crate) struct Reservation(u32);

/// Waits until the budget has `mebibytes` left, and the kernel, which takes the memory of a ring back some time after
/// its program has ended, too.
pub(crate) fn reserve(mebibytes: u32) -> Reservation {
    let mebibytes = if is_unlimited() { 0 } else { mebibytes };
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_short = |free: &mut u32| *free < mebibytes;
    let mut free = RETURNED.wait_while(free, is_short).unwrap_or_else(PoisonError::into_inner);
    *free -= mebibytes;
    drop(free);
    if mebibytes > 0 {
        let is_free = || {
            let tried = try_to_lock(((mebibytes as usize) << 20) - OWN_OF_RING_BYTES);
            tried.err().is_none_or(|error| error.kind() != io::ErrorKind::OutOfMemory)
        };
        wait_for("memory that may be locked", is_free);
    }
    Reservation(mebibytes)
}

impl Drop for Reservation {
    fn drop(&mut self) {
        *FREE.lock().unwrap_or_else(PoisonError::into_inner) += self.0;
        RETURNED.notify_all();
    }
}

/// Returns why tests that lock memory cannot run. `None`: they can.
pub(crate) fn lacking() -> Option<String> {
    let limit = getrlimit(Resource::Memlock).current;
    let is_enough = limit.is_none_or(|bytes| bytes >= u64::from(BUDGET) << 20);
    let reason = || format!("needs {BUDGET} MiB of lockable memory (ulimit -l)");
    (!is_enough && !is_unlimited()).then(reason)
}

pub(crate) fn is_unlimited() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn no_more_than_the_budget_is_out() {
        if is_unlimited() {
            return;
        }
        let out = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for number in 0..20 {
                let mebibytes = [1, 2, 6, BUDGET][number % 4];
                let out = &out;
                scope.spawn(move || {
                    let reservation = reserve(mebibytes);
                    let before = out.fetch_add(mebibytes, Ordering::SeqCst);
                    assert!(before + mebibytes <= BUDGET);
                    std::thread::yield_now();
                    out.fetch_sub(mebibytes, Ordering::SeqCst);
                    drop(reservation);
                });
            }
        });
        assert_eq!(*FREE.lock().unwrap(), BUDGET);
    }
}
