//! Memory for answers that come ahead of their questions' turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of bytes that may be under way.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<AtomicUsize>);

/// Part of a budget, given back on drop.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Budget {
        Budget(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Takes bytes if there are as many.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<BudgetShare> {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.ok().map(|_| BudgetShare { budget: self.clone(), bytes })
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}
