//! A descriptor that other event loops can wait on.

use std::os::fd::{AsFd, BorrowedFd};

use crate::Status;
use crate::eventfd::Raised;
use crate::observers::{Observer, ObserverKind};
use crate::rights::Rights;
use crate::signals::Signals;
use crate::source::Source;
use crate::sync::Arc;

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
        self.raised.set().as_fd()
    }
}

impl SignalFd {
    pub(crate) fn new(source: &dyn Source, trigger: Signals) -> Result<SignalFd, Status> {
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
    pub(crate) fn set(&self) -> &std::sync::Arc<std::os::fd::OwnedFd> {
        self.raised.set()
    }

    /// Becomes readable when `alarm` is raised, too.
    #[cfg(feature = "tokio")]
    pub(crate) fn with_alarm(self, alarm: &std::os::fd::OwnedFd) -> Result<SignalFd, Status> {
        self.raised.add(alarm)?;
        Ok(self)
    }
}
