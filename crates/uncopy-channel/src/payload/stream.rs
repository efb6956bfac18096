//! The stream socket beside a channel, over which long payloads go.
//!
//! Its receiver makes it and sends the other end to the sender. One that the sender had made could hold up the
//! receiver for as long as the sender likes: a process that has a duplicate, and reads into memory whose page never
//! comes, holds the lock of the socket (`iolock` in `net/unix/af_unix.c`), and neither a flag nor a deadline ends the
//! wait for that. Writing takes no such lock.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::cursor::Cursor;
use super::spare::{Kept, Spare};
use crate::Status;
use crate::channel::Handle;
use crate::object::Descriptor;
use crate::sleep::Deadline;
use crate::transport::wire::Wire;
use uncopy_core::Errno;
use uncopy_os::seqpacket::{self, Ready};
use uncopy_os::stream;

/// Size of the buffer for bytes that are refused.
const REFUSED_BYTES: usize = 64 << 10;

/// End of a stream that the peer has made and that this end writes to.
pub(super) struct Outlet(OwnedFd);

impl Outlet {
    /// Takes an offered end; `None` if it is none. Bytes that are written to the socket of another service would look
    /// there as if this process had connected.
    pub(super) fn accept(handles: Vec<Handle>) -> Option<Outlet> {
        let [handle] = <[Handle; 1]>::try_from(handles).ok()?;
        let fd = OwnedFd::from(Descriptor::try_from(handle).ok()?);
        stream::is_of_pair(&fd).then_some(Outlet(fd))
    }

    /// Sends all regions, in order.
    pub(super) fn send(
        &self,
        regions: &[IoSlice<'_>],
        wire: &Wire,
        deadline: Deadline,
    ) -> Result<(), Status> {
        let mut cursor = Cursor::new(regions);
        loop {
            let mut ahead = cursor;
            let parts = ahead.take(usize::MAX, stream::MAX_PARTS);
            if parts.is_empty() {
                return Ok(());
            }
            match stream::send(&self.0, &parts) {
                Ok(sent) => cursor.skip(sent),
                Err(Errno::EAGAIN) => {
                    let writable = Ready { write: true, ..Ready::default() };
                    if rest(self.0.as_fd(), writable, wire, deadline)? == Peer::Closed {
                        return Err(Status::PeerClosed);
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(Status::PeerClosed),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// End of a stream that this end has made and reads from.
pub(super) struct Inlet(OwnedFd);

impl Inlet {
    /// Makes a stream; returns the end for the peer, too.
    pub(super) fn make() -> Result<(Inlet, Handle), Status> {
        let (near, far) = stream::pair()?;
        Ok((Inlet(near), Descriptor::from(far).into()))
    }

    /// Receives the next part of a payload; returns whether it is whole.
    pub(super) fn receive(
        &self,
        streamed: &mut Streamed,
        wire: &Wire,
        deadline: Deadline,
    ) -> Result<bool, Status> {
        let mut peer = Peer::Open;
        while streamed.left > 0 {
            let most = streamed.room();
            match stream::receive(&self.0, &mut streamed.bytes, most) {
                Ok(0) => return Err(Status::PeerClosed),
                Ok(received) => {
                    streamed.left -= received;
                    break;
                }
                // Everything that it sent before it closed the channel would have been there.
                Err(Errno::EAGAIN) if peer == Peer::Closed => return Err(Status::PeerClosed),
                Err(Errno::EAGAIN) => {
                    let readable = Ready { read: true, ..Ready::default() };
                    peer = rest(self.0.as_fd(), readable, wire, deadline)?;
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(streamed.left == 0)
    }
}

/// A payload that comes over a stream.
pub(super) struct Streamed {
    bytes: Vec<u8>,
    left: usize,
    /// Why its bytes are dropped.
    refusal: Option<Status>,
}

impl Streamed {
    /// Begins to receive `length` bytes. Their memory is reserved, and allocated as they come.
    pub(super) fn new(length: usize, refusal: Option<Status>, spare: &Spare) -> Streamed {
        let (bytes, refusal) = match refusal.map_or_else(|| spare.take(length), Err) {
            Ok(bytes) => (bytes, None),
            Err(status) => (Vec::with_capacity(REFUSED_BYTES), Some(status)),
        };
        Streamed { bytes, left: length, refusal }
    }

    /// Returns the number of bytes to receive at most.
    fn room(&mut self) -> usize {
        if self.refusal.is_none() {
            return self.left;
        }
        self.bytes.clear();
        self.left.min(REFUSED_BYTES)
    }

    /// Returns the bytes, or why they were refused.
    pub(super) fn finish(self, spare: &Spare) -> Result<Kept, Status> {
        self.refusal.map_or_else(|| Ok(spare.keep(self.bytes)), Err)
    }
}

/// State of the peer's end of the channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    Open,
    Closed,
}

/// Sleeps until the stream is ready or the channel is closed, which a peer can do without closing the stream.
fn rest(
    stream: BorrowedFd<'_>,
    wanted: Ready,
    wire: &Wire,
    deadline: Deadline,
) -> Result<Peer, Status> {
    let remaining = deadline.remaining();
    if remaining.is_some_and(|left| left.is_zero()) {
        return Err(Status::TimedOut);
    }
    let closed = Ready { hung_up: true, ..Ready::default() };
    match seqpacket::await_ready([(stream, wanted), (wire.fd(), closed)], remaining) {
        Ok([_, Ready { hung_up: true, .. }]) => Ok(Peer::Closed),
        Ok(_) | Err(Errno::EINTR) => Ok(Peer::Open),
        Err(errno) => Err(errno.into()),
    }
}
