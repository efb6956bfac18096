//! Memory files (`memfd_create(2)`), accessed by system calls only.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, memfd_create};

use super::{Sys, file};
use uncopy_core::Errno;

/// Seals that fix the size for every holder of the descriptor.
const FIXED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Creates a memory file of `size` zero bytes whose size cannot change. Close-on-exec; more seals can be
/// added.
pub fn create(size: u64) -> Sys<OwnedFd> {
    let fd = create_resizable(size)?;
    rustix::fs::fcntl_add_seals(&fd, FIXED)?;
    Ok(fd)
}

/// Creates a memory file of `size` zero bytes whose size can change. Close-on-exec; seals can be added.
pub fn create_resizable(size: u64) -> Sys<OwnedFd> {
    let fd = memfd_create("uncopy-vmo", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, size)?;
    Ok(fd)
}

/// Returns the size of a page, of which offsets of mappings are multiples.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Seals that fix size and contents for every holder of the descriptor.
const SEALED: SealFlags = FIXED.union(SealFlags::WRITE);

/// `HUGETLBFS_MAGIC` (`include/uapi/linux/magic.h`).
const HUGETLBFS: u32 = 0x9584_58f6;

/// Facts about a memory file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryFacts {
    /// Size in bytes.
    pub size: u64,
    /// Bytes up to its end that are allocated, in memory or swapped out. Reading any others allocates them at the cost
    /// of the reader. Those behind its end count too before Linux 6.5, and where a filter forbids `cachestat(2)`.
    pub allocated: u64,
    /// Whether size and contents are sealed.
    pub is_sealed: bool,
    /// Whether it consists of huge pages (`MFD_HUGETLB`).
    pub is_huge: bool,
    /// Whether it is a file of a mounted filesystem of memory, with a name there.
    pub has_name: bool,
}

/// Returns the facts about a memory file; `EINVAL` as for [`size`], also for secret memory
/// (`memfd_secret(2)`). The size is read after the seals, which cannot be removed.
pub fn facts(fd: impl AsFd) -> Sys<MemoryFacts> {
    let fd = fd.as_fd();
    let is_sealed = is_sealed(fd)?;
    // Before all blocks are counted: those that are freed in between are then missing, and none is counted too often.
    let behind = allocated_behind(fd, size(fd)?);
    let stat = rustix::fs::fstat(fd)?;
    // `st_blocks` has a unit of 512 bytes on every filesystem (`stat(2)`).
    let allocated = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    Ok(MemoryFacts {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        allocated: allocated.saturating_sub(behind),
        is_sealed,
        is_huge: rustix::fs::fstatfs(fd)?.f_type as u32 == HUGETLBFS,
        has_name: stat.st_nlink > 0,
    })
}

/// Returns the bytes that are allocated behind the end, as far as the kernel says: its owner can free them, although the
/// size is sealed (`shmem_setattr` in `mm/shmem.c`). `lseek(2)` and `ftruncate(2)` would be a way too, but wait for a lock
/// that another process can hold for as long as it likes.
fn allocated_behind(fd: BorrowedFd<'_>, size: u64) -> u64 {
    let pages = match file::memory_pages_from(fd, size.next_multiple_of(page_bytes())) {
        Ok(pages) => pages,
        // Its owner withholds it; a filter would answer so for any descriptor.
        Err(Errno::EPERM) if file::memory_pages_from(rustix::fs::CWD, 0) == Err(Errno::EBADF) => {
            return u64::MAX;
        }
        Err(_) => 0,
    };
    pages.saturating_mul(page_bytes())
}

/// Whether size and contents are sealed; `EINVAL` as for [`size`].
pub fn is_sealed(fd: impl AsFd) -> Sys<bool> {
    Ok(rustix::fs::fcntl_get_seals(fd)?.contains(SEALED))
}

/// Seals size and contents. `EBUSY`: a writable mapping exists, or a device or pipe holds pages; `EPERM`: the file
/// takes no more seals.
pub fn seal(fd: impl AsFd) -> Sys<()> {
    Ok(rustix::fs::fcntl_add_seals(fd, SEALED)?)
}

/// Seals size and contents against every process but those that have mapped it for writing already (Linux 5.1).
pub fn seal_future_writes(fd: impl AsFd) -> Sys<()> {
    Ok(rustix::fs::fcntl_add_seals(fd, FIXED | SealFlags::FUTURE_WRITE)?)
}

/// Whether the size is sealed; `EINVAL` as for [`size`].
pub fn is_fixed(fd: impl AsFd) -> Sys<bool> {
    Ok(rustix::fs::fcntl_get_seals(fd)?.contains(FIXED))
}

/// Truncates, or extends with zero bytes.
pub fn resize(fd: impl AsFd, size: u64) -> Sys<()> {
    Ok(rustix::fs::ftruncate(fd, size)?)
}

/// Allocates a range now, so that later writes to it do not fail with `ENOSPC` or `ENOMEM`.
pub fn reserve(fd: impl AsFd, offset: u64, length: u64) -> Sys<()> {
    Ok(rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, offset, length)?)
}

/// Zeroes a range and frees its whole pages.
pub fn zero(fd: impl AsFd, offset: u64, length: u64) -> Sys<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(fd, flags, offset, length)?)
}

/// Returns the size; `EINVAL` for a file that is not a memory file, which has no seals (`fcntl(2)`,
/// `F_GET_SEALS`).
pub fn size(fd: impl AsFd) -> Sys<u64> {
    rustix::fs::fcntl_get_seals(&fd)?;
    Ok(u64::try_from(rustix::fs::fstat(fd)?.st_size).unwrap_or(0))
}

/// Fills `bytes` from `offset` on; `EIO` if the file ends before.
pub fn read_exact_at(fd: impl AsFd, bytes: &mut [u8], offset: u64) -> Sys<()> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pread(&fd, &mut bytes[done..], offset + done as u64)? {
            0 => return Err(Errno::EIO),
            n => done += n,
        }
    }
    Ok(())
}

/// Writes all of `bytes` at `offset`.
pub fn write_all_at(fd: impl AsFd, bytes: &[u8], offset: u64) -> Sys<()> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pwrite(&fd, &bytes[done..], offset + done as u64)? {
            0 => return Err(Errno::EIO),
            n => done += n,
        }
    }
    Ok(())
}
