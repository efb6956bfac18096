//! Buffers of pieces that were handed on, for those to come: fresh memory costs a page fault for each page.

use std::sync::Mutex;

use crate::gate::lock;

/// Maximum number of buffers, and of all their bytes.
const MAX_BUFFERS: usize = 16;
const MAX_BYTES: usize = 8 << 20;

/// Minimum length of a buffer that is worth keeping: malloc uses smaller ones again by itself.
const MIN_BYTES: usize = 64 << 10;

/// Buffers that nobody uses.
#[derive(Debug, Default)]
pub(crate) struct SpareBuffers(Mutex<Vec<Vec<u8>>>);

impl SpareBuffers {
    /// Returns an empty buffer with this capacity at least.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes >= MIN_BYTES {
            let mut spare = lock(&self.0);
            // Those that were used last are still in the caches.
            if let Some(found) = spare.iter().rposition(|spare| spare.capacity() >= bytes) {
                return spare.remove(found);
            }
        }
        Vec::with_capacity(bytes)
    }

    /// Takes a buffer that is not used any more, if it is of use.
    pub(crate) fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        if buffer.capacity() < MIN_BYTES || buffer.capacity() > MAX_BYTES {
            return;
        }
        let mut spare = lock(&self.0);
        spare.push(buffer);
        // Those that were too short for the last ones go first.
        while spare.len() > MAX_BUFFERS
            || spare.iter().map(Vec::capacity).sum::<usize>() > MAX_BYTES
        {
            spare.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_buffers_that_are_long_enough_are_used_again() {
        let spare = SpareBuffers::default();
        spare.give(Vec::with_capacity(MIN_BYTES - 1));
        assert!(lock(&spare.0).is_empty());
        let mut buffer = spare.take(MIN_BYTES);
        buffer.extend_from_slice(&[7; MIN_BYTES]);
        let address = buffer.as_ptr();
        spare.give(buffer);
        // A short one is no waste of a long one.
        let short = spare.take(50);
        assert_ne!(short.as_ptr(), address);
        assert!(spare.take(2 * MIN_BYTES).capacity() >= 2 * MIN_BYTES);
        let again = spare.take(MIN_BYTES);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
        spare.give(again);
        (0..20).for_each(|_| spare.give(Vec::with_capacity(MIN_BYTES)));
        assert_eq!(lock(&spare.0).len(), MAX_BUFFERS);
        // Longer ones take the place of shorter ones.
        (0..20).for_each(|_| spare.give(Vec::with_capacity(1 << 20)));
        let lengths: Vec<usize> = lock(&spare.0).iter().map(Vec::capacity).collect();
        assert_eq!(lengths, [1 << 20; MAX_BYTES >> 20]);
        spare.give(Vec::with_capacity(MAX_BYTES + 1));
        assert_eq!(lock(&spare.0).len(), lengths.len());
    }
}
