//! Anonymous memory in whole pages (`mmap(2)`, `MAP_ANONYMOUS`).

use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::{Sys, last_errno};
use uncopy_core::Errno;

/// `include/uapi/asm-generic/mman-common.h`; the `libc` crate has it for the GNU C library only.
const MADV_COLLAPSE: libc::c_int = 25;

/// Size of a huge page on x86-64, and on aarch64 with base pages of 4 KiB.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Smallest base page of any architecture.
const PAGE_BYTES: usize = 4096;

/// Private, writable memory, initially zero.
pub struct Anonymous {
    start: NonNull<u8>,
    length: usize,
}

impl Anonymous {
    /// Maps `length` bytes of base pages; `length` is a multiple of the page size.
    pub fn new(length: usize) -> Sys<Anonymous> {
        Self::map(length, MapFlags::PRIVATE)
    }

    /// Maps `length` bytes of huge pages from the pool that the administrator reserved (`vm.nr_hugepages`);
    /// `length` is a multiple of [`HUGE_PAGE_BYTES`]. `ENOMEM`: the pool has fewer.
    pub fn huge(length: usize) -> Sys<Anonymous> {
        let huge = MapFlags::HUGETLB | MapFlags::HUGE_2MB | MapFlags::POPULATE;
        Self::map(length, MapFlags::PRIVATE | huge)
    }

    /// Maps `length` bytes aligned to [`HUGE_PAGE_BYTES`]; `length` is a multiple of it.
    pub fn aligned(length: usize) -> Sys<Anonymous> {
        let room = length.checked_add(HUGE_PAGE_BYTES).ok_or(Errno::ENOMEM)?;
        let whole = Self::new(room)?;
        let skip = whole.start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let whole = std::mem::ManuallyDrop::new(whole);
        // SAFETY: `skip` is below HUGE_PAGE_BYTES, so that `length` more bytes are inside too.
        let start = unsafe { whole.start.add(skip) };
        let head = Anonymous { start: whole.start, length: skip };
        // SAFETY: this is the end of the part that is kept, inside or at the end of the whole mapping.
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

    /// Replaces base pages by huge pages (`madvise(2)`, `MADV_COLLAPSE`, Linux 6.1). `Ok`: every page is part of
    /// a huge page now. The kernel must not hold references to the memory yet.
    pub fn collapse(&mut self) -> Sys<()> {
        let start = self.start.as_ptr().cast();
        // SAFETY: the advice concerns this value's mapping and changes no byte of it.
        unsafe { madvise(start, self.length, Advice::LinuxHugepage) }?;
        for at in (0..self.length).step_by(PAGE_BYTES) {
            // SAFETY: inside the mapping.
            let byte = unsafe { self.start.add(at) };
            // SAFETY: the byte is writable, and `&mut self` makes this the only access. The write is
            // volatile, so that it really faults the page in.
            unsafe { byte.write_volatile(0) };
        }
        // SAFETY: as for the first advice.
        match unsafe { libc::madvise(start, self.length, MADV_COLLAPSE) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    /// Prevents huge pages, also where the kernel uses them by default
    /// (`/sys/kernel/mm/transparent_hugepage/enabled`).
    pub fn keep_base_pages(&mut self) {
        // SAFETY: as above. A kernel without huge pages refuses the advice and does not need it.
        let _ =
            unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxNoHugepage) };
    }

    /// Returns a pointer to the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: the range is this mapping's own, and nothing refers to it any more.
            let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
            debug_assert!(unmapped.is_ok(), "munmap of an existing mapping");
        }
    }
}

// SAFETY: it owns its memory alone, like a `Vec<u8>`.
unsafe impl Send for Anonymous {}
// SAFETY: `&Anonymous` gives an address and a length, and no access.
unsafe impl Sync for Anonymous {}
