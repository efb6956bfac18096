//! Defines the active mechanism of one pair of files.

use super::digest::StreamedDigest;
use super::mechanism::{Ends, Moved, Mover, Refused};
use uncopy_core::Mechanism;

pub(super) struct ActiveMover {
    pub(super) mechanism: Mechanism,
    pub(super) mover: Box<dyn Mover>,
    /// Mover of a second thread, made on first use.
    second_mover: Option<Box<dyn Mover + Send>>,
    pub(super) moved_bytes: u64,
}

impl ActiveMover {
    pub(super) fn new(mechanism: Mechanism, mover: Box<dyn Mover>) -> ActiveMover {
        ActiveMover { mechanism, mover, second_mover: None, moved_bytes: 0 }
    }

    /// Moves bytes by one thread, and adds them to the digest, if there is one.
    pub(super) fn step(
        &mut self,
        ends: Ends<'_>,
        offset: u64,
        length: u64,
        digest: Option<&mut StreamedDigest>,
    ) -> Result<Moved, Refused> {
        match digest {
            Some(digest) => self.mover.step_digesting(ends, offset, length, digest),
            None => self.mover.step(ends, offset, length),
        }
    }

    /// Both movers, if two threads are to move the next piece and the mechanism can.
    pub(super) fn second_mover(
        &mut self,
        parallel: bool,
    ) -> Option<(&mut dyn Mover, &mut (dyn Mover + Send))> {
        if parallel && self.second_mover.is_none() {
            self.second_mover = self.mover.second_mover();
        }
        let second = self.second_mover.as_deref_mut().filter(|_| parallel)?;
        Some((&mut *self.mover, second))
    }
}
