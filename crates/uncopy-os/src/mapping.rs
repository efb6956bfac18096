//! File mappings that only system calls read.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use super::{Sys, last_errno};
use uncopy_core::Errno;

/// Pages of a file, mapped read-only and shared.
///
/// The bytes are not accessible to safe code: they may change at any time, and an access behind the end of
/// the file raises SIGBUS. System calls that read them return `EFAULT` instead.
pub struct Mapping {
    start: NonNull<libc::c_void>,
    length: usize,
}

impl Mapping {
    /// Maps `length` bytes from `offset`, a multiple of the page size.
    pub fn new(file: impl AsFd, offset: u64, length: usize) -> Sys<Mapping> {
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
        let fd = file.as_fd().as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that
        // anything else owns.
        let start = unsafe {
            let none = std::ptr::null_mut();
            libc::mmap(none, length, libc::PROT_READ, libc::MAP_SHARED, fd, offset)
        };
        if start == libc::MAP_FAILED {
            return Err(last_errno());
        }
        NonNull::new(start).map(|start| Mapping { start, length }).ok_or(Errno::EFAULT)
    }

    /// Writes `length` bytes, beginning `skip` bytes into the mapping, to `file` at `offset`. With `O_DIRECT` the
    /// device reads the mapped pages themselves.
    pub fn write_at(&self, skip: usize, length: usize, file: impl AsFd, offset: u64) -> Sys<usize> {
        if skip.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(Errno::EINVAL);
        }
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
        // SAFETY: `skip` lies inside the mapping, as checked above.
        let start = unsafe { self.start.as_ptr().byte_add(skip) };
        // SAFETY: the range lies inside the mapping, which lives as long as `self`; the kernel
        // reads it and answers EFAULT for pages behind the end of the file. The call returns only
        // when the device has read them (O_DIRECT writes wait).
        let n = unsafe { libc::pwrite(file.as_fd().as_raw_fd(), start, length, offset) };
        usize::try_from(n).map_err(|_| last_errno())
    }
}

/// Returns how many of a file's first `size` bytes are in the page cache (`mincore(2)`). Slower than
/// `cachestat(2)`, but available on every kernel. Since Linux 5.2 a user who neither owns the file nor may
/// write it sees all pages as resident.
pub fn resident_bytes(file: impl AsFd, size: u64) -> Sys<u64> {
    /// Bytes mapped at a time, a multiple of every page size.
    const WINDOW_BYTES: u64 = 256 << 20;
    let page = rustix::param::page_size() as u64;
    let mut pages = vec![0_u8; (WINDOW_BYTES.min(size.max(1)).div_ceil(page)) as usize];
    let (mut offset, mut resident) = (0, 0);
    while offset < size {
        let length = WINDOW_BYTES.min(size - offset);
        let window = Mapping::new(&file, offset, length as usize)?;
        // SAFETY: the mapping is `length` bytes long, and there is a byte for each of its pages;
        // both outlive the call, which writes the latter.
        let r = unsafe { libc::mincore(window.start.as_ptr(), window.length, pages.as_mut_ptr()) };
        if r != 0 {
            return Err(last_errno());
        }
        let count = length.div_ceil(page) as usize;
        resident += pages[..count].iter().filter(|page| **page & 1 != 0).count() as u64;
        offset += length;
    }
    Ok((resident * page).min(size))
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::cached_bytes;

    #[test]
    fn pages_are_counted_as_cachestat_counts_them() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[7; 100_000]).unwrap();
        assert_eq!(resident_bytes(&file, 100_000), Ok(100_000));
        assert_eq!(resident_bytes(&file, 0), Ok(0));
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        // Memory filesystems keep everything; old kernels lack cachestat.
        if let Ok(cached) = cached_bytes(&file, 0, 0) {
            assert_eq!(resident_bytes(&file, 100_000), Ok(cached.min(100_000)));
        }
    }
}
