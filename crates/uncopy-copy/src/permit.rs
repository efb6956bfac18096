//! Defines the permit of a copy to give names, which its caller may withdraw.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Permit to give names: one flag decides.
#[derive(Debug, Default)]
pub(crate) struct Permit(Mutex<bool>);

impl Permit {
    /// Withdraws it. Waits for a call that gives a name; no name appears after this returns.
    pub(crate) fn withdraw(&self) {
        *self.flag() = true;
    }

    pub(crate) fn is_withdrawn(&self) -> bool {
        *self.flag()
    }

    /// Gives names by `act`, unless the permit is withdrawn.
    pub(crate) fn use_for<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let withdrawn = self.flag();
        (!*withdrawn).then(act)
    }

    fn flag(&self) -> MutexGuard<'_, bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_named_after_it_was_withdrawn() {
        let permit = Permit::default();
        assert_eq!(permit.use_for(|| 1), Some(1));
        permit.withdraw();
        assert!(permit.is_withdrawn());
        assert_eq!(permit.use_for(|| 1), None);
    }
}
