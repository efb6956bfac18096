//! Sockets that carry the unread packets of an end when it moves.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use super::gather::Body;
use super::packet::Content;
use super::parcel::Parcel;
use super::wire::send;
use crate::Status;
use crate::memory::{Buffer, Filling, TooLong};
use uncopy_os::seqpacket;

/// An unread packet of an end.
pub(crate) trait Unread {
    /// Returns its kind.
    fn content(&self) -> Content;
    /// Returns its bytes.
    fn body(&self) -> &[u8];
    /// Takes its handles apart; adds the backlogs of ends among them. All are consumed, even if one of them cannot be
    /// sent.
    fn pack(&mut self, backlogs: &mut Backlogs) -> Result<Parcel, Status>;
}

/// A packet without handles.
pub(crate) struct Piece {
    content: Content,
    body: Buffer,
}

impl Piece {
    /// Returns a packet of bytes; `None` without bytes.
    pub(crate) fn of(regions: &[IoSlice<'_>]) -> Option<Piece> {
        let length = regions.iter().map(|region| region.len()).sum();
        if length == 0 {
            return None;
        }
        let fill = |filling: &mut Filling<'_>| filling.append_all(regions);
        let body = Buffer::filled(length, fill, TooLong).ok()?;
        Some(Piece { content: Content::Message, body })
    }

    /// Returns the packet that says that the sender has disabled its writing.
    pub(crate) fn finished() -> Piece {
        Piece { content: Content::Finished, body: Buffer::empty() }
    }
}

impl Unread for Piece {
    fn content(&self) -> Content {
        self.content
    }

    fn body(&self) -> &[u8] {
        &self.body
    }

    fn pack(&mut self, _backlogs: &mut Backlogs) -> Result<Parcel, Status> {
        Ok(Parcel::default())
    }
}

/// Empty sockets with enough room for a backlog.
pub(crate) struct Carriers {
    pub(crate) writers: Writers,
    /// Reading ends, which move.
    pub(crate) readers: Vec<OwnedFd>,
}

/// Their writing ends.
#[derive(Default)]
pub(crate) struct Writers(Vec<Writer>);

/// Writing end of one of the sockets. It is shut down when dropped, because closing alone would not
/// end the backlog while a child, forked by another thread, has a duplicate until it calls execve.
struct Writer(OwnedFd);

impl Drop for Writer {
    fn drop(&mut self) {
        seqpacket::shut_down_sending(&self.0);
    }
}

/// Maximum overhead of the kernel for one message: a `sk_buff`; the bytes are rounded up to the next
/// power of two (`__alloc_skb`).
const OVERHEAD_BYTES: usize = 2048;

impl Carriers {
    pub(crate) fn for_backlog(backlog: &[impl Unread]) -> Result<Carriers, Status> {
        let mut carriers = Carriers { writers: Writers::default(), readers: Vec::new() };
        let charge = |bytes: usize| 2 * bytes + OVERHEAD_BYTES;
        let mut left: usize = backlog.iter().map(|unread| charge(unread.body().len())).sum();
        while left > 0 {
            if carriers.readers.len() == seqpacket::MAX_FDS {
                return Err(Status::NoResources);
            }
            let (reader, writer) = seqpacket::pair()?;
            // Leaves out the part that one message may leave unused at the end.
            let room = seqpacket::send_buffer_bytes(&writer)?.saturating_sub(2 * OVERHEAD_BYTES);
            left = left.saturating_sub(room.saturating_sub(1 << 17).max(1));
            carriers.readers.push(reader);
            carriers.writers.0.push(Writer(writer));
        }
        Ok(carriers)
    }
}

/// A backlog that is being sent.
struct Sending<U> {
    writers: std::vec::IntoIter<Writer>,
    writer: Option<Writer>,
    unread: std::vec::IntoIter<U>,
}

/// Sends one packet after the other.
trait SendNext {
    /// Sends the next packet, whose handles move with it, and adds the backlogs of ends among them. Returns whether more are left.
    fn send_next(&mut self, backlogs: &mut Backlogs) -> Result<bool, Status>;
}

impl<U: Unread> SendNext for Sending<U> {
    fn send_next(&mut self, backlogs: &mut Backlogs) -> Result<bool, Status> {
        let Some(mut unread) = self.unread.next() else { return Ok(false) };
        let parcel = unread.pack(backlogs)?;
        loop {
            let Some(current) = &self.writer else { return Err(Status::NoResources) };
            let regions = [IoSlice::new(unread.body())];
            let body = Body::new(&regions, unread.body().len());
            match send(&current.0, unread.content(), body, &parcel.records, &parcel.fds) {
                Ok(()) => return Ok(!self.unread.as_slice().is_empty()),
                Err(Status::ShouldWait) => self.writer = self.writers.next(),
                Err(status) => return Err(status),
            }
        }
    }
}

/// Backlogs of ends that move together: an end may lie in the backlog of another one, to any depth, which takes no stack.
/// Those of the ends in a packet are sent before the next packet is, so that no more of them are open than lie in one another.
#[derive(Default)]
pub(crate) struct Backlogs(Vec<Box<dyn SendNext>>);

impl Backlogs {
    /// Adds the backlog of an end, for its sockets.
    pub(crate) fn add(&mut self, writers: Writers, backlog: Vec<impl Unread + 'static>) {
        if !backlog.is_empty() {
            let mut writers = writers.0.into_iter();
            let writer = writers.next();
            self.0.push(Box::new(Sending { writers, writer, unread: backlog.into_iter() }));
        }
    }

    /// Sends all, and those that lie in them. The sockets are closed if one cannot be sent.
    pub(crate) fn send(mut self) -> Result<(), Status> {
        while let Some(mut sending) = self.0.pop() {
            let mut within = Backlogs::default();
            if sending.send_next(&mut within)? {
                self.0.push(sending);
            }
            self.0.append(&mut within.0);
        }
        Ok(())
    }
}
