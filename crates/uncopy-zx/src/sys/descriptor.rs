//! Descriptors of the calling program.

use std::ffi::c_int;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use uncopy_channel::Status;

/// Takes over a descriptor, which the program promises to own.
///
/// # Errors
/// [`Status::InvalidArgs`] if it is not open.
pub(crate) fn adopt(fd: c_int) -> Result<OwnedFd, Status> {
    if fd < 0 {
        return Err(Status::InvalidArgs);
    }
    // SAFETY: not −1, and only used for a query that accepts any number.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_getfd(borrowed).map_err(|_| Status::InvalidArgs)?;
    // SAFETY: it is open, and the program gives it up by this call.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
