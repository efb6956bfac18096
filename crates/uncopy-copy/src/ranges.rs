//! Moves a piece of a large file by two threads, block by block.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{panic, thread};

use super::mechanism::{Ends, Moved, Mover, Refused};
use super::pace::Pace;
use uncopy_core::Cost;

/// Bytes that a thread takes at a time; the quicker thread takes more blocks.
const BLOCK_BYTES: u64 = 1 << 20;

/// Maximum time of a piece, so that a wish to stop is heard where the device is slower than it was.
pub(super) const MAX_TIME: Duration = Pace::TARGET.saturating_mul(2);

/// Moves bytes of a range from its start on, by this thread and a second one that uses
/// `second_mover`; none takes another block after `max_time`. Returns the contiguous prefix moved.
/// Bytes behind a gap are moved again by the next step, which meets the same error.
pub(super) fn step(
    mover: &mut dyn Mover,
    second_mover: &mut (dyn Mover + Send),
    ends: Ends<'_>,
    range: Range<u64>,
    max_time: Duration,
) -> Result<Moved, Refused> {
    let (offset, length) = (range.start, range.end - range.start);
    let (next, begin) = (AtomicU64::new(0), Instant::now());
    let piece = Piece { offset, length, next, begin, max_time };
    let blocks = thread::scope(|scope| {
        let helper = thread::Builder::new().name("uncopy".into());
        let helper = helper.spawn_scoped(scope, || piece.work(second_mover, ends));
        let mut blocks = piece.work(mover, ends);
        // If no thread could be started, this one has moved all of them.
        if let Ok(helper) = helper {
            blocks.extend(helper.join().unwrap_or_else(|cause| panic::resume_unwind(cause)));
        }
        blocks
    });
    joined(blocks)
}

/// The piece that the threads share block by block.
struct Piece {
    offset: u64,
    length: u64,
    /// Start of the next block, relative to `offset`.
    next: AtomicU64,
    begin: Instant,
    max_time: Duration,
}

/// A block that a thread took, and its result.
struct Block {
    start: u64,
    length: u64,
    result: Result<Moved, Refused>,
}

impl Block {
    fn is_whole(&self) -> bool {
        self.result.is_ok_and(|moved| moved.bytes == self.length)
    }
}

impl Piece {
    /// Takes blocks until none is left, the time is over or one is not moved completely; then no thread
    /// takes another.
    fn work(&self, mover: &mut dyn Mover, ends: Ends<'_>) -> Vec<Block> {
        let mut blocks = Vec::new();
        // The first one always.
        while blocks
            .last()
            .is_none_or(|last: &Block| last.is_whole() && self.begin.elapsed() < self.max_time)
        {
            let start = self.next.fetch_add(BLOCK_BYTES, Ordering::Relaxed);
            if start >= self.length {
                return blocks;
            }
            let length = BLOCK_BYTES.min(self.length - start);
            let result = mover.step(ends, self.offset + start, length);
            blocks.push(Block { start, length, result });
        }
        self.next.store(self.length, Ordering::Relaxed);
        blocks
    }
}

/// The blocks from the first on that follow each other without a gap, as one. They were taken in
/// order, so that none is missing before the last.
fn joined(mut blocks: Vec<Block>) -> Result<Moved, Refused> {
    blocks.sort_unstable_by_key(|block| block.start);
    let mut all = Moved { bytes: 0, hole_bytes: 0, cost: Cost::Unknown };
    for block in blocks {
        match block.result {
            Err(refused) if all.bytes == 0 => return Err(refused),
            Ok(Moved { bytes, hole_bytes, cost }) if all.bytes == 0 || cost == all.cost => {
                let (bytes, hole_bytes) = (all.bytes + bytes, all.hole_bytes + hole_bytes);
                all = Moved { bytes, hole_bytes, cost };
            }
            _ => break,
        }
        if !block.is_whole() {
            break;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
