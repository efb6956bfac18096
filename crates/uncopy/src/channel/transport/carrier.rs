//! What was queued at an end when it moved, in sockets that move with it.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use super::packet::Content;
use super::promotion::pack;
use super::wire::send;
use crate::buf::{Buffer, Filling, TooLong};
use crate::channel::Status;
use crate::channel::message::MessageBuf;
use crate::sys::{file, seqpacket};

/// One packet of a backlog.
pub(in crate::channel) type Queued = (Content, MessageBuf);

/// Bytes as one packet of a backlog; none: no packet.
pub(in crate::channel) fn queued(regions: &[IoSlice<'_>]) -> Option<Queued> {
    let length = regions.iter().map(|region| region.len()).sum();
    if length == 0 {
        return None;
    }
    let fill = |filling: &mut Filling<'_>| filling.append_all(regions);
    let buffer = Buffer::filled(length, fill, TooLong).ok()?;
    Some((Content::Message, MessageBuf::new(buffer)))
}

/// Empty sockets for a backlog, so many that it fits.
pub(in crate::channel) struct Carriers {
    writers: Vec<Writer>,
    /// What moves.
    pub(in crate::channel) readers: Vec<OwnedFd>,
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
    pub(in crate::channel) fn for_backlog(backlog: &[Queued]) -> Result<Carriers, Status> {
        let mut carriers = Carriers { writers: Vec::new(), readers: Vec::new() };
        let charge = |(_, message): &Queued| 2 * message.len() + OVERHEAD_BYTES;
        let mut left: usize = backlog.iter().map(charge).sum();
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
    pub(in crate::channel) fn readers_again(&self) -> Result<Vec<OwnedFd>, Status> {
        self.readers.iter().map(|reader| Ok(file::duplicate(reader)?)).collect()
    }

    /// Puts the backlog in. Handles in it move with it.
    pub(in crate::channel) fn fill(self, backlog: Vec<Queued>) -> Result<(), Status> {
        let mut writers = self.writers.into_iter();
        let mut writer = writers.next();
        for (content, mut message) in backlog {
            let packed = pack(message.take_handles())?;
            loop {
                let Some(current) = &writer else { return Err(Status::NoResources) };
                let regions = [IoSlice::new(&message)];
                match send(&current.0, content, &regions, &packed.records, &packed.fds) {
                    Ok(()) => break,
                    Err(Status::ShouldWait) => writer = writers.next(),
                    Err(status) => return Err(status),
                }
            }
        }
        Ok(())
    }
}
