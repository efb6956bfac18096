//! Descriptors that a child program inherits.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use super::{Sys, last_errno};
use uncopy_core::Errno;

/// Smallest number that may be inherited: standard input, output and error are replaced in a child.
const MIN_FD: RawFd = 3;

/// A descriptor that programs started by one command inherit while this value exists.
pub struct InheritableFd {
    fd: OwnedFd,
    /// Set to -1 on drop, as the hook in the command cannot be removed.
    number: Arc<AtomicI32>,
}

impl InheritableFd {
    /// Lets children of `command` keep `fd` across `execve(2)`. In this process it stays close-on-exec, so
    /// that programs started by other threads do not get it.
    pub fn new(fd: impl AsFd, command: &mut Command) -> Sys<InheritableFd> {
        let fd = rustix::io::fcntl_dupfd_cloexec(fd, MIN_FD)?;
        let number = Arc::new(AtomicI32::new(fd.as_raw_fd()));
        let in_child = number.clone();
        let keep = move || match in_child.load(Ordering::Relaxed) {
            -1 => Ok(()),
            // SAFETY: the call changes one flag of a descriptor number; for a closed one it returns an error.
            raw => match unsafe { libc::fcntl(raw, libc::F_SETFD, 0) } {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            },
        };
        // SAFETY: between `fork(2)` and `execve(2)` the closure loads an atomic number and calls
        // `fcntl(2)`, which is async-signal-safe (`signal-safety(7)`), and allocates nothing.
        unsafe { command.pre_exec(keep) };
        Ok(InheritableFd { fd, number })
    }

    /// Returns its number in the child.
    pub fn number(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for InheritableFd {
    fn drop(&mut self) {
        self.number.store(-1, Ordering::Relaxed);
    }
}

/// Duplicates this process's descriptor `number`; the duplicate shares its position and flags. `EBADF`: it
/// is not open.
pub fn duplicate(number: RawFd) -> Sys<OwnedFd> {
    // SAFETY: the call makes a new descriptor; for a number that is not open it returns an error.
    match unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, MIN_FD) } {
        -1 => Err(last_errno()),
        // SAFETY: the call has just made it, and nothing else owns it.
        raw => Ok(unsafe { OwnedFd::from_raw_fd(raw) }),
    }
}

/// Takes the inherited descriptor whose number is in the environment variable `variable`, if `accept`
/// accepts it, and makes it close-on-exec.
///
/// # Errors
/// `EBADF`: a second call in this process, or a number that is not open. `ENOENT`: the variable holds no
/// number. `EINVAL`: the descriptor is not accepted.
pub fn take(variable: &str, accept: impl FnOnce(BorrowedFd<'_>) -> bool) -> Sys<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    let number: RawFd = number.ok_or(Errno::ENOENT)?;
    // SAFETY: the call changes nothing, and returns an error for a number that is not open.
    if number < MIN_FD || unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
        return Err(Errno::EBADF);
    }
    // SAFETY: the descriptor is open, as just checked.
    if !accept(unsafe { BorrowedFd::borrow_raw(number) }) {
        return Err(Errno::EINVAL);
    }
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(Errno::EBADF);
    }
    // SAFETY: the parent process passed it on for the caller of this function, and `TAKEN` makes this the
    // only call that takes it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// Has a child ignore `SIGINT` and `SIGQUIT`, which a terminal sends to all processes in front of it, unless the program
/// decides otherwise.
pub fn ignore_interrupts(command: &mut Command) {
    let ignore = || {
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: `SIG_IGN` runs no code of this program.
            if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between `fork(2)` and `execve(2)` the closure only calls `signal(2)`, which is async-signal-safe
    // (`signal-safety(7)`), and allocates nothing.
    unsafe { command.pre_exec(ignore) };
}

/// Moves standard input and standard output to other numbers, and returns them. From then on standard input is
/// `/dev/null`, and standard output is standard error.
pub fn take_stdio() -> Sys<(OwnedFd, OwnedFd)> {
    let (input, output) = (duplicate(libc::STDIN_FILENO)?, duplicate(libc::STDOUT_FILENO)?);
    let empty = std::fs::File::open("/dev/null")
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
    rustix::stdio::dup2_stdin(&empty)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input, output))
}
