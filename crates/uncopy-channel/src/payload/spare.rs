//! Memory of received payloads, which is kept for the next one: fresh memory costs a page fault every 4,096 bytes.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Status;

/// Place for one buffer that nobody uses.
#[derive(Clone)]
pub(super) struct Spare {
    buffer: Arc<Mutex<Vec<u8>>>,
    /// Maximum capacity of a buffer that is kept.
    limit: usize,
}

impl Spare {
    pub(super) fn new(limit: usize) -> Spare {
        Spare { buffer: Arc::default(), limit }
    }

    /// Returns a buffer without bytes, with capacity for `length`. Its pages are allocated when they are written to.
    ///
    /// # Errors
    /// [`Status::NoMemory`].
    pub(super) fn take(&self, length: usize) -> Result<Vec<u8>, Status> {
        let mut buffer = std::mem::take(&mut *self.lock());
        if buffer.capacity() < length {
            buffer = Vec::new();
            buffer.try_reserve_exact(length).map_err(|_| Status::NoMemory)?;
        }
        Ok(buffer)
    }

    /// Keeps a buffer, unless it is above the limit or a larger one is kept.
    fn put_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut kept = self.lock();
        if (kept.capacity() + 1..=self.limit).contains(&buffer.capacity()) {
            *kept = buffer;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns bytes whose memory comes back here when they are dropped.
    pub(super) fn keep(&self, bytes: Vec<u8>) -> Kept {
        Kept { bytes, spare: self.clone() }
    }
}

/// Bytes whose memory is kept when they are dropped.
pub(super) struct Kept {
    bytes: Vec<u8>,
    spare: Spare,
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.spare.put_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::Spare;

    #[test]
    fn the_largest_buffer_within_the_limit_is_kept() {
        let spare = Spare::new(10_000);
        let kept = |length: usize| {
            let bytes = spare.take(length).unwrap();
            let start = bytes.as_ptr();
            assert!(bytes.is_empty() && bytes.capacity() >= length);
            (spare.keep(bytes), start)
        };
        let (small, _) = kept(1000);
        let (large, start) = kept(8000);
        drop((large, small));
        let (again, at) = kept(5000);
        assert_eq!(at, start);
        let (huge, _) = kept(20_000);
        drop((again, huge));
        assert_eq!(kept(8000).1, start);
        assert_eq!(spare.take(usize::MAX), Err(crate::Status::NoMemory));
    }
}
