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

/// Creates a doorbell: an event descriptor that is readable for ever, and that nobody reads. Nonblocking and close-on-exec.
pub fn create_doorbell() -> Sys<OwnedFd> {
    Ok(eventfd(1, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

/// Wakes everything that polls a doorbell: each call is an edge.
///
/// Another process may have the doorbell too, and may have cleared `O_NONBLOCK`. Nothing is added to the counter, which
/// therefore has room, whatever was written to it (`eventfd_write` in `fs/eventfd.c`). Only the kernel itself can fill it
/// entirely, for asynchronous I/O (`eventfd_signal`); that is an error of `poll(2)`, and the doorbell is not rung then.
pub fn ring(fd: impl AsFd) {
    let fd = fd.as_fd();
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    if rustix::event::poll(&mut polled, Some(&super::clock::ZERO)) == Ok(0) {
        let _ = rustix::io::write(fd, &0u64.to_ne_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::{self, Interest};

    /// A counter without room: a blocking write of 1 would wait until somebody reads.
    #[test]
    fn a_full_doorbell_that_blocks_rings_at_once() {
        let doorbell = create_doorbell().unwrap();
        rustix::fs::fcntl_setfl(&doorbell, rustix::fs::OFlags::empty()).unwrap();
        let sets = [epoll::create().unwrap(), epoll::create().unwrap()];
        let edge = Interest { read: true, edge: true, ..Interest::default() };
        for set in &sets {
            epoll::add(set, &doorbell, 0, edge).unwrap();
        }
        let woken = || {
            let wait = |set| epoll::wait(set, Some(std::time::Duration::ZERO)).unwrap().len();
            sets.each_ref().map(wait)
        };
        assert_eq!(woken(), [1, 1], "readable from the beginning");
        for counter in [1, 1 << 63, u64::MAX - 1] {
            let mut count = [0; 8];
            rustix::io::read(&doorbell, &mut count).unwrap();
            rustix::io::write(&doorbell, &u64::to_ne_bytes(counter)).unwrap();
            woken();
            for _ in 0..3 {
                ring(&doorbell);
                assert_eq!(woken(), [1, 1], "{counter}");
            }
        }
        assert_eq!(woken(), [0, 0]);
    }
}
