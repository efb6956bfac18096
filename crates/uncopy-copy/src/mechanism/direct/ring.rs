//! Reads and writes with `O_DIRECT` through io_uring over registered buffers, for a cold source.

use super::{DirectSource, Ends, Moved, Refused, WholeBlocks};
use uncopy_core::Cost;
use uncopy_core::Errno;
use uncopy_os::Sys;
use uncopy_os::uring::{DirectRing, RingEnd};

/// Tuned: enough requests to keep an NVMe or virtio queue busy, and below the 8 MiB of
/// `RLIMIT_MEMLOCK` that an ordinary user has.
const DEPTH: usize = 6;
const BLOCK_BYTES: usize = 1 << 20;

pub(super) struct Ring {
    ring: DirectRing,
    cost: Cost,
    /// An error that came after some bytes had been moved: reported by the next step.
    pending: Option<Errno>,
}

impl Ring {
    pub(super) fn new(ends: Ends<'_>, cost: Cost) -> Sys<Ring> {
        // Not every filesystem that gives an alignment takes the flag.
        drop(DirectSource::new(ends)?);
        let ring = DirectRing::new(DEPTH, BLOCK_BYTES)?;
        Ok(Ring { ring, cost, pending: None })
    }
}

impl WholeBlocks for Ring {
    fn blocks(&mut self, ends: Ends<'_>, offset: u64, length: u64) -> Result<Moved, Refused> {
        if let Some(errno) = self.pending.take() {
            return Err(errno.into());
        }
        let _direct = DirectSource::new(ends)?;
        let (moved, end) = self.ring.copy(ends.source, ends.destination, offset, length);
        match end {
            RingEnd::Failed(errno) if moved == 0 => return Err(errno.into()),
            RingEnd::Failed(errno) => self.pending = Some(errno),
            RingEnd::Done | RingEnd::SourceEnded => {}
        }
        Ok(Moved { bytes: moved, hole_bytes: 0, cost: self.cost })
    }
}
