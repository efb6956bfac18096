//! Handles in packets: a record for each, and descriptors.

use std::os::fd::OwnedFd;

use super::packet::{HEADER_BYTES, RECORD_BYTES, Record};
use crate::Status;
use crate::identity::Kind;
use crate::memory::Buffer;
use crate::rights::Rights;
use uncopy_os::seqpacket::MAX_FDS;

/// Body of a packet, and its handles taken apart.
pub(crate) struct Load {
    pub(crate) body: Buffer,
    pub(crate) parcel: Parcel,
}

impl Load {
    /// Returns its size on the socket.
    pub(crate) fn packet_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len() + self.parcel.records.len()
    }
}

/// The handles of one message, taken apart.
#[derive(Default)]
pub(crate) struct Parcel {
    pub(super) records: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

/// One handle, taken apart.
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) rights: Rights,
    pub(crate) parts: Parts,
}

/// Why an object was not made of what another process sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is not what its record says.
    Broken,
    /// This process has too few descriptors for it.
    Starved,
}

impl From<Status> for Unfit {
    fn from(status: Status) -> Unfit {
        if status == Status::NoResources { Unfit::Starved } else { Unfit::Broken }
    }
}

/// Descriptors and a number: everything that another process needs to use the object.
pub(crate) struct Parts {
    pub(crate) fds: Vec<OwnedFd>,
    pub(crate) extra: u64,
}

impl Parts {
    /// Returns the parts of an object that consists of one descriptor.
    pub(crate) fn plain(fd: OwnedFd) -> Parts {
        Parts { fds: vec![fd], extra: 0 }
    }
}

impl Parcel {
    /// Whether there are no handles.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the number of descriptors that the handles consist of.
    pub(crate) fn descriptors(&self) -> usize {
        self.fds.len()
    }

    /// Takes the handles apart, each by `take_apart`. All are consumed, even if one of them cannot be
    /// sent.
    ///
    /// # Errors
    /// Those of `take_apart`; [`Status::NoResources`] if the handles need more descriptors than one
    /// message can carry.
    pub(crate) fn pack<H>(
        handles: Vec<H>,
        mut take_apart: impl FnMut(H) -> Result<Item, Status>,
    ) -> Result<Parcel, Status> {
        let mut packed = Parcel::default();
        packed.records.reserve(handles.len() * RECORD_BYTES);
        for handle in handles {
            let Item { kind, rights, parts } = take_apart(handle)?;
            let record = Record { kind, fds: parts.fds.len(), rights, extra: parts.extra };
            packed.records.extend_from_slice(&record.encode());
            packed.fds.extend(parts.fds);
            if packed.fds.len() > MAX_FDS {
                return Err(Status::NoResources);
            }
        }
        Ok(packed)
    }

    /// Returns the handles, each put together by `put_together`. If that fails for one of them, or it is
    /// not what its record says, closes all descriptors.
    pub(crate) fn unpack<H>(
        self,
        put_together: impl Fn(Item) -> Result<H, Unfit>,
    ) -> Result<Vec<H>, Unfit> {
        let mut fds = self.fds.into_iter();
        let mut handles = Vec::with_capacity(self.records.len() / RECORD_BYTES);
        for encoded in self.records.chunks_exact(RECORD_BYTES) {
            let Record { kind, fds: count, rights, extra } = encoded
                .try_into()
                .ok()
                .and_then(|e| Record::decode(e).ok())
                .ok_or(Unfit::Broken)?;
            let own: Vec<OwnedFd> = fds.by_ref().take(count).collect();
            if own.len() != count {
                return Err(Unfit::Broken);
            }
            let parts = Parts { fds: own, extra };
            handles.push(put_together(Item { kind, rights, parts })?);
        }
        if fds.next().is_some() { Err(Unfit::Broken) } else { Ok(handles) }
    }
}
