//! Objects on their way to another process: what they are made of there.

use std::cell::Cell;
use std::os::fd::OwnedFd;

use super::packet::{RECORD_BYTES, Record};
use super::unpack::unpack;
use crate::channel::Status;
use crate::channel::handle::{Handle, Object};
use crate::channel::peer::Departed;
use crate::sys::seqpacket::MAX_FDS;

/// The handles of one message, as they go over a socket.
#[derive(Default)]
pub(in crate::channel) struct Packed {
    pub(in crate::channel) records: Vec<u8>,
    pub(in crate::channel) fds: Vec<OwnedFd>,
}

impl Packed {
    /// The handles again, as another process would get them.
    pub(in crate::channel) fn unpack(self) -> Vec<Handle> {
        // Nothing that was taken apart here fails to go together.
        unpack(&self.records, self.fds).unwrap_or_default()
    }
}

/// In the number of a channel's end: its last descriptor is to be closed when the end is read.
pub(in crate::channel) const AWAITED: u64 = 1 << 32;

/// Descriptors and a number: all that another process needs to have the object.
pub(in crate::channel) struct Parts {
    pub(in crate::channel) fds: Vec<OwnedFd>,
    pub(in crate::channel) extra: u64,
}

impl Parts {
    /// An object that is a descriptor and nothing else.
    pub(in crate::channel) fn plain(fd: OwnedFd) -> Parts {
        Parts { fds: vec![fd], extra: 0 }
    }
}

impl From<Departed> for Parts {
    fn from(departed: Departed) -> Parts {
        let Departed { fd, backlog, extra, unread } = departed;
        // Of channels alone, whose number has that bit free.
        let extra = if unread.is_some() { extra | AWAITED } else { extra };
        Parts { fds: std::iter::once(fd).chain(backlog).chain(unread).collect(), extra }
    }
}

/// Ends that lie in the backlogs of each other's may move together; deeper ones would take more
/// stack than a thread can be relied on to have.
const MOST_LEVELS: u32 = 256;

/// How deep this thread is in backlogs of backlogs.
struct Level;

thread_local! {
    static LEVELS: Cell<u32> = const { Cell::new(0) };
}

impl Level {
    fn enter() -> Result<Level, Status> {
        let levels = LEVELS.get();
        if levels == MOST_LEVELS {
            return Err(Status::NoResources);
        }
        LEVELS.set(levels + 1);
        Ok(Level)
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        LEVELS.set(LEVELS.get() - 1);
    }
}

/// Takes the handles apart. All are consumed, also if one of them cannot go.
///
/// # Errors
/// [`Status::NotSupported`] for a port; [`Status::NoResources`] if descriptors run out, the handles
/// need more of them than one message can carry, or an end's backlog holds an end whose backlog
/// holds an end, and so on, 256 deep.
pub(in crate::channel) fn pack(handles: Vec<Handle>) -> Result<Packed, Status> {
    let _level = Level::enter()?;
    let mut packed = Packed::default();
    packed.records.reserve(handles.len() * RECORD_BYTES);
    for handle in handles {
        let (kind, rights) = (handle.kind(), handle.rights());
        let parts = take_apart(handle)?;
        let record = Record { kind, fds: parts.fds.len(), rights, extra: parts.extra };
        packed.records.extend_from_slice(&record.encode());
        packed.fds.extend(parts.fds);
        if packed.fds.len() > MAX_FDS {
            return Err(Status::NoResources);
        }
    }
    Ok(packed)
}

fn take_apart(handle: Handle) -> Result<Parts, Status> {
    match handle {
        Handle::Descriptor(descriptor) => Ok(Parts::plain(descriptor.into())),
        Handle::Vmo(vmo) => vmo.depart(),
        Handle::Channel(channel) => channel.0.depart(true).map(Parts::from),
        Handle::Fifo(fifo) => fifo.depart(),
        Handle::Socket(socket) => socket.depart(),
        Handle::Event(event) => event.depart(),
        Handle::EventPair(pair) => pair.depart(),
        // Its packets are about objects of this process.
        Handle::Port(_) => Err(Status::NotSupported),
    }
}
