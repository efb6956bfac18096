//! Endpoints that move to another process, or come from one.

use std::os::fd::OwnedFd;

use super::{Calls, Channel, ChannelEnd};
use crate::Status;
use crate::channel::queue::Bounds;
use crate::peer::{End, HAS_READ_NOTICE, Peered};
use crate::rights::Rights;
use crate::signals::Signals;
use crate::transport::carrier::Backlogs;
use crate::transport::parcel::Parts;
use crate::transport::wire::Wire;
use uncopy_os::seqpacket;

/// Lowest of the bits of `extra` that hold the number of the last transaction: all above [`HAS_READ_NOTICE`]. Other
/// versions send zeros there, and ignore them.
const LAST_NUMBER_SHIFT: u32 = HAS_READ_NOTICE.trailing_zeros() + 1;

/// Returns the kind-specific bits, which are the upper half of `extra`.
pub(super) fn bits_of(calls: &Calls) -> u32 {
    calls.last_number() << (LAST_NUMBER_SHIFT - 32)
}

impl Channel {
    /// Turns the endpoint into a socket (`AF_UNIX`, `SOCK_SEQPACKET`), for a process that takes it with
    /// [`from_fd`](Self::from_fd): one that inherits it, or receives it in an `SCM_RIGHTS` message.
    /// Messages that are queued for the endpoint move with it; its user signals do not.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::TRANSFER`]; [`Status::BadState`] if the
    /// endpoint has unread messages that came over a socket: read them, or send the endpoint in a
    /// message; [`Status::NoResources`] if descriptors run out.
    ///
    /// # Ownership
    /// The endpoint is consumed on success and on every failure, like a handle in a message.
    pub fn into_fd(self) -> Result<OwnedFd, Status> {
        self.0.grant.check(Rights::TRANSFER)?;
        self.left_queue();
        let mut backlogs = Backlogs::default();
        let departed = self.0.depart(false, &mut backlogs)?;
        backlogs.send()?;
        if departed.backlog.is_empty() { Ok(departed.fd) } else { Err(Status::BadState) }
    }

    /// Makes an endpoint of a socket: one that [`into_fd`](Self::into_fd) returned in another
    /// process, or one of those that `sd_listen_fds(3)` returns. It has all rights of a new
    /// endpoint. The close-on-exec flag of the descriptor is not changed.
    ///
    /// # Errors
    /// [`Status::WrongType`] if it is not a socket of `AF_UNIX` and `SOCK_SEQPACKET`, or is a
    /// listening one. The descriptor is returned with it.
    pub fn from_fd(fd: OwnedFd) -> Result<Channel, (OwnedFd, Status)> {
        if !seqpacket::is_seqpacket(&fd) {
            return Err((fd, Status::WrongType));
        }
        let ends = [(); 2].map(|()| ChannelEnd::new(Bounds::default()));
        let wire = Wire::new(fd, Vec::new());
        Ok(Channel(Peered::remote(ends, wire, Rights::CHANNEL, Signals::empty())))
    }

    /// Makes an endpoint of what another process sent.
    pub(crate) fn arrive(mut parts: Parts, rights: Rights) -> Option<Channel> {
        let mut ends = [(); 2].map(|()| ChannelEnd::new(Bounds::default()));
        ends[0].calls = Calls::after((parts.extra >> LAST_NUMBER_SHIFT) as u32);
        if parts.extra & HAS_READ_NOTICE != 0 {
            // Index 0 is this process's end.
            ends[0].read_notice = Some(parts.fds.pop().filter(|fd| seqpacket::is_seqpacket(fd))?);
        }
        Peered::arrive(ends, parts, rights).map(Channel)
    }

    /// Notifies the process that sent this endpoint that the program has read it.
    pub(crate) fn notify_read(&self) {
        if let Ok(mut locked) = self.0.lock() {
            drop(locked.end(self.0.side).take_read_notice());
        }
    }
}
