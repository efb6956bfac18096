//! Endpoints on their way to another process, and from one.

use std::os::fd::OwnedFd;

use super::{Channel, ChannelEnd};
use crate::Status;
use crate::channel::queue::Bounds;
use crate::peer::{End, HAS_READ_NOTICE, Peered};
use crate::rights::Rights;
use crate::signals::Signals;
use crate::transport::parcel::Parts;
use crate::transport::wire::Wire;
use uncopy_os::seqpacket;

impl Channel {
    /// Turns the endpoint into a socket (`AF_UNIX`, `SOCK_SEQPACKET`), for a process that takes it with
    /// [`from_fd`](Self::from_fd): one that inherits it, or gets it in an `SCM_RIGHTS` message.
    /// Messages that are queued for the endpoint go with it; user signals that are set do not.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::TRANSFER`]; [`Status::BadState`] if messages came
    /// over a socket before and have not been read: read them, or send the endpoint in a message;
    /// [`Status::NoResources`] if descriptors run out.
    ///
    /// # Ownership
    /// The endpoint is consumed on success and on every failure, like a handle in a message.
    pub fn into_fd(self) -> Result<OwnedFd, Status> {
        self.0.grant.check(Rights::TRANSFER)?;
        self.left_queue();
        let departed = self.0.depart(false)?;
        if departed.backlog.is_empty() { Ok(departed.fd) } else { Err(Status::BadState) }
    }

    /// Makes an endpoint of a socket: the far side of [`into_fd`](Self::into_fd), or one of those
    /// that `sd_listen_fds(3)` gives. It has all rights of a new endpoint. Whether the descriptor
    /// is close-on-exec stays as it is.
    ///
    /// # Errors
    /// [`Status::WrongType`] if it is no socket of `AF_UNIX` and `SOCK_SEQPACKET`, or one that
    /// listens. The descriptor comes back with it.
    pub fn from_fd(fd: OwnedFd) -> Result<Channel, (OwnedFd, Status)> {
        if !seqpacket::is_seqpacket(&fd) {
            return Err((fd, Status::WrongType));
        }
        let ends = [(); 2].map(|()| ChannelEnd::new(Bounds::default()));
        let wire = Wire::new(fd, Vec::new());
        Ok(Channel(Peered::remote(ends, wire, Rights::CHANNEL, Signals::empty())))
    }

    /// From what another process sent.
    pub(crate) fn arrive(mut parts: Parts, rights: Rights) -> Option<Channel> {
        let mut ends = [(); 2].map(|()| ChannelEnd::new(Bounds::default()));
        if parts.extra & HAS_READ_NOTICE != 0 {
            // The end that is kept, of the two.
            ends[0].read_notice = Some(parts.fds.pop().filter(|fd| seqpacket::is_seqpacket(fd))?);
        }
        Peered::arrive(ends, parts, rights).map(Channel)
    }

    /// The program has it: whoever waits for that in another process is told.
    pub(crate) fn notify_read(&self) {
        if let Ok(mut locked) = self.0.lock() {
            drop(locked.end(self.0.side).take_read_notice());
        }
    }
}
