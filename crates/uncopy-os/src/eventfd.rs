//! Event descriptors (`eventfd(2)`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use super::Sys;

/// Creates an event descriptor that is not readable. Nonblocking and close-on-exec.
pub fn create() -> Sys<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

/// Makes the descriptor readable.
pub fn raise(fd: impl AsFd) -> Sys<()> {
    rustix::io::write(fd, &1u64.to_ne_bytes())?;
    Ok(())
}

/// Makes the descriptor unreadable; `EAGAIN` if it already was.
pub fn lower(fd: impl AsFd) -> Sys<()> {
    let mut count = [0; 8];
    rustix::io::read(fd, &mut count)?;
    Ok(())
}

/// Wakes everything that polls the descriptor, also if it is already readable. Never blocks, even if another
/// process has driven the counter to its maximum.
pub fn notify(fd: impl AsFd) {
    let fd = fd.as_fd();
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    let has_room = rustix::event::poll(&mut polled, Some(&super::clock::ZERO));
    if has_room == Ok(1) {
        // At worst the notification is lost.
        let _ = raise(fd);
    }
}

/// Whether a descriptor is an eventfd or another anonymous inode, whose `write(2)` fails or does not block.
/// All of them have the same inode (`fs/anon_inodes.c`).
///
/// # Errors
/// `EMFILE` or `ENFILE` if there is no descriptor for an eventfd to compare with, and those of `fstat(2)`.
pub fn is_anonymous(fd: impl AsFd) -> Sys<bool> {
    let inode = |fd: BorrowedFd<'_>| -> Sys<_> {
        let stat = rustix::fs::fstat(fd)?;
        Ok((stat.st_dev, stat.st_ino))
    };
    let known = create()?;
    Ok(inode(known.as_fd())? == inode(fd.as_fd())?)
}
