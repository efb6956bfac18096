//! A lock for critical sections of a few instructions. It is released without an atomic
//! read-modify-write, which would take a fifth of the time of a small message.
//!
//! Releasing is a plain store, then a check for sleepers. The processor may check before the store
//! is visible elsewhere (on x86-64 too: Intel SDM volume 3A, 8.2.3.4), and so miss a thread that
//! goes to sleep in these few nanoseconds. Therefore no thread sleeps for longer than
//! [`MAX_SLEEP`] before it tries again.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;
use rustix::time::Timespec;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Number of checks of a held lock before sleeping.
const SPINS: u32 = 100;
/// 1 ms.
const MAX_SLEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

pub(crate) struct Lock<T> {
    state: AtomicU32,
    sleepers: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: a lock owns its value, like a `Mutex<T>`.
unsafe impl<T: Send> Send for Lock<T> {}
// SAFETY: one guard exists at a time, so that the value is only ever sent from thread to thread.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Access to the value while the lock is held. It cannot be sent to another thread.
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    stays: PhantomData<*const ()>,
}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        let [state, sleepers] = [const { AtomicU32::new(FREE) }; 2];
        Lock { state, sleepers, value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        if !self.try_take() {
            self.wait();
        }
        Guard { lock: self, stays: PhantomData }
    }

    #[inline]
    fn try_take(&self) -> bool {
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..SPINS {
            spin_loop();
            if self.state.load(Ordering::Relaxed) == FREE && self.try_take() {
                return;
            }
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !self.try_take() {
            // Woken, timed out, interrupted or already free: tries again in every case.
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, HELD, Some(&MAX_SLEEP));
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    #[cold]
    fn wake(&self) {
        // Fails only for an invalid address.
        let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, and lends the value no longer than it lives.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes it the only reference.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.state.store(FREE, Ordering::Release);
        if self.lock.sleepers.load(Ordering::Relaxed) != 0 {
            self.lock.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::Ordering;
    use std::thread::{scope, sleep};
    use std::time::Duration;

    use super::{FREE, HELD, Lock};

    #[test]
    fn one_thread_at_a_time_holds_the_lock() {
        const TURNS: u64 = 100_000;
        let lock = Lock::new([0u64; 2]);
        scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..TURNS {
                        let mut both = lock.lock();
                        both[0] += 1;
                        both[1] = both[0];
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), [4 * TURNS; 2]);
        assert_eq!(lock.sleepers.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn sleepers_are_woken_one_after_the_other() {
        let lock = Lock::new(0);
        let held = lock.lock();
        scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| *lock.lock() += 1);
            }
            while lock.sleepers.load(Ordering::Relaxed) < 3 {
                std::thread::yield_now();
            }
            drop(held);
        });
        assert_eq!(*lock.lock(), 3);
    }

    #[test]
    fn a_sleeper_that_was_not_woken_takes_the_lock_after_a_timeout() {
        let lock = Lock::new(());
        lock.state.store(HELD, Ordering::Relaxed);
        scope(|threads| {
            let sleeper = threads.spawn(|| drop(lock.lock()));
            while lock.sleepers.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            sleep(Duration::from_millis(5));
            assert!(!sleeper.is_finished());
            lock.state.store(FREE, Ordering::Release);
        });
    }

    #[test]
    fn unwinding_releases_the_lock() {
        let lock = Lock::new(1);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _held = lock.lock();
            panic!("on purpose");
        }));
        assert!(unwound.is_err());
        assert_eq!(*lock.lock(), 1);
    }
}
