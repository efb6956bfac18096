//! Waits until the device has taken what was written.

use std::os::fd::BorrowedFd;

use uncopy_core::Errno;
use uncopy_os::{Sys, file};

/// Waits for a range whose write-out was started; a length of 0 means up to the end.
///
/// # Errors
/// Bytes are lost, and `fsync` does not say so again (`fs/sync.c`, `file_fdatawait_range`).
pub(crate) fn finish(fd: BorrowedFd<'_>, offset: u64, length: u64) -> Sys<()> {
    loop {
        match file::write_out(fd, offset, length, true) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}
