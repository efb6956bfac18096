//! A descriptor that polls readable or not (`eventfd(2)`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use super::Sys;

/// A new one, not readable. Nonblocking and close-on-exec.
pub fn create() -> Sys<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

/// Makes it poll readable.
pub fn raise(fd: impl AsFd) -> Sys<()> {
    rustix::io::write(fd, &1u64.to_ne_bytes())?;
    Ok(())
}

/// Makes it poll unreadable; `EAGAIN` if it was.
pub fn lower(fd: impl AsFd) -> Sys<()> {
    let mut count = [0; 8];
    rustix::io::read(fd, &mut count)?;
    Ok(())
}

/// Has everybody who watches it look, however often it rang before. It does not wait, not even if
/// another process had it counted to its end.
pub fn notify(fd: impl AsFd) {
    let fd = fd.as_fd();
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    let has_room = rustix::event::poll(&mut polled, Some(&super::clock::ZERO));
    if has_room == Ok(1) {
        // At most, nobody is told.
        let _ = raise(fd);
    }
}

/// It is an eventfd, or at least one of those files without a name whose `write(2)` either fails
/// or does not wait: all of them are one inode (`fs/anon_inodes.c`).
pub fn is_anonymous(fd: impl AsFd) -> bool {
    let inode =
        |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).ok().map(|stat| (stat.st_dev, stat.st_ino));
    let known = create().ok().and_then(|own| inode(own.as_fd()));
    known.is_some() && inode(fd.as_fd()) == known
}
