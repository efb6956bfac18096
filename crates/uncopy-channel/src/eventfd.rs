//! An eventfd that follows signals.

use std::os::fd::OwnedFd;
use std::sync::Arc as StdArc;

use super::status::Status;
use super::sync::atomic::{AtomicBool, Ordering};
use uncopy_os::epoll::{self, Interest};
use uncopy_os::eventfd;

/// An eventfd and whether it is raised. Changed only under the lock of the object that it follows.
///
/// Its users poll an epoll set that contains the eventfd, so that the socket of an object whose other
/// end moves to another process can be added.
#[derive(Debug)]
pub struct Raised {
    fd: OwnedFd,
    epoll: StdArc<OwnedFd>,
    is_raised: AtomicBool,
}

impl Raised {
    pub(super) fn new() -> Result<Raised, Status> {
        let (fd, epoll) = (eventfd::create()?, epoll::create()?);
        epoll::add(&epoll, &fd, 0, Interest { read: true, ..Interest::default() })?;
        Ok(Raised { fd, epoll: StdArc::new(epoll), is_raised: AtomicBool::new(false) })
    }

    /// Makes the descriptor readable for good, because the handle is gone.
    pub(super) fn end(&self) {
        self.follow(true);
    }

    /// Makes the descriptor readable when `alarm` is raised, too.
    #[cfg(feature = "tokio")]
    pub(super) fn add(&self, alarm: &OwnedFd) -> Result<(), Status> {
        let edge = Interest { read: true, edge: true, ..Interest::default() };
        Ok(epoll::add(&self.epoll, alarm, 2, edge)?)
    }

    /// Returns the epoll set.
    pub(super) fn set(&self) -> &StdArc<OwnedFd> {
        &self.epoll
    }

    /// Wakes those who poll the set for an edge: its sockets hold more, although nothing new comes.
    pub(super) fn report_again(&self) {
        let is_raised = self.is_raised.load(Ordering::Relaxed);
        // Cannot fail: the counter is 0, or a small number that `lower` makes 0.
        let _ = eventfd::raise(&self.fd);
        if !is_raised {
            let _ = eventfd::lower(&self.fd);
        }
    }

    /// Raises or lowers the eventfd.
    pub(super) fn follow(&self, raise: bool) {
        if self.is_raised.swap(raise, Ordering::Relaxed) != raise {
            // Neither can fail on a counter that is 0 or 1, except if the program itself read it
            // (EAGAIN), and then it already has the wanted value.
            let _ = if raise { eventfd::raise(&self.fd) } else { eventfd::lower(&self.fd) };
        }
    }
}
