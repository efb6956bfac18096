//! Sets of descriptors to wait for (`epoll(7)`).

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::Sys;
use uncopy_core::Errno;

/// Events for which a descriptor of a set is reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interest {
    pub read: bool,
    pub write: bool,
    /// Whether to report each change once (edge-triggered).
    pub edge: bool,
}

impl Interest {
    /// Returns the union of both.
    pub fn union(self, other: Interest) -> Interest {
        Interest {
            read: self.read || other.read,
            write: self.write || other.write,
            edge: self.edge || other.edge,
        }
    }

    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::RDHUP;
        flags.set(EventFlags::IN, self.read);
        flags.set(EventFlags::OUT, self.write);
        flags.set(EventFlags::ET, self.edge);
        flags
    }
}

/// Maximum number of descriptors that one [`wait`] reports.
const MAX_EVENTS: usize = 32;

/// Creates a set, close-on-exec.
pub fn create() -> Sys<OwnedFd> {
    Ok(epoll::create(CreateFlags::CLOEXEC)?)
}

/// Adds `fd`, which is reported as `token`. A hang-up of its peer is always reported.
pub fn add(set: impl AsFd, fd: impl AsFd, token: u64, interest: Interest) -> Sys<()> {
    Ok(epoll::add(set, fd, EventData::new_u64(token), interest.flags())?)
}

/// Creates a set of one descriptor. The set itself polls readable when the descriptor becomes ready or has
/// queued errors.
#[cfg(feature = "tokio")]
pub fn set_of(fd: impl AsFd, interest: Interest) -> Sys<OwnedFd> {
    let set = create()?;
    add(&set, fd, 0, interest)?;
    Ok(set)
}

/// Adds a descriptor like [`add`], unless the set already has it.
pub fn add_once(set: impl AsFd, fd: impl AsFd, token: u64, interest: Interest) -> Sys<()> {
    match add(set, fd, token, interest) {
        Err(Errno::EEXIST) => Ok(()),
        other => other,
    }
}

/// Changes when a descriptor of the set is reported.
pub fn modify(set: impl AsFd, fd: impl AsFd, token: u64, interest: Interest) -> Sys<()> {
    Ok(epoll::modify(set, fd, EventData::new_u64(token), interest.flags())?)
}

/// Removes `fd` from the set, if it is there.
pub fn remove(set: impl AsFd, fd: impl AsFd) {
    let _ = epoll::delete(set, fd);
}

/// Waits until a descriptor is ready and returns the tokens. Returns none after `timeout` (`None`: no
/// timeout) or a signal.
pub fn wait(set: impl AsFd, timeout: Option<Duration>) -> Sys<Vec<u64>> {
    let mut events = Vec::with_capacity(MAX_EVENTS);
    // A value too large for a timespec is as good as no timeout.
    let timeout = timeout.and_then(|left| left.try_into().ok());
    match epoll::wait(set, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(events.iter().map(|event| event.data.u64()).collect())
}
