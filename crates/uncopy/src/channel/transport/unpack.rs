//! Handles from another process: nothing that it says is believed without a look.

use std::os::fd::OwnedFd;

use super::packet::{Garbage, RECORD_BYTES, Record};
use super::promotion::Parts;
use crate::channel::Channel;
use crate::channel::handle::{Handle, Kind};
use crate::channel::object::{Descriptor, Event, EventPair, Fifo, Socket, Vmo};
use crate::channel::rights::Rights;

/// The handles that the records and descriptors of one message are. All descriptors are closed if
/// one of them is not what its record says.
pub(super) fn unpack(records: &[u8], fds: Vec<OwnedFd>) -> Result<Vec<Handle>, Garbage> {
    let mut fds = fds.into_iter();
    let mut handles = Vec::with_capacity(records.len() / RECORD_BYTES);
    for encoded in records.chunks_exact(RECORD_BYTES) {
        let record = Record::decode(encoded.try_into().map_err(|_| Garbage)?)?;
        let own: Vec<OwnedFd> = fds.by_ref().take(record.fds).collect();
        if own.len() != record.fds {
            return Err(Garbage);
        }
        let parts = Parts { fds: own, extra: record.extra };
        handles.push(put_together(record.kind, parts, record.rights).ok_or(Garbage)?);
    }
    if fds.next().is_some() { Err(Garbage) } else { Ok(handles) }
}

fn put_together(kind: Kind, parts: Parts, rights: Rights) -> Option<Handle> {
    Some(match kind {
        Kind::Descriptor => Descriptor::arrive(parts, rights)?.into(),
        Kind::Vmo => Vmo::arrive(parts, rights)?.into(),
        Kind::Channel => Channel::arrive(parts, rights)?.into(),
        Kind::Event => Event::arrive(parts, rights)?.into(),
        Kind::Socket => Socket::arrive(parts, rights)?.into(),
        Kind::EventPair => EventPair::arrive(parts, rights)?.into(),
        Kind::Fifo => Fifo::arrive(parts, rights)?.into(),
        Kind::Port => return None,
    })
}
