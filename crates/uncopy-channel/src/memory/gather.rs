//! Gathers many regions into one buffer, and scatters a buffer over regions.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// A destination of fixed length that is appended to, piece by piece.
///
/// Bytes that have not been appended cannot be read, so the memory is not cleared first.
#[derive(Debug)]
pub struct Filling<'a> {
    rest: &'a mut [MaybeUninit<u8>],
}

/// Error of appending more bytes than were announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more bytes than announced; announce the sum of all pieces")]
pub struct TooLong;

impl<'a> Filling<'a> {
    /// Fills `space`.
    #[inline]
    pub(crate) fn new(space: &'a mut [MaybeUninit<u8>]) -> Filling<'a> {
        Filling { rest: space }
    }

    /// Returns how many bytes are still to be written.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`TooLong`] if they do not fit; nothing is copied then.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if bytes.len() > self.rest.len() {
            return Err(TooLong);
        }
        #[cfg(test)]
        count::add(bytes.len());
        // SAFETY: the destination has at least as many bytes (checked above), and is borrowed
        // mutably while `bytes` is borrowed, so that they do not overlap.
        unsafe { copy_short(bytes.as_ptr(), self.rest.as_mut_ptr().cast(), bytes.len()) };
        self.rest = &mut std::mem::take(&mut self.rest)[bytes.len()..];
        Ok(())
    }

    /// Appends every region, in order.
    ///
    /// # Errors
    /// [`TooLong`] at the first region that does not fit; those before it are copied.
    #[inline]
    pub fn append_all(&mut self, regions: &[IoSlice<'_>]) -> Result<(), TooLong> {
        match regions {
            [region] => self.append(region),
            all => self.append_each(all, usize::MAX).map(drop),
        }
    }

    /// Appends the regions in front of the first that has more than `most` bytes; returns their number.
    ///
    /// # Errors
    /// [`TooLong`] at the first of them that does not fit; those before it are copied.
    #[inline]
    pub(crate) fn append_short(
        &mut self,
        regions: &[IoSlice<'_>],
        most: usize,
    ) -> Result<usize, TooLong> {
        match regions {
            [region, ..] if region.len() > most => Ok(0),
            all => self.append_each(all, most),
        }
    }

    /// Appends the regions in front of the first that has more than `most` bytes. Out of line, so that the loop has
    /// all registers; uses AVX2 if available.
    #[inline(never)]
    fn append_each(&mut self, regions: &[IoSlice<'_>], most: usize) -> Result<usize, TooLong> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.append_each_avx2(regions, most) };
        }
        self.append_each_plainly(regions, most)
    }

    /// Runs the same code, compiled for registers of 32 bytes.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn append_each_avx2(&mut self, regions: &[IoSlice<'_>], most: usize) -> Result<usize, TooLong> {
        self.append_each_plainly(regions, most)
    }

    #[inline(always)]
    fn append_each_plainly(
        &mut self,
        regions: &[IoSlice<'_>],
        most: usize,
    ) -> Result<usize, TooLong> {
        let rest = std::mem::take(&mut self.rest);
        let mut done = 0;
        let mut result = Ok(regions.len());
        for (index, region) in regions.iter().enumerate() {
            if region.len() > most {
                result = Ok(index);
                break;
            }
            if region.len() > rest.len() - done {
                result = Err(TooLong);
                break;
            }
            #[cfg(test)]
            count::add(region.len());
            // SAFETY: `done` is at most the length.
            let to = unsafe { rest.as_mut_ptr().add(done) };
            // SAFETY: the destination has at least as many bytes left (checked above), and is
            // borrowed mutably while the region is borrowed, so that they do not overlap.
            unsafe { copy_short(region.as_ptr(), to.cast(), region.len()) };
            done += region.len();
        }
        self.rest = &mut rest[done..];
        result
    }

    /// Returns the memory still to be written, for a copy that `append` cannot do, such as from
    /// pointers that may be bad. Call [`assume_appended`](Self::assume_appended) afterwards.
    #[inline]
    pub fn unfilled(&mut self) -> &mut [MaybeUninit<u8>] {
        self.rest
    }

    /// Counts the first `count` bytes of [`unfilled`](Self::unfilled) as written.
    ///
    /// # Panics
    /// If fewer remain.
    ///
    /// # Safety
    /// These bytes have been initialised.
    #[inline]
    pub unsafe fn assume_appended(&mut self, count: usize) {
        self.rest = &mut std::mem::take(&mut self.rest)[count..];
    }
}

/// Counts the bytes that are copied into messages and packets.
#[cfg(test)]
pub(crate) mod count {
    use std::cell::Cell;

    thread_local! {
        static COPIED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn add(bytes: usize) {
        COPIED.set(COPIED.get() + bytes);
    }

    /// Returns the bytes that this thread copies while `run` runs.
    pub(crate) fn copied(run: impl FnOnce()) -> usize {
        let before = COPIED.get();
        run();
        COPIED.get() - before
    }
}

/// Copies like `memcpy`, without a call for up to 128 bytes: two overlapping loads from both ends and
/// two stores. In long lists of regions most regions are short.
///
/// # Safety
/// `from` may be read and `to` written for `length` bytes, and they do not overlap.
#[inline(always)]
unsafe fn copy_short(from: *const u8, to: *mut u8, length: usize) {
    /// Copies the first and the last `size_of::<T>()` bytes.
    ///
    /// # Safety
    /// As above, and `length` is at least `size_of::<T>()`.
    #[inline(always)]
    #[allow(clippy::multiple_unsafe_ops_per_block)]
    unsafe fn both_ends<T: Copy>(from: *const u8, to: *mut u8, length: usize) {
        let last = length - size_of::<T>();
        // SAFETY: the first `size_of::<T>()` bytes are within `length`.
        let head = unsafe { from.cast::<T>().read_unaligned() };
        // SAFETY: so are the last.
        let tail = unsafe { from.add(last).cast::<T>().read_unaligned() };
        // SAFETY: as the first read.
        unsafe { to.cast::<T>().write_unaligned(head) };
        // SAFETY: as the second read.
        unsafe { to.add(last).cast::<T>().write_unaligned(tail) };
    }
    // SAFETY: each length is at least the size of its type; the rest is the caller's promise.
    #[allow(clippy::multiple_unsafe_ops_per_block)]
    unsafe {
        match length {
            0 => {}
            1 => to.write(from.read()),
            2..=4 => both_ends::<[u8; 2]>(from, to, length),
            5..=8 => both_ends::<[u8; 4]>(from, to, length),
            9..=16 => both_ends::<[u8; 8]>(from, to, length),
            17..=32 => both_ends::<[u8; 16]>(from, to, length),
            33..=64 => both_ends::<[u8; 32]>(from, to, length),
            65..=128 => both_ends::<[u8; 64]>(from, to, length),
            _ => to.copy_from_nonoverlapping(from, length),
        }
    }
}

/// Copies `bytes` into the regions, each filled before the next; returns how many fitted.
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
    use std::io::{IoSlice, IoSliceMut};

    use super::{Filling, TooLong, scatter};

    #[test]
    fn appends_regions_of_every_length() {
        let source: Vec<u8> = (0..=255).collect();
        for length in 0..140 {
            let mut space = vec![std::mem::MaybeUninit::new(0xee); length + 1];
            let mut filling = Filling::new(&mut space);
            filling.append(&source[7..7 + length]).unwrap();
            assert_eq!(filling.remaining(), 1);
            assert!(filling.append(&source[..2]).is_err() && filling.remaining() == 1);
            // SAFETY: all were initialised when the vector was made.
            let bytes: Vec<u8> = space.iter().map(|b| unsafe { b.assume_init() }).collect();
            assert_eq!((&bytes[..length], bytes[length]), (&source[7..7 + length], 0xee));
        }
    }

    #[test]
    fn appends_regions_up_to_the_first_that_does_not_fit() {
        let source: Vec<u8> = (0..=255).collect();
        for length in 0..140 {
            let regions = [&source[1..1 + length], &source[3..3 + length], &source[..2]];
            let mut space = vec![std::mem::MaybeUninit::new(0xee); 2 * length + 1];
            let mut filling = Filling::new(&mut space);
            assert_eq!(filling.append_all(&regions.map(IoSlice::new)), Err(TooLong));
            assert_eq!(filling.remaining(), 1);
            filling.append_all(&[IoSlice::new(b"!"), IoSlice::new(b"")]).unwrap();
            // SAFETY: all were initialised when the vector was made.
            let bytes: Vec<u8> = space.iter().map(|b| unsafe { b.assume_init() }).collect();
            assert_eq!(bytes, [regions[0], regions[1], b"!"].concat());
        }
    }

    #[test]
    fn appends_regions_up_to_the_first_that_is_too_long_to_be_copied() {
        let source = [7; 300];
        for (lengths, most, taken) in [
            (vec![], 9, 0),
            (vec![10], 9, 0),
            (vec![9], 9, 1),
            (vec![0, 3, 0, 9, 10, 1], 9, 4),
            (vec![200, 100], 200, 2),
            (vec![100, 201], 200, 1),
        ] {
            let regions: Vec<_> = lengths.iter().map(|n| IoSlice::new(&source[..*n])).collect();
            let bytes: usize = lengths[..taken].iter().sum();
            let mut space = [const { std::mem::MaybeUninit::uninit() }; 300];
            let mut filling = Filling::new(&mut space[..bytes]);
            assert_eq!(filling.append_short(&regions, most), Ok(taken), "{lengths:?}");
            assert_eq!(filling.remaining(), 0);
            if bytes > 0 {
                let mut filling = Filling::new(&mut space[..bytes - 1]);
                assert_eq!(filling.append_short(&regions, most), Err(TooLong), "{lengths:?}");
            }
        }
    }

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
