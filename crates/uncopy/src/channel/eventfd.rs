//! A descriptor that other event loops can wait on.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::Status;
use super::handle::Source;
use super::rights::Rights;
use super::signals::{Observer, ObserverKind, Signals};
use super::sync::Arc;
use super::sync::atomic::{AtomicBool, Ordering};
use crate::sys::eventfd;

/// An eventfd and whether it is raised. Changed under the lock of the object it follows only.
#[derive(Debug)]
pub(super) struct Raised {
    fd: OwnedFd,
    is_raised: AtomicBool,
}

impl Raised {
    /// Follows the signals.
    pub(super) fn set(&self, raise: bool) {
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
/// Only poll it. Reading it does not change the object, and makes it silent until the signals
/// next change. It stays with its object, and stops following when dropped, duplicates of the
/// descriptor included.
#[derive(Debug)]
pub struct SignalFd {
    raised: Arc<Raised>,
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raised.fd.as_fd()
    }
}

impl SignalFd {
    pub(super) fn new(source: &dyn Source, trigger: Signals) -> Result<SignalFd, Status> {
        let fd = eventfd::create()?;
        let raised = Arc::new(Raised { fd, is_raised: AtomicBool::new(false) });
        let mut result = Err(Status::BadState);
        source.observers(&mut |signals, observers| {
            result = source.grant().check(Rights::WAIT);
            if result.is_ok() {
                raised.set(signals.intersects(trigger));
                let kind = ObserverKind::Descriptor(Arc::downgrade(&raised));
                observers.add(Observer { handle: source.grant().id(), trigger, kind });
            }
        });
        result.map(|()| SignalFd { raised })
    }
}
