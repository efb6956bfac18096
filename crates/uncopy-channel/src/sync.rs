//! The locks of this crate: the standard library's, or under `--cfg shuttle` those of shuttle, whose
//! scheduler tries interleavings.

#[cfg(not(shuttle))]
pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak, atomic};

#[cfg(shuttle)]
pub(super) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak, atomic};

/// Locks `mutex` and ignores poisoning, because nothing that can panic runs under a lock (see
/// "Unwinding" in the crate's documentation).
#[inline]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock that is held for a few instructions.
#[cfg(not(shuttle))]
pub(super) use crate::memory::lock::{Guard as BriefGuard, Lock as BriefLock};

#[cfg(shuttle)]
pub(super) use shuttle::sync::{Mutex as BriefLock, MutexGuard as BriefGuard};

/// Locks a `BriefLock`.
#[inline]
pub(super) fn hold<T>(lock: &BriefLock<T>) -> BriefGuard<'_, T> {
    #[cfg(not(shuttle))]
    return lock.lock();
    #[cfg(shuttle)]
    return self::lock(lock);
}
