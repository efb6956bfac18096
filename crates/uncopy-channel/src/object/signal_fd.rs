//! Descriptors that other event loops can wait on.

use std::os::fd::{AsFd, BorrowedFd};

use crate::Status;
use crate::eventfd::Raised;
use crate::observers::{Observer, ObserverKind};
use crate::rights::Rights;
use crate::signals::Signals;
use crate::source::Source;
use crate::sync::Arc;

/// A descriptor that polls readable (`POLLIN`) exactly while its object has one of the signals that
/// it was made for: level-triggered, for `poll(2)`, `epoll(7)` and io_uring.
///
/// It is an epoll set; only poll it. It keeps working when the other end moves to another process.
/// Then it may also be readable for something that changes no signal (the answer to a call), so check
/// the signals before you act. When the handle that it was made from is closed, moved or revoked, it
/// stays readable. When it is dropped, duplicates of the descriptor are not updated any more.
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

    /// Returns the descriptor, shared.
    #[cfg(feature = "tokio")]
    pub(crate) fn set(&self) -> &std::sync::Arc<std::os::fd::OwnedFd> {
        self.raised.set()
    }

    /// Makes it readable when `alarm` is raised, too.
    #[cfg(feature = "tokio")]
    pub(crate) fn with_alarm(self, alarm: &std::os::fd::OwnedFd) -> Result<SignalFd, Status> {
        self.raised.add(alarm)?;
        Ok(self)
    }
}
