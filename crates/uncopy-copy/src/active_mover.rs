//! The mechanism at work on one pair of files.

use super::mechanism::{Ends, Moved, Mover, Refused};
use super::ranges;
use uncopy_core::Mechanism;

pub(super) struct ActiveMover {
    pub(super) mechanism: Mechanism,
    mover: Box<dyn Mover>,
    /// What another thread moves with, once one has.
    second_mover: Option<Box<dyn Mover + Send>>,
    pub(super) moved_bytes: u64,
}

impl ActiveMover {
    pub(super) fn new(mechanism: Mechanism, mover: Box<dyn Mover>) -> ActiveMover {
        ActiveMover { mechanism, mover, second_mover: None, moved_bytes: 0 }
    }

    /// Moves up to `length` bytes from `offset` on by one thread, or by two: then `true`, if the
    /// mechanism can.
    pub(super) fn step(
        &mut self,
        ends: Ends<'_>,
        (offset, length): (u64, u64),
        parallel: bool,
    ) -> (Result<Moved, Refused>, bool) {
        if parallel && self.second_mover.is_none() {
            self.second_mover = self.mover.second_mover();
        }
        match self.second_mover.as_deref_mut().filter(|_| parallel) {
            Some(second_mover) => {
                (ranges::step(&mut *self.mover, second_mover, ends, (offset, length)), true)
            }
            None => (self.mover.step(ends, offset, length), false),
        }
    }
}
