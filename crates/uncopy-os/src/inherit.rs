//! Descriptors that a child program is started with.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use super::{Sys, last_errno};
use uncopy_core::Errno;

/// Above standard input, output and error, which are replaced in a child.
const LOWEST: RawFd = 3;

/// A descriptor that programs started by one command inherit, for as long as this exists.
pub struct InheritableFd {
    fd: OwnedFd,
    /// -1 once it is over: what was hooked into a command stays there.
    number: Arc<AtomicI32>,
}

impl InheritableFd {
    /// Has the children of `command` keep `fd` across `execve(2)`. Here it stays close-on-exec, so
    /// that no program that another thread starts meanwhile gets it.
    pub fn new(fd: impl AsFd, command: &mut Command) -> Sys<InheritableFd> {
        let fd = rustix::io::fcntl_dupfd_cloexec(fd, LOWEST)?;
        let number = Arc::new(AtomicI32::new(fd.as_raw_fd()));
        let in_child = number.clone();
        let keep = move || match in_child.load(Ordering::Relaxed) {
            -1 => Ok(()),
            // SAFETY: changes one flag of a number; a closed one gives an error.
            raw => match unsafe { libc::fcntl(raw, libc::F_SETFD, 0) } {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            },
        };
        // SAFETY: between `fork(2)` and `execve(2)` it loads an atomic number and calls `fcntl(2)`,
        // which is async-signal-safe (`signal-safety(7)`), and allocates nothing.
        unsafe { command.pre_exec(keep) };
        Ok(InheritableFd { fd, number })
    }

    /// Its number there.
    pub fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for InheritableFd {
    fn drop(&mut self) {
        self.number.store(-1, Ordering::Relaxed);
    }
}

/// A duplicate of this process's descriptor `number`, which shares its position and flags; `EBADF`:
/// there is none.
pub fn duplicate(number: RawFd) -> Sys<OwnedFd> {
    // SAFETY: makes a descriptor from a number; one that is not open gives an error.
    match unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, LOWEST) } {
        -1 => Err(last_errno()),
        // SAFETY: the call has just made it, and nobody else has it.
        raw => Ok(unsafe { OwnedFd::from_raw_fd(raw) }),
    }
}

/// The descriptor that this process was started with, whose number the environment gives as
/// `variable`, if `accept` says that it is the right one; close-on-exec from now on. Once for each
/// process: `EBADF` for all later calls, and for a number that is not open; `ENOENT` if the
/// variable holds none; `EINVAL` if it is not accepted.
pub fn take(variable: &str, accept: impl FnOnce(BorrowedFd<'_>) -> bool) -> Sys<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    let number: RawFd = number.ok_or(Errno::ENOENT)?;
    // SAFETY: sets nothing, and gives an error for a number that is not open.
    if number < LOWEST || unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
        return Err(Errno::EBADF);
    }
    // SAFETY: open, as was just seen.
    if !accept(unsafe { BorrowedFd::borrow_raw(number) }) {
        return Err(Errno::EINVAL);
    }
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(Errno::EBADF);
    }
    // SAFETY: whoever started this process left it to whoever asks for it, and nobody did before.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}
