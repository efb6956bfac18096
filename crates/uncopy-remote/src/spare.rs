//! Buffers of pieces that were handed on, for those to come: fresh memory costs a page fault for each page.

use std::sync::Mutex;

use crate::gate::lock;

/// Maximum number of buffers.
const MAX_BUFFERS: usize = 8;

/// Buffers that nobody uses.
#[derive(Debug)]
pub(crate) struct SpareBuffers {
    /// Capacity of each at least.
    bytes: usize,
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl SpareBuffers {
    pub(crate) fn new(bytes: usize) -> SpareBuffers {
        SpareBuffers { bytes, buffers: Mutex::default() }
    }

    /// Returns an empty buffer with this capacity.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        let spare = lock(&self.buffers).pop().filter(|spare| spare.capacity() >= bytes);
        spare.unwrap_or_else(|| Vec::with_capacity(bytes))
    }

    /// Takes a buffer that is not used any more, if it is of use.
    pub(crate) fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut buffers = lock(&self.buffers);
        if buffer.capacity() >= self.bytes && buffers.len() < MAX_BUFFERS {
            buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_buffers_that_are_long_enough_are_used_again() {
        let spare = SpareBuffers::new(100);
        spare.give(Vec::with_capacity(99));
        assert!(lock(&spare.buffers).is_empty());
        let mut buffer = spare.take(100);
        buffer.extend_from_slice(&[7; 100]);
        let address = buffer.as_ptr();
        spare.give(buffer);
        let again = spare.take(50);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
        spare.give(again);
        assert!(spare.take(200).capacity() >= 200);
        (0..20).for_each(|_| spare.give(Vec::with_capacity(100)));
        assert_eq!(lock(&spare.buffers).len(), MAX_BUFFERS);
    }
}
