//! From many regions into one buffer, and back.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// A destination of fixed length that is written from its beginning to its end, piece by piece.
///
/// What has not been appended cannot be read, so nobody has to clear the memory first.
#[derive(Debug)]
pub struct Filling<'a> {
    rest: &'a mut [MaybeUninit<u8>],
}

/// More bytes were appended than the length that was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more bytes than announced; announce the sum of all pieces")]
pub struct TooLong;

impl<'a> Filling<'a> {
    /// Fills `space`.
    #[inline]
    pub(crate) fn new(space: &'a mut [MaybeUninit<u8>]) -> Filling<'a> {
        Filling { rest: space }
    }

    /// Bytes still to be written.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Copies `bytes` behind what is there.
    ///
    /// # Errors
    /// [`TooLong`] if they do not fit; nothing is copied then.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if bytes.len() > self.rest.len() {
            return Err(TooLong);
        }
        let (space, rest) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        space.write_copy_of_slice(bytes);
        self.rest = rest;
        Ok(())
    }

    /// Copies every region, in order.
    ///
    /// # Errors
    /// [`TooLong`] at the first that does not fit; those before it are copied.
    #[inline]
    pub fn append_all(&mut self, regions: &[IoSlice<'_>]) -> Result<(), TooLong> {
        regions.iter().try_for_each(|region| self.append(region))
    }

    /// The memory still to be written, for a copy that `append` cannot do (from pointers that may
    /// be bad, say). Follow it with [`assume_appended`](Self::assume_appended).
    #[inline]
    pub fn unfilled(&mut self) -> &mut [MaybeUninit<u8>] {
        self.rest
    }

    /// Takes the first `count` bytes of [`unfilled`](Self::unfilled) as written.
    ///
    /// # Panics
    /// If fewer remain.
    ///
    /// # Safety
    /// They have been initialised.
    #[inline]
    pub unsafe fn assume_appended(&mut self, count: usize) {
        self.rest = &mut std::mem::take(&mut self.rest)[count..];
    }
}

/// Copies `bytes` into the regions, each filled before the next; says how many found room.
pub(crate) fn scatter(bytes: &[u8], regions: &mut [IoSliceMut<'_>]) -> usize {
    let mut rest = bytes;
    for region in regions {
        let (now, later) = rest.split_at(region.len().min(rest.len()));
        region[..now.len()].copy_from_slice(now);
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    bytes.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;

    use super::scatter;

    #[test]
    fn scatters_over_empty_and_full_regions() {
        let (mut a, mut b, mut c) = ([0; 2], [0; 0], [0; 4]);
        let mut regions = [&mut a[..], &mut b, &mut c].map(IoSliceMut::new);
        assert_eq!(scatter(b"12345", &mut regions), 5);
        assert_eq!((&a, &c), (b"12", b"345\0"));
        assert_eq!(scatter(b"123", &mut [IoSliceMut::new(&mut a)]), 2);
        assert_eq!(scatter(b"", &mut []), 0);
    }
}
