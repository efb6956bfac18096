//! Moves bytes by `copy_file_range(2)`: the filesystem copies or shares them.

use super::{Ends, Moved, Mover, Refused};
use crate::plan::CopyFacts;
use uncopy_core::Cost;
use uncopy_os::transfer;

pub(super) struct CopyFileRange {
    cost: Cost,
}

impl CopyFileRange {
    pub(super) fn new(facts: &CopyFacts) -> CopyFileRange {
        // Other filesystems may share extents or copy on a server; which of these they did is
        // looked up afterwards, where possible.
        let splices = facts.destination.copies_by_splice();
        CopyFileRange { cost: if splices { Cost::KernelCopied } else { Cost::Unknown } }
    }
}

impl Mover for CopyFileRange {
    fn step(&mut self, ends: Ends<'_>, offset: u64, length: u64) -> Result<Moved, Refused> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let n = transfer::copy_file_range(ends.source, ends.destination, offset, length)?;
        Ok(Moved::data(n, self.cost))
    }
}
