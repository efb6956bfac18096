//! Pools of equal slices. A ring registers a pool with the kernel once, instead of having the kernel look
//! up the pages of every send.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uncopy_core::{Error, Reason, Result};
use uncopy_os::Sys;
use uncopy_os::anonymous::{Anonymous, HUGE_PAGE_BYTES};
use uncopy_os::fork::Generation;

/// Maximum size of a registered buffer (`io_buffer_validate` in `io_uring/rsrc.c`).
const MAX_POOL_BYTES: usize = 1 << 30;

/// Alignment of slices: a base page, so that no two slices share one.
const SLICE_ALIGN: usize = 4096;

/// The page size that a pool asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageSize {
    /// Huge pages where they are available, otherwise base pages.
    #[default]
    HugeIfPossible,
    /// Base pages.
    Base,
}

/// The pages that a pool has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pages {
    /// Huge pages of 2 MiB from the administrator's reserve (`vm.nr_hugepages`).
    Reserved,
    /// Huge pages of 2 MiB that the kernel assembled when the pool was made (transparent huge pages). It
    /// may split them later when memory is short; registering the pool pins them.
    Transparent,
    /// Base pages.
    Base {
        /// Why the pages are not huge.
        reason: String,
    },
}

impl Pages {
    /// Returns whether the pages are huge.
    #[must_use]
    pub const fn are_huge(&self) -> bool {
        matches!(self, Pages::Reserved | Pages::Transparent)
    }
}

/// Memory divided into equal slices. A slice can be taken, filled and sent, and returns to the pool when it
/// is dropped. A clone is another handle to the same pool.
///
/// The memory lives as long as the pool, any of its slices, or any ring that it is registered with.
///
/// ```
/// use uncopy::send::{PageSize, Pool};
/// let pool = Pool::new(16, 8000, PageSize::HugeIfPossible)?;
/// let mut slice = pool.take().expect("sixteen are free");
/// slice[..5].copy_from_slice(b"hello");
/// slice.truncate(5);
/// assert_eq!(&*slice, b"hello");
/// # Ok::<(), uncopy::Error>(())
/// ```
#[derive(Clone)]
pub struct Pool {
    memory: Arc<Memory>,
}

struct Memory {
    mapping: Anonymous,
    slice_bytes: usize,
    stride: usize,
    pages: Pages,
    free: Mutex<Vec<u32>>,
    generation: Generation,
}

impl Memory {
    #[inline]
    fn is_inherited(&self) -> bool {
        self.generation != Generation::current()
    }

    /// Locks the indices of free slices. A panic while the lock was held cannot have left them inconsistent.
    #[inline]
    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Makes a pool of `slices` slices of `slice_bytes` zeroed bytes each.
    ///
    /// # Errors
    /// Either number is zero, the pool would be larger than 1 GiB with each slice rounded up to 4 KiB, or
    /// there is not enough memory.
    pub fn new(slices: usize, slice_bytes: usize, pages: PageSize) -> Result<Pool> {
        let subject = || format!("a pool of {slices} slices of {slice_bytes} bytes");
        let refused = |why: &str| Error::new("make", subject(), Reason::Refused(why.into()));
        if slices == 0 || slice_bytes == 0 {
            return Err(refused("the pool would be empty; ask for at least one slice of one byte"));
        }
        let stride = slice_bytes.checked_next_multiple_of(SLICE_ALIGN);
        let length = stride.and_then(|stride| stride.checked_mul(slices));
        let (Some(stride), Some(length)) = (stride, length.filter(|all| *all <= MAX_POOL_BYTES))
        else {
            return Err(refused("a pool can have up to 1 GiB; make several"));
        };
        let (mapping, pages) =
            map(length, pages).map_err(|errno| Error::network("make", subject(), errno))?;
        // The number fits: 1 GiB has at most 2¹⁸ slices of 4 KiB.
        let free = (0..slices as u32).rev().collect();
        let (free, generation) = (Mutex::new(free), Generation::current());
        let memory = Memory { mapping, slice_bytes, stride, pages, free, generation };
        Ok(Pool { memory: Arc::new(memory) })
    }

    /// Takes a whole slice; it has the bytes that were last written to it. `None`: all slices are taken, or
    /// the pool belongs to the process that forked this one.
    #[must_use]
    pub fn take(&self) -> Option<PoolSlice> {
        if self.is_inherited() {
            return None;
        }
        let index = self.memory.free().pop()?;
        let length = self.memory.slice_bytes;
        Some(PoolSlice { memory: self.memory.clone(), index, length })
    }

    /// Returns the number of slices that can be taken now.
    #[must_use]
    pub fn free_slices(&self) -> usize {
        if self.is_inherited() {
            return 0;
        }
        self.memory.free().len()
    }

    /// Returns the number of bytes of each slice.
    #[must_use]
    pub fn slice_bytes(&self) -> usize {
        self.memory.slice_bytes
    }

    /// Returns the pages of the pool, and why they are not huge.
    #[must_use]
    pub fn pages(&self) -> &Pages {
        &self.memory.pages
    }

    /// Returns whether the pool belongs to the process that forked this one. Another thread of that process
    /// may have held its lock.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.memory.is_inherited()
    }

    /// Returns the start of the whole memory.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.memory.mapping.start()
    }

    /// Returns the length of the whole memory.
    pub(crate) fn length(&self) -> usize {
        self.memory.mapping.length()
    }

    /// Returns whether `other` is a handle to the same pool.
    pub(crate) fn is(&self, other: &Pool) -> bool {
        Arc::ptr_eq(&self.memory, &other.memory)
    }

    /// Returns whether `slice` belongs to this pool.
    pub(crate) fn owns(&self, slice: &PoolSlice) -> bool {
        Arc::ptr_eq(&self.memory, &slice.memory)
    }
}

