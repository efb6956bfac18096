//! Moves bytes by `sendfile(2)` between two files: the kernel splices through its own pipe.

use super::{Ends, Moved, Mover, Refused};
use uncopy_core::Cost;
use uncopy_os::{file, transfer};

/// Keeps track of the destination's file offset, to which `sendfile` writes.
#[derive(Default)]
pub(super) struct Sendfile {
    position: Option<u64>,
}

impl Mover for Sendfile {
    fn step(&mut self, ends: Ends<'_>, offset: u64, length: u64) -> Result<Moved, Refused> {
        if self.position != Some(offset) {
            file::seek_to(ends.destination, offset)?;
        }
        self.position = None;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let n = transfer::sendfile(ends.source, ends.destination, offset, length)?;
        self.position = Some(offset + n as u64);
        Ok(Moved::data(n, Cost::KernelCopied))
    }
}
