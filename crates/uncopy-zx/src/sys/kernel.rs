//! Copies by the kernel, which returns `EFAULT` for a bad address.
//!
//! Uses `process_vm_readv(2)` on the process itself, which needs no privilege. If a seccomp filter
//! forbids it, copies through a memfd: slower, but with calls that filters have to allow.

use std::os::fd::{AsRawFd, OwnedFd};

use libc::{c_void, iovec};

use super::fault::Fault;

/// Copies from an address that may be bad.
///
/// # Safety
/// `to` may be written for `length` bytes.
pub(super) unsafe fn copy_in(to: *mut u8, from: *const u8, length: usize) -> Result<(), Fault> {
    let here = iovec { iov_base: to.cast(), iov_len: length };
    let there = iovec { iov_base: from.cast_mut().cast(), iov_len: length };
    // SAFETY: only returns a number.
    let process = unsafe { libc::getpid() };
    // SAFETY: the caller's promise for `here`; the kernel checks both.
    let count =
        unsafe { libc::process_vm_readv(process, &raw const here, 1, &raw const there, 1, 0) };
    if is_forbidden(count) {
        // SAFETY: the caller's promise.
        return unsafe { file_copy_in(to, from, length) };
    }
    all_of(count, length)
}

/// Copies to an address that may be bad.
///
/// # Safety
/// Any writable memory at `to` may be overwritten.
pub(super) unsafe fn copy_out(to: *mut u8, bytes: &[u8]) -> Result<(), Fault> {
    let here = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let there = iovec { iov_base: to.cast(), iov_len: bytes.len() };
    // SAFETY: only returns a number.
    let process = unsafe { libc::getpid() };
    // SAFETY: the kernel only reads `here` and checks `there`, which may be overwritten.
    let count =
        unsafe { libc::process_vm_writev(process, &raw const here, 1, &raw const there, 1, 0) };
    if is_forbidden(count) {
        // SAFETY: the caller's promise.
        return unsafe { file_copy_out(to, bytes) };
    }
    all_of(count, bytes.len())
}

/// Whether the call failed for a reason other than an address.
fn is_forbidden(count: isize) -> bool {
    count < 0 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}

fn all_of(count: isize, length: usize) -> Result<(), Fault> {
    if usize::try_from(count) == Ok(length) { Ok(()) } else { Err(Fault) }
}

/// Makes a file to copy through. It is new for each copy, so that threads share none and no data stays.
/// If descriptors have run out, the address counts as bad.
fn temporary_file() -> Result<OwnedFd, Fault> {
    use rustix::fs::{MemfdFlags, memfd_create};
    memfd_create("uncopy-zx-copy", MemfdFlags::CLOEXEC).map_err(|_| Fault)
}

/// Calls `step` with the offset until it has moved `length` bytes.
fn repeat(length: usize, step: impl Fn(usize) -> isize) -> Result<(), Fault> {
    let mut done = 0;
    while done < length {
        match usize::try_from(step(done)) {
            Ok(0) => return Err(Fault),
            Ok(count) => done += count,
            Err(_) if is_interrupted() => {}
            Err(_) => return Err(Fault),
        }
    }
    Ok(())
}

fn is_interrupted() -> bool {
    std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
}

/// Writes to the file from any address.
fn write_at(file: &OwnedFd, from: *const u8, length: usize) -> Result<(), Fault> {
    repeat(length, |done| {
        let address = from.wrapping_add(done).cast::<c_void>();
        // SAFETY: the kernel only reads, and checks the address.
        unsafe { libc::pwrite64(file.as_raw_fd(), address, length - done, done as i64) }
    })
}

/// Reads from the file to any address.
///
/// # Safety
/// Any writable memory at `to` may be overwritten.
unsafe fn read_at(file: &OwnedFd, to: *mut u8, length: usize) -> Result<(), Fault> {
    repeat(length, |done| {
        let address = to.wrapping_add(done).cast::<c_void>();
        // SAFETY: the caller's promise; the kernel checks the address.
        unsafe { libc::pread64(file.as_raw_fd(), address, length - done, done as i64) }
    })
}

/// Copies as [`copy_in`] does, through a file.
///
/// # Safety
/// As [`copy_in`].
pub(super) unsafe fn file_copy_in(
    to: *mut u8,
    from: *const u8,
    length: usize,
) -> Result<(), Fault> {
    let file = temporary_file()?;
    write_at(&file, from, length)?;
    // SAFETY: the caller's promise.
    unsafe { read_at(&file, to, length) }
}

/// Copies as [`copy_out`] does, through a file.
///
/// # Safety
/// As [`copy_out`].
pub(super) unsafe fn file_copy_out(to: *mut u8, bytes: &[u8]) -> Result<(), Fault> {
    let file = temporary_file()?;
    write_at(&file, bytes.as_ptr(), bytes.len())?;
    // SAFETY: the caller's promise.
    unsafe { read_at(&file, to, bytes.len()) }
}
