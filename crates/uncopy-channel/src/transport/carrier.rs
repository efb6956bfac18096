//! What was queued at an end when it moved, in sockets that move with it.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use super::packet::Content;
use super::parcel::Parcel;
use super::wire::send;
use crate::Status;
use crate::memory::{Buffer, Filling, TooLong};
use uncopy_os::{file, seqpacket};

/// Packet of a backlog: it waits at an end to be read.
pub(crate) trait Unread {
    /// Its kind.
    fn content(&self) -> Content;
    /// Its bytes.
    fn body(&self) -> &[u8];
    /// Takes its handles apart. All are consumed, also if one of them cannot go.
    fn pack(&mut self) -> Result<Parcel, Status>;
}

/// A packet without handles.
pub(crate) struct Piece {
    content: Content,
    body: Buffer,
}

impl Piece {
    /// Bytes to be read; none: no packet.
    pub(crate) fn of(regions: &[IoSlice<'_>]) -> Option<Piece> {
        let length = regions.iter().map(|region| region.len()).sum();
        if length == 0 {
            return None;
        }
        let fill = |filling: &mut Filling<'_>| filling.append_all(regions);
        let body = Buffer::filled(length, fill, TooLong).ok()?;
        Some(Piece { content: Content::Message, body })
    }

    /// The sender will write no more.
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

    fn pack(&mut self) -> Result<Parcel, Status> {
        Ok(Parcel::default())
    }
}

/// Empty sockets for a backlog, so many that it fits.
pub(crate) struct Carriers {
    writers: Vec<Writer>,
    /// What moves.
    pub(crate) readers: Vec<OwnedFd>,
}

/// The writing end of one of them. Its end is that of the backlog: it must not have to wait for a
/// child of another thread that has a duplicate until it executes its program.
struct Writer(OwnedFd);

impl Drop for Writer {
    fn drop(&mut self) {
        seqpacket::shut_down_sending(&self.0);
    }
}

/// What the kernel takes for a message beside its bytes, at most: a `sk_buff`, and the bytes
/// rounded up to the next power of two (`__alloc_skb`).
const OVERHEAD_BYTES: usize = 2048;

impl Carriers {
    pub(crate) fn for_backlog(backlog: &[impl Unread]) -> Result<Carriers, Status> {
        let mut carriers = Carriers { writers: Vec::new(), readers: Vec::new() };
        let charge = |bytes: usize| 2 * bytes + OVERHEAD_BYTES;
        let mut left: usize = backlog.iter().map(|unread| charge(unread.body().len())).sum();
        while left > 0 {
            if carriers.readers.len() == seqpacket::MAX_FDS {
                return Err(Status::NoResources);
            }
            let (reader, writer) = seqpacket::pair()?;
            // What one message may leave unused at the end is not counted on.
            let room = seqpacket::send_buffer_bytes(&writer)?.saturating_sub(2 * OVERHEAD_BYTES);
            left = left.saturating_sub(room.saturating_sub(1 << 17).max(1));
            carriers.readers.push(reader);
            carriers.writers.push(Writer(writer));
        }
        Ok(carriers)
    }

    /// The readers again, to go beside each other.
    pub(crate) fn readers_again(&self) -> Result<Vec<OwnedFd>, Status> {
        self.readers.iter().map(|reader| Ok(file::duplicate(reader)?)).collect()
    }

    /// Puts the backlog in. Handles in it move with it.
    pub(crate) fn fill(self, backlog: Vec<impl Unread>) -> Result<(), Status> {
        let mut writers = self.writers.into_iter();
        let mut writer = writers.next();
        for mut unread in backlog {
            let parcel = unread.pack()?;
            loop {
                let Some(current) = &writer else { return Err(Status::NoResources) };
                let regions = [IoSlice::new(unread.body())];
                let (records, fds) = (&parcel.records, &parcel.fds);
                match send(&current.0, unread.content(), &regions, records, fds) {
                    Ok(()) => break,
                    Err(Status::ShouldWait) => writer = writers.next(),
                    Err(status) => return Err(status),
                }
            }
        }
        Ok(())
    }
}
