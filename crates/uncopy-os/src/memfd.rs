//! Memory behind a descriptor (`memfd_create(2)`), read and written by system calls alone.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, memfd_create};

use super::Sys;
use uncopy_core::Errno;

/// What keeps a size as it is, whoever has the descriptor.
const FIXED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// New memory of `size` zero bytes, for good. Close-on-exec, may be sealed further.
pub fn create(size: u64) -> Sys<OwnedFd> {
    let fd = create_resizable(size)?;
    rustix::fs::fcntl_add_seals(&fd, FIXED)?;
    Ok(fd)
}

/// New memory of `size` zero bytes, whose size can change. Close-on-exec, may be sealed.
pub fn create_resizable(size: u64) -> Sys<OwnedFd> {
    let fd = memfd_create("uncopy-vmo", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, size)?;
    Ok(fd)
}

/// Nobody can change the size of what must be such memory; `EINVAL` as for [`size`].
pub fn is_fixed(fd: impl AsFd) -> Sys<bool> {
    Ok(rustix::fs::fcntl_get_seals(fd)?.contains(FIXED))
}

/// Makes it longer, with zero bytes, or shorter.
pub fn resize(fd: impl AsFd, size: u64) -> Sys<()> {
    Ok(rustix::fs::ftruncate(fd, size)?)
}

/// Has the kernel provide for a range now, so that writing there does not fail for want of memory.
pub fn reserve(fd: impl AsFd, offset: u64, length: u64) -> Sys<()> {
    Ok(rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, offset, length)?)
}

/// Zeroes a range, and gives back the whole pages in it.
pub fn zero(fd: impl AsFd, offset: u64, length: u64) -> Sys<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(fd, flags, offset, length)?)
}

/// Bytes of what must be such memory: `EINVAL` for every other file, which has no seals
/// (`fcntl(2)`, `F_GET_SEALS`).
pub fn size(fd: impl AsFd) -> Sys<u64> {
    rustix::fs::fcntl_get_seals(&fd)?;
    Ok(u64::try_from(rustix::fs::fstat(fd)?.st_size).unwrap_or(0))
}

/// Fills `bytes` from `offset` on; `EIO` if the memory ends before.
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
