//! Endpoints on their way to another process, and from one.

use std::os::fd::OwnedFd;

use super::{Channel, ChannelEnd};
use crate::channel::Status;
use crate::channel::peer::Peered;
use crate::channel::rights::Rights;
use crate::channel::transport::local::Bounds;
use crate::channel::transport::promotion::{AWAITED, Parts};
use crate::sys::seqpacket;

impl Channel {
    /// The endpoint as a socket (`AF_UNIX`, `SOCK_SEQPACKET`), for a process that takes it with
    /// [`from_fd`](Self::from_fd): one that inherits it, or gets it in an `SCM_RIGHTS` message.
    /// Messages that are queued for the endpoint go with it; user signals that are set do not.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::TRANSFER`]; [`Status::BadState`] if messages came
    /// over a socket before and have not been read: read them, or send the endpoint in a message;
    /// [`Status::NoResources`] if descriptors run out. The endpoint is closed then.
    pub fn into_fd(self) -> Result<OwnedFd, Status> {
        self.0.grant.check(Rights::TRANSFER)?;
        self.left_queue();
        let departed = self.0.depart(false)?;
        if departed.backlog.is_empty() { Ok(departed.fd) } else { Err(Status::BadState) }
    }

    /// The endpoint behind a socket: the far side of [`into_fd`](Self::into_fd), or one of those
    /// that `sd_listen_fds(3)` gives. It has all rights of a new endpoint. Whether the descriptor
    /// is close-on-exec stays as it is.
    ///
    /// # Errors
    /// [`Status::WrongType`] if it is no socket of `AF_UNIX` and `SOCK_SEQPACKET`, or one that
    /// listens.
    pub fn from_fd(fd: OwnedFd) -> Result<Channel, Status> {
        let parts = Parts { fds: vec![fd], extra: 0 };
        Channel::arrive(parts, Rights::CHANNEL).ok_or(Status::WrongType)
    }

    /// From what another process sent.
    pub(in crate::channel) fn arrive(mut parts: Parts, rights: Rights) -> Option<Channel> {
        let mut ends = [(); 2].map(|()| ChannelEnd::new(Bounds::default()));
        if parts.extra & AWAITED != 0 {
            // The end that is kept, of the two.
            ends[0].unread = Some(parts.fds.pop().filter(|fd| seqpacket::is_seqpacket(fd))?);
        }
        Peered::arrive(ends, parts, rights).map(Channel)
    }

    /// The program has it: whoever waits for that in another process is told.
    pub(in crate::channel) fn was_read(&self) {
        if let Ok(mut locked) = self.0.lock() {
            drop(locked.end(self.0.side).unread.take());
        }
    }
}
