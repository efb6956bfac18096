//! Places for results that threads wait for.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::budget::BudgetShare;
use crate::gate::lock;

/// Place for one result.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    result: Mutex<Option<T>>,
    filled: Condvar,
    /// Memory that the result takes, until it is taken out or both sides have dropped the place.
    share: Option<BudgetShare>,
}

impl<T> Slot<T> {
    pub(crate) fn new(share: Option<BudgetShare>) -> Slot<T> {
        Slot { result: Mutex::new(None), filled: Condvar::new(), share }
    }

    pub(crate) fn fill(&self, result: T) {
        *lock(&self.result) = Some(result);
        self.filled.notify_all();
    }

    /// Waits for the result, and takes it out.
    pub(crate) fn wait(&self) -> T {
        let mut result = lock(&self.result);
        loop {
            match result.take() {
                Some(found) => return found,
                None => result = self.filled.wait(result).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Takes the result out, if there is one.
    pub(crate) fn try_take(&self) -> Option<T> {
        lock(&self.result).take()
    }

    /// Gives its memory back to who asks again.
    pub(crate) fn into_share(self) -> Option<BudgetShare> {
        self.share
    }
}
