//! Memory files (`memfd_create(2)`), accessed by system calls only.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, memfd_create};

use super::Sys;
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
