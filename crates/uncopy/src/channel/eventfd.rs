//! A descriptor that other event loops can wait on.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc as StdArc;

use super::Status;
use super::handle::Source;
use super::rights::Rights;
use super::signals::{Observer, ObserverKind, Signals};
use super::sync::Arc;
use super::sync::atomic::{AtomicBool, Ordering};
use crate::sys::epoll::{self, Interest};
use crate::sys::eventfd;

/// An eventfd and whether it is raised. Changed under the lock of the object it follows only.
///
/// What is handed out is an epoll set with the eventfd in it, so that the socket of an object whose
/// other end moves to another process can be put beside it.
#[derive(Debug)]
pub struct Raised {
    fd: OwnedFd,
    epoll: StdArc<OwnedFd>,
    is_raised: AtomicBool,
}

impl Raised {
    fn new() -> Result<Raised, Status> {
        let (fd, epoll) = (eventfd::create()?, epoll::create()?);
        epoll::add(&epoll, &fd, 0, Interest { read: true, ..Interest::default() })?;
        Ok(Raised { fd, epoll: StdArc::new(epoll), is_raised: AtomicBool::new(false) })
    }

    /// The handle is gone: whoever polls is to look, and finds that out.
    pub(super) fn end(&self) {
        self.follow(true);
    }

    /// Has whoever polls look when `alarm` is raised, too.
    #[cfg(feature = "tokio")]
    fn add(&self, alarm: &OwnedFd) -> Result<(), Status> {
        let edge = Interest { read: true, edge: true, ..Interest::default() };
        Ok(epoll::add(&self.epoll, alarm, 2, edge)?)
    }

    /// The epoll set.
    pub(super) fn set(&self) -> &StdArc<OwnedFd> {
        &self.epoll
    }

    /// Follows the signals.
    pub(super) fn follow(&self, raise: bool) {
        if self.is_raised.swap(raise, Ordering::Relaxed) != raise {
            // Neither can fail on a counter that is 0 or 1, except if the program itself read it
            // (EAGAIN), which leaves it as wanted.
            let _ = if raise { eventfd::raise(&self.fd) } else { eventfd::lower(&self.fd) };
        }
    }
}

/// A descriptor that polls readable (`POLLIN`) exactly while its object has one of the signals it
/// was made for: level-true, for `poll(2)`, `epoll(7)` and io_uring.
///
/// It is an epoll set; only poll it. It stays with its object, also when the other end moves to
/// another process: it may then be readable for something that turns out to be no signal (the
/// answer to a call), so look before you act. When the handle it was made from is closed, moved or
/// revoked it stays readable. It stops following when dropped, duplicates of the descriptor
/// included.
#[derive(Debug)]
pub struct SignalFd {
    raised: Arc<Raised>,
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raised.epoll.as_fd()
    }
}

impl SignalFd {
    pub(super) fn new(source: &dyn Source, trigger: Signals) -> Result<SignalFd, Status> {
        let raised = Arc::new(Raised::new()?);
        source.refresh(Signals::empty());
        let mut result = Err(Status::BadState);
        source.observers(&mut |signals, observers| {
            result = source.grant().check_binding(Rights::WAIT);
            if result.is_ok() {
                raised.follow(signals.intersects(trigger));
                let kind = ObserverKind::Descriptor(Arc::downgrade(&raised));
                observers.add(Observer { handle: source.grant().id(), trigger, kind });
            }
        });
        result?;
        source.attach_fd(&raised, trigger)?;
        Ok(SignalFd { raised })
    }

    /// The descriptor, also for later.
    #[cfg(feature = "tokio")]
    pub(super) fn set(&self) -> &StdArc<OwnedFd> {
        self.raised.set()
    }

    /// Becomes readable when `alarm` is raised, too.
    #[cfg(feature = "tokio")]
    pub(super) fn with_alarm(self, alarm: &OwnedFd) -> Result<SignalFd, Status> {
        self.raised.add(alarm)?;
        Ok(self)
    }
}
