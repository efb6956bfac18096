//! The mechanism at work on one pair of files.

use super::mechanism::{Ends, Moved, Mover, Refused};
use super::ranges;
use uncopy_core::Mechanism;

pub(super) struct Current {
    pub(super) mechanism: Mechanism,
    mover: Box<dyn Mover>,
    /// What another thread moves with, once one has.
    beside: Option<Box<dyn Mover + Send>>,
    pub(super) moved_bytes: u64,
}

impl Current {
    pub(super) fn new(mechanism: Mechanism, mover: Box<dyn Mover>) -> Current {
        Current { mechanism, mover, beside: None, moved_bytes: 0 }
    }

    /// Moves up to `length` bytes from `offset` on by one thread, or by two: then `true`, if the
    /// mechanism can.
    pub(super) fn step(
        &mut self,
        ends: Ends<'_>,
        (offset, length): (u64, u64),
        by_two: bool,
    ) -> (Result<Moved, Refused>, bool) {
        if by_two && self.beside.is_none() {
            self.beside = self.mover.beside();
        }
        match self.beside.as_deref_mut().filter(|_| by_two) {
            Some(beside) => (ranges::step(&mut *self.mover, beside, ends, (offset, length)), true),
            None => (self.mover.step(ends, offset, length), false),
        }
    }
}
