//! File mappings that only system calls access, and mappings of sealed memory files.

use std::ops::{Deref, Range};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use super::{Sys, last_errno, memfd};
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
        Mapping::with(file, offset, length, libc::PROT_READ, libc::MAP_SHARED)
    }

    fn with(
        file: impl AsFd,
        offset: u64,
        length: usize,
        access: libc::c_int,
        flags: libc::c_int,
    ) -> Sys<Mapping> {
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
        let fd = file.as_fd().as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that
        // anything else owns.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(last_errno());
        }
        NonNull::new(start).map(|start| Mapping { start, length }).ok_or(Errno::EFAULT)
    }

    /// Returns the address of the byte after the first `skip`, if `length` bytes from there are mapped.
    fn part(&self, skip: usize, length: usize) -> Sys<*mut libc::c_void> {
        if skip.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: `skip` lies inside the mapping, as checked above.
        Ok(unsafe { self.start.as_ptr().byte_add(skip) })
    }

    /// Writes `length` bytes, beginning `skip` bytes into the mapping, to `file` at `offset`. With `O_DIRECT` the
    /// device reads the mapped pages themselves.
    pub fn write_at(&self, skip: usize, length: usize, file: impl AsFd, offset: u64) -> Sys<usize> {
        let start = self.part(skip, length)?;
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
        // SAFETY: the range lies inside the mapping, which lives as long as `self`; the kernel
        // reads it and answers EFAULT for pages behind the end of the file. The call returns only
        // when the device has read them (O_DIRECT writes wait).
        let n = unsafe { libc::pwrite(file.as_fd().as_raw_fd(), start, length, offset) };
        usize::try_from(n).map_err(|_| last_errno())
    }
}

/// A sealed memory file, mapped: bytes that no process can change any more.
///
/// A page that the kernel has lost (memory failure), or a page that is not allocated and for which there is no memory,
/// raises SIGBUS on access.
pub struct SealedMapping {
    /// Missing for memory of no size.
    mapping: Option<Mapping>,
}

impl SealedMapping {
    /// Maps all of a memory file. `EPERM`: its size and contents are not sealed; `EINVAL`: it is not a memory file.
    pub fn new(file: impl AsFd) -> Sys<SealedMapping> {
        if !memfd::is_sealed(&file)? {
            return Err(Errno::EPERM);
        }
        let length = usize::try_from(memfd::size(&file)?).map_err(|_| Errno::ENOMEM)?;
        if length == 0 {
            return Ok(SealedMapping { mapping: None });
        }
        // Private, because kernels before 6.7 refuse a shared mapping of memory that is sealed against writing.
        let mapping = Mapping::with(file, 0, length, libc::PROT_READ, libc::MAP_PRIVATE)?;
        Ok(SealedMapping { mapping: Some(mapping) })
    }
}

impl Deref for SealedMapping {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let Some(Mapping { start, length }) = &self.mapping else { return &[] };
        // SAFETY: `length` bytes are mapped as long as `self` lives, and are no more than the file has. No
        // process can write to them: F_SEAL_WRITE was set before, which the kernel refuses while a writable
        // mapping or another reference to a page exists, and after which it refuses every new one; nor can
        // the file become shorter (F_SEAL_SHRINK). Seals cannot be removed (`fcntl(2)`).
        unsafe { std::slice::from_raw_parts(start.as_ptr().cast(), *length) }
    }
}

// SAFETY: it owns its mapping alone, and nobody writes to the memory.
unsafe impl Send for SealedMapping {}
// SAFETY: as above.
unsafe impl Sync for SealedMapping {}

/// Pages of a memory file of fixed size, which other processes may have mapped too.
///
/// The bytes are not accessible to safe code, because another process may write to them at any time.
pub struct SharedMapping {
    mapping: Mapping,
    is_writable: bool,
}

impl SharedMapping {
    /// Maps the first `length` bytes, which are not 0. `EINVAL`: the file is shorter, or its size is not sealed.
    pub fn new(memory: impl AsFd, length: usize, is_writable: bool) -> Sys<SharedMapping> {
        if !memfd::is_fixed(&memory)? || memfd::size(&memory)? < length as u64 {
            return Err(Errno::EINVAL);
        }
        let access = if is_writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let mapping = Mapping::with(memory, 0, length, access, libc::MAP_SHARED)?;
        Ok(SharedMapping { mapping, is_writable })
    }

