//! Secret memory (`memfd_secret(2)`), for which rustix has no call.

use std::os::fd::{FromRawFd, OwnedFd};

/// Makes a file of secret memory; `None` where the kernel offers none.
#[must_use]
pub fn secret_memory() -> Option<OwnedFd> {
    // SAFETY: the call takes a number and returns one.
    let fd = unsafe { libc::syscall(libc::SYS_memfd_secret, libc::O_CLOEXEC) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the call has just opened it, and nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
