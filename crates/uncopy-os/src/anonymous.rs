//! Memory of no file, in whole pages (`mmap(2)`, `MAP_ANONYMOUS`).

use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::{Sys, last_errno};
use uncopy_core::Errno;

/// The size of a huge page on x86-64, and on aarch64 with base pages of 4 KiB.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Base pages are no smaller on any architecture.
const PAGE_BYTES: usize = 4096;

/// Zeroed pages of this process, private and writable.
pub struct Anonymous {
    start: NonNull<u8>,
    length: usize,
}

impl Anonymous {
    /// `length` bytes of base pages; `length` is a multiple of the page size.
    pub fn new(length: usize) -> Sys<Anonymous> {
        Self::map(length, MapFlags::PRIVATE)
    }

    /// `length` bytes of huge pages from the reserve that the administrator made
    /// (`vm.nr_hugepages`); `length` is a multiple of [`HUGE_PAGE_BYTES`]. `ENOMEM`: not so many.
    pub fn huge(length: usize) -> Sys<Anonymous> {
        let huge = MapFlags::HUGETLB | MapFlags::HUGE_2MB | MapFlags::POPULATE;
        Self::map(length, MapFlags::PRIVATE | huge)
    }

    /// `length` bytes that begin at a multiple of [`HUGE_PAGE_BYTES`], as `length` is one.
    pub fn aligned(length: usize) -> Sys<Anonymous> {
        let room = length.checked_add(HUGE_PAGE_BYTES).ok_or(Errno::ENOMEM)?;
        let whole = Self::new(room)?;
        let skip = whole.start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let whole = std::mem::ManuallyDrop::new(whole);
        // SAFETY: `skip` is below HUGE_PAGE_BYTES, so that `length` more bytes are inside too.
        let start = unsafe { whole.start.add(skip) };
        let head = Anonymous { start: whole.start, length: skip };
        // SAFETY: the end of the part that is kept, which is inside or at the end of the whole.
        let behind = unsafe { start.add(length) };
        let tail = Anonymous { start: behind, length: HUGE_PAGE_BYTES - skip };
        drop((head, tail));
        Ok(Anonymous { start, length })
    }

    fn map(length: usize, flags: MapFlags) -> Sys<Anonymous> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that
        // anything else owns.
        let start = unsafe { mmap_anonymous(null_mut(), length, access, flags) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::EFAULT)?;
        Ok(Anonymous { start, length })
    }

    /// Has the kernel put huge pages behind it, as far as it can (`madvise(2)`, `MADV_COLLAPSE`,
    /// Linux 6.1). `Ok`: every page is part of one now. Nobody else may refer to the memory yet.
    pub fn collapse(&mut self) -> Sys<()> {
        let start = self.start.as_ptr().cast();
        // SAFETY: advice about a mapping of our own, which changes no byte of it.
        unsafe { madvise(start, self.length, Advice::LinuxHugepage) }?;
        for at in (0..self.length).step_by(PAGE_BYTES) {
            // SAFETY: inside the mapping.
            let byte = unsafe { self.start.add(at) };
            // SAFETY: writable, and `&mut self` makes it nobody else's. Volatile: only that it
            // happens counts.
            unsafe { byte.write_volatile(0) };
        }
        // SAFETY: as for the first advice.
        match unsafe { libc::madvise(start, self.length, libc::MADV_COLLAPSE) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    /// Has the kernel put no huge pages behind it, also where it does so unasked
    /// (`/sys/kernel/mm/transparent_hugepage/enabled`).
    pub fn keep_base_pages(&mut self) {
        // SAFETY: as above. A kernel without huge pages refuses, and needs no telling.
        let _ =
            unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxNoHugepage) };
    }

    /// The first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: the range is this mapping's own, and nothing refers to it any more.
            let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
            debug_assert!(unmapped.is_ok(), "an own mapping");
        }
    }
}

// SAFETY: it owns its memory alone, like a `Vec<u8>`.
unsafe impl Send for Anonymous {}
// SAFETY: `&Anonymous` gives an address and a length, and no access.
unsafe impl Sync for Anonymous {}