    /// Returns a pointer to the first byte, at the beginning of a page.
    pub fn start(&self) -> NonNull<u8> {
        self.mapping.start.cast()
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.mapping.length
    }

    /// Whether this mapping may be written to.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }
}

// SAFETY: it owns its mapping alone; the bytes belong to nobody.
unsafe impl Send for SharedMapping {}
// SAFETY: `&SharedMapping` gives an address and a length, and no access.
unsafe impl Sync for SharedMapping {}

/// Writable pages of a file that only system calls access.
pub struct WritableWindow(Mapping);

impl WritableWindow {
    /// Maps `length` bytes from `offset`, a multiple of the page size, shared and writable.
    pub fn new(file: impl AsFd, offset: u64, length: usize) -> Sys<WritableWindow> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        Mapping::with(file, offset, length, access, libc::MAP_SHARED).map(WritableWindow)
    }

    /// Reads from `source` at its file offset, or what a socket has received, into at most `length` bytes that begin
    /// `skip` bytes into the window.
    pub fn read_from(&self, skip: usize, length: usize, source: impl AsFd) -> Sys<usize> {
        let start = self.0.part(skip, length)?;
        // SAFETY: the range lies inside the mapping, which lives as long as `self`, and to which no
        // reference exists; the kernel writes it and answers EFAULT for pages behind the end of the file.
        let n = unsafe { libc::read(source.as_fd().as_raw_fd(), start, length) };
        usize::try_from(n).map_err(|_| last_errno())
    }
}

/// Returns how many bytes of a file's range, which begins with a page, are in the page cache (`mincore(2)`). Slower than
/// `cachestat(2)`, but available on every kernel, and it looks where a file's pages are that another filesystem keeps
/// (overlayfs). Since Linux 5.2 a user who neither owns the file nor may write it sees all pages as resident.
pub fn resident_bytes(file: impl AsFd, range: Range<u64>) -> Sys<u64> {
    /// Bytes mapped at a time, a multiple of every page size.
    const WINDOW_BYTES: u64 = 256 << 20;
    let page = rustix::param::page_size() as u64;
    let size = range.end.saturating_sub(range.start);
    let mut pages = vec![0_u8; (WINDOW_BYTES.min(size.max(1)).div_ceil(page)) as usize];
    let (mut offset, mut resident) = (range.start, 0);
    while offset < range.end {
        let length = WINDOW_BYTES.min(range.end - offset);
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
    fn only_sealed_memory_is_lent() {
        let memory = memfd::create(8192).unwrap();
        memfd::write_all_at(&memory, b"end", 8189).unwrap();
        assert_eq!(SealedMapping::new(&memory).err(), Some(Errno::EPERM));
        let window = WritableWindow::new(&memory, 0, 8192).unwrap();
        assert_eq!(memfd::seal(&memory), Err(Errno::EBUSY));
        let source = tempfile::tempfile().unwrap();
        assert_eq!(window.read_from(8000, 193, &source), Err(Errno::EINVAL));
        drop(window);
        memfd::seal(&memory).unwrap();
        let mapping = SealedMapping::new(&memory).unwrap();
        assert_eq!(memfd::write_all_at(&memory, b"x", 0), Err(Errno::EPERM));
        assert!(WritableWindow::new(&memory, 0, 4096).is_err());
        drop(memory);
        assert_eq!((mapping.len(), &mapping[8188..]), (8192, &b"\0end"[..]));
        let empty = memfd::create(0).unwrap();
        memfd::seal(&empty).unwrap();
        assert!(SealedMapping::new(&empty).unwrap().is_empty());
        assert_eq!(SealedMapping::new(source).err(), Some(Errno::EINVAL));
    }

    #[test]
    fn pages_are_counted_as_cachestat_counts_them() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[7; 100_000]).unwrap();
        assert_eq!(resident_bytes(&file, 0..100_000), Ok(100_000));
        assert_eq!(resident_bytes(&file, 65_536..100_000), Ok(34_464));
        assert_eq!(resident_bytes(&file, 0..0), Ok(0));
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        // Memory filesystems keep everything; old kernels lack cachestat.
        if let Ok(cached) = cached_bytes(&file, 0, 0) {
            assert_eq!(resident_bytes(&file, 0..100_000), Ok(cached.min(100_000)));
        }
    }
}
