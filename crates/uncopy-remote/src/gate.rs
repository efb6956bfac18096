//! A limit on the number of threads that do something at once.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Counting lock. A waiting thread does not hold anything of the connection, so that the others go on.
#[derive(Debug)]
pub(crate) struct Gate {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Gate {
    pub(crate) fn new(places: usize) -> Gate {
        Gate { free: Mutex::new(places), freed: Condvar::new() }
    }

    /// Waits for a place.
    pub(crate) fn enter(&self) -> GatePlace<'_> {
        let mut free = lock(&self.free);
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        GatePlace(self)
    }
}

/// Place that is left on drop.
#[derive(Debug)]
pub(crate) struct GatePlace<'a>(&'a Gate);

impl Drop for GatePlace<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}

/// Locks. What the locks of this crate guard is whole between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
