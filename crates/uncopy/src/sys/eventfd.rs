//! A descriptor that polls readable or not (`eventfd(2)`).

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use super::Sys;

/// A new one, not readable. Nonblocking and close-on-exec.
pub(crate) fn create() -> Sys<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

/// Makes it poll readable.
pub(crate) fn raise(fd: impl AsFd) -> Sys<()> {
    rustix::io::write(fd, &1u64.to_ne_bytes())?;
    Ok(())
}

/// Makes it poll unreadable; `EAGAIN` if it was.
pub(crate) fn lower(fd: impl AsFd) -> Sys<()> {
    let mut count = [0; 8];
    rustix::io::read(fd, &mut count)?;
    Ok(())
}