/// Maps the memory, with huge pages if they are wanted and available.
fn map(length: usize, pages: PageSize) -> Sys<(Anonymous, Pages)> {
    let base = |reason: String| -> Sys<(Anonymous, Pages)> {
        let mut mapping = Anonymous::new(length)?;
        mapping.keep_base_pages();
        Ok((mapping, Pages::Base { reason }))
    };
    if pages == PageSize::Base {
        return base("not requested".to_owned());
    }
    let huge = length.next_multiple_of(HUGE_PAGE_BYTES);
    let reserve = match Anonymous::huge(huge) {
        Ok(mapping) => return Ok((mapping, Pages::Reserved)),
        Err(errno) => errno,
    };
    let mut mapping = match Anonymous::aligned(huge) {
        Ok(mapping) => mapping,
        Err(errno) => return base(format!("{} ({errno})", errno.message())),
    };
    match mapping.collapse() {
        Ok(()) => Ok((mapping, Pages::Transparent)),
        Err(errno) => {
            let reason = format!(
                "vm.nr_hugepages leaves none ({reserve}), and none could be assembled ({errno})"
            );
            // A part of the mapping may be in huge pages.
            drop(mapping);
            base(reason)
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("slice_bytes", &self.slice_bytes())
            .field("free_slices", &self.free_slices())
            .field("pages", self.pages())
            .finish()
    }
}

/// A slice of a [`Pool`], owned until it is dropped.
pub struct PoolSlice {
    memory: Arc<Memory>,
    index: u32,
    length: usize,
}

impl PoolSlice {
    /// Shortens the slice to its first `length` bytes; does nothing if it is shorter already.
    /// [`reset`](Self::reset) restores the full length.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Restores the full length.
    pub fn reset(&mut self) {
        self.length = self.memory.slice_bytes;
    }

    /// Returns whether the slice is part of a huge page.
    pub(crate) fn is_huge(&self) -> bool {
        self.memory.pages.are_huge()
    }

    fn start(&self) -> NonNull<u8> {
        let offset = self.index as usize * self.memory.stride;
        // SAFETY: the index is below the number of slices, so the slice is inside the mapping.
        unsafe { self.memory.mapping.start().add(offset) }
    }
}

impl Deref for PoolSlice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: these are `length` bytes of the pool, zeroed when it was made. They belong to this slice
        // only, until its drop puts its index back.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.length) }
    }
}

impl DerefMut for PoolSlice {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.length) }
    }
}

impl Drop for PoolSlice {
    fn drop(&mut self) {
        if self.memory.is_inherited() {
            return;
        }
        self.memory.free().push(self.index);
    }
}

impl fmt::Debug for PoolSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolSlice({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::{PageSize, Pages, Pool};

    #[test]
    fn slices_are_separate_and_return_to_the_pool() {
        for pages in [PageSize::Base, PageSize::HugeIfPossible] {
            let pool = Pool::new(3, 5000, pages).unwrap();
            let mut slices: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
            assert_eq!((slices.len(), pool.free_slices()), (3, 0));
            for (slice, byte) in slices.iter_mut().zip(1..) {
                assert!(slice.iter().all(|b| *b == 0) && slice.len() == 5000);
                slice.fill(byte);
            }
            for (slice, byte) in slices.iter().zip(1..) {
                assert!(slice.iter().all(|b| *b == byte));
                assert_eq!(slice.as_ptr() as usize % 4096, 0);
            }
            slices.truncate(1);
            assert_eq!(pool.free_slices(), 2);
            drop(pool);
            assert!(slices[0].iter().all(|b| *b == 1), "a slice keeps the memory");
        }
    }

    #[test]
    fn a_slice_is_truncated_and_reset() {
        let pool = Pool::new(1, 100, PageSize::Base).unwrap();
        let mut slice = pool.take().unwrap();
        slice.truncate(7);
        slice.truncate(9);
        assert_eq!(slice.len(), 7);
        slice.reset();
        assert_eq!(slice.len(), 100);
    }

    #[test]
    fn the_kind_of_pages_is_reported() {
        let base = Pool::new(1, 1, PageSize::Base).unwrap();
        assert_eq!(*base.pages(), Pages::Base { reason: "not requested".to_owned() });
        let pool = Pool::new(512, 8192, PageSize::HugeIfPossible).unwrap();
        if pool.pages().are_huge() {
            assert!(huge_kilobytes(&pool) >= 4096, "{:?}", pool.pages());
        }
    }

    /// Returns the huge pages of the mapping that holds the pool, from `/proc/self/smaps`.
    fn huge_kilobytes(pool: &Pool) -> u64 {
        let start = pool.start().as_ptr() as u64;
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        let mut found = 0;
        for line in smaps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
            if let Some((from, to)) =
                range.and_then(|(a, b)| Some((hexadecimal(a)?, hexadecimal(b)?)))
            {
                inside = (from..to).contains(&start);
            }
            let kinds = ["AnonHugePages:", "Private_Hugetlb:"];
            if inside && kinds.iter().any(|kind| line.starts_with(kind)) {
                found += line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
            }
        }
        found
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (slices, bytes) in
            [(0, 1), (1, 0), (2, 1 << 30), (usize::MAX, 2), (1, usize::MAX), (262_145, 1)]
        {
            let error = Pool::new(slices, bytes, PageSize::Base).unwrap_err();
            assert!(error.to_string().contains(';'), "{error}");
        }
    }
}
