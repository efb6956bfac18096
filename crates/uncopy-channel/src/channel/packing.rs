//! Takes handles apart to send them to another process, and puts received ones together after
//! checking every field.

use super::endpoint::Channel;
use super::handle::Handle;
use super::message::MessageBuf;
use crate::Status;
use crate::identity::Kind;
use crate::object::{Descriptor, Event, EventPair, Fifo, Object, Socket, Vmo};
use crate::transport::carrier::{Backlogs, Unread};
use crate::transport::packet::Content;
use crate::transport::parcel::{Item, Load, Parcel, Parts, Unfit};

/// Takes the handles apart. All are consumed, even if one of them cannot be sent.
///
/// # Errors
/// [`Status::NotSupported`] for a port; [`Status::NoResources`] if descriptors run out, and as
/// [`Parcel::pack`].
pub(super) fn pack(handles: Vec<Handle>) -> Result<Parcel, Status> {
    let mut backlogs = Backlogs::default();
    let parcel = pack_without_backlogs(handles, &mut backlogs)?;
    backlogs.send()?;
    Ok(parcel)
}

/// Takes the handles apart as [`pack`] does; adds the backlogs of ends.
fn pack_without_backlogs(handles: Vec<Handle>, backlogs: &mut Backlogs) -> Result<Parcel, Status> {
    Parcel::pack(handles, |handle| {
        let (kind, rights) = (handle.kind(), handle.rights());
        Ok(Item { kind, rights, parts: take_apart(handle, backlogs)? })
    })
}

/// Returns the handles of a parcel.
pub(super) fn unpack(parcel: Parcel) -> Result<Vec<Handle>, Unfit> {
    parcel.unpack(put_together)
}

/// Returns the message of a packet; `None` if the packet breaks a rule. A message whose handles need
/// more descriptors than this process may open comes without them, marked.
pub(super) fn message_of(content: Content, load: Load) -> Option<MessageBuf> {
    let message = MessageBuf::new(load.body);
    match content {
        Content::Message if load.parcel.is_empty() => return Some(message),
        Content::Message => {}
        Content::Cut => return Some(message.cut()),
        _ => return None,
    }
    let descriptors = load.parcel.descriptors();
    match unpack(load.parcel) {
        Ok(handles) => Some(message.with_received(handles, descriptors)),
        Err(Unfit::Starved) => Some(message.cut()),
        Err(Unfit::Broken) => None,
    }
}

fn take_apart(handle: Handle, backlogs: &mut Backlogs) -> Result<Parts, Status> {
    match handle {
        Handle::Descriptor(descriptor) => Ok(Parts::plain(descriptor.into())),
        Handle::Vmo(vmo) => vmo.depart(),
        Handle::Channel(channel) => channel.0.depart(true, backlogs).map(Parts::from),
        Handle::Fifo(fifo) => fifo.depart(backlogs),
        Handle::Socket(socket) => socket.depart(backlogs),
        Handle::Event(event) => event.depart(),
        Handle::EventPair(pair) => pair.depart(),
        // Its packets refer to objects of this process.
        Handle::Port(_) => Err(Status::NotSupported),
    }
}

fn put_together(item: Item) -> Result<Handle, Unfit> {
    let Item { kind, rights, parts } = item;
    let handle = match kind {
        Kind::Descriptor => Descriptor::arrive(parts, rights).map(Into::into),
        Kind::Vmo => Vmo::arrive(parts, rights).map(Into::into),
        Kind::Channel => Channel::arrive(parts, rights).map(Into::into),
        Kind::Event => return Ok(Event::arrive(parts, rights)?.into()),
        Kind::Socket => Socket::arrive(parts, rights).map(Into::into),
        Kind::EventPair => return Ok(EventPair::arrive(parts, rights)?.into()),
        Kind::Fifo => Fifo::arrive(parts, rights).map(Into::into),
        Kind::Port => None,
    };
    handle.ok_or(Unfit::Broken)
}

impl Unread for MessageBuf {
    fn content(&self) -> Content {
        if self.is_cut() { Content::Cut } else { Content::Message }
    }

    fn body(&self) -> &[u8] {
        self
    }

    fn pack(&mut self, backlogs: &mut Backlogs) -> Result<Parcel, Status> {
        pack_without_backlogs(self.take_handles(), backlogs)
    }
}
