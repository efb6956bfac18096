//! Sets of descriptors to wait for (`epoll(7)`).

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::Sys;
use uncopy_core::Errno;

/// When a descriptor of the set is reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interest {
    pub read: bool,
    pub write: bool,
    /// Once for each change, not for as long as it lasts.
    pub edge: bool,
}

impl Interest {
    /// What either wants.
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

/// Most descriptors that one [`wait`] reports.
const MAX_EVENTS: usize = 32;

/// A new set. Close-on-exec.
pub fn create() -> Sys<OwnedFd> {
    Ok(epoll::create(CreateFlags::CLOEXEC)?)
}

/// Adds `fd`, to be reported as `token`. That its peer hung up is always reported.
pub fn add(set: impl AsFd, fd: impl AsFd, token: u64, interest: Interest) -> Sys<()> {
    Ok(epoll::add(set, fd, EventData::new_u64(token), interest.flags())?)
}

/// A set of this descriptor alone: readable, for another set, each time it becomes ready for that
/// or has errors queued.
#[cfg(feature = "tokio")]
pub fn set_of(fd: impl AsFd, interest: Interest) -> Sys<OwnedFd> {
    let set = create()?;
    add(&set, fd, 0, interest)?;
    Ok(set)
}

/// As [`add`], for one that may be there already.
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

/// Takes `fd` out, if it is there.
pub fn remove(set: impl AsFd, fd: impl AsFd) {
    let _ = epoll::delete(set, fd);
}

/// Sleeps until something is ready, and gives the tokens; none after `timeout` (`None`: never), or
/// when a signal arrived.
pub fn wait(set: impl AsFd, timeout: Option<Duration>) -> Sys<Vec<u64>> {
    let mut events = Vec::with_capacity(MAX_EVENTS);
    // Beyond what fits: for ever, as good as.
    let timeout = timeout.and_then(|left| left.try_into().ok());
    match epoll::wait(set, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(events.iter().map(|event| event.data.u64()).collect())
}
