//! Writing. The checks are the same wherever the other end is, in Zircon's order: the right, the
//! sizes, the bytes, the handles ([`Channel::prepare`]), then the peer ([`Locked::transport`]).

use std::io::IoSlice;

use super::{Channel, ChannelEnd, Lengths};
use crate::channel::handle::Handle;
use crate::channel::message::MessageBuf;
use crate::channel::packing::{pack, unpack};
use crate::memory::{Buffer, Filling};
use crate::peer::{Locked, Side, Transport};
use crate::region::Region;
use crate::rights::Rights;
use crate::signals::Signals;
use crate::source::Source;
use crate::status::{Fill, Status};
use crate::transport::gather::{Body, check_all};
use crate::transport::packet::Content;
use crate::transport::parcel::Parcel;
use crate::transport::wire::Wire;
use crate::{MAX_BYTES, MAX_HANDLES, MAX_REGIONS};

/// A message on its way through [`Channel::prepare`].
pub(crate) trait Outgoing {
    /// Adds the checked handles, if there are any.
    fn set_handles(&mut self, handles: Vec<Handle>);
}

impl Outgoing for MessageBuf {
    #[inline]
    fn set_handles(&mut self, handles: Vec<Handle>) {
        MessageBuf::set_handles(self, handles);
    }
}

/// The handles of a message whose regions stay where they lie.
impl Outgoing for Vec<Handle> {
    fn set_handles(&mut self, handles: Vec<Handle>) {
        *self = handles;
    }
}

/// A message that was not accepted, and why.
pub(crate) struct Rejected {
    pub(crate) status: Status,
    pub(crate) message: MessageBuf,
}

impl Rejected {
    /// Refusal of a message that was not made or is consumed.
    pub(crate) fn without_message(status: Status) -> Rejected {
        Rejected { status, message: MessageBuf::empty() }
    }

    /// Refusal of a message whose handles are closed, unless there was no room for it.
    fn with_handles(status: Status, handles: Vec<Handle>) -> Rejected {
        let mut rejected = Rejected::without_message(status);
        if status == Status::ShouldWait {
            rejected.message.set_handles(handles);
        }
        rejected
    }
}

impl Channel {
    /// Sends the regions one behind the other as one message, with `handles`: all of it or
    /// nothing. The bytes are copied once, straight into the message.
    ///
    /// # Errors
    /// In this order: [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::OutOfRange`]
    /// for more than [`MAX_REGIONS`], [`MAX_BYTES`] or [`MAX_HANDLES`]; the status of the first
    /// failing handle ([`Status::AccessDenied`] without [`Rights::TRANSFER`],
    /// [`Status::NotSupported`] if it is this very endpoint); [`Status::PeerClosed`];
    /// [`Status::ShouldWait`] if the peer's queue is full.
    ///
    /// # Ownership
    /// Handles are consumed on success and on every failure, as by `zx_channel_write`.
    /// [`try_write`](Self::try_write) keeps them if the queue is full.
    pub fn write(&self, regions: &[IoSlice<'_>], mut handles: Vec<Handle>) -> Result<(), Status> {
        self.try_write(regions, &mut handles)
    }

    /// Sends as [`write`](Self::write) does, and keeps the handles for the next attempt if the queue is
    /// full.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    ///
    /// # Ownership
    /// The handles stay in `handles` after [`Status::ShouldWait`]; `handles` is empty after every other
    /// outcome.
    #[inline]
    pub fn try_write(
        &self,
        regions: &[IoSlice<'_>],
        handles: &mut Vec<Handle>,
    ) -> Result<(), Status> {
        self.write_regions(total_bytes(regions), regions, handles)
    }

    /// Sends as [`try_write`](Self::try_write) does, regions of any memory, which have `total_bytes`
    /// together. [`usize::MAX`] stands for any length that is too long.
    ///
    /// # Errors
    /// As [`write`](Self::write), and after the sizes [`Status::InvalidArgs`] if the memory of a region
    /// is not there, or if the regions have more or fewer bytes.
    ///
    /// # Ownership
    /// The handles are treated as by [`try_write`](Self::try_write).
    #[inline]
    pub fn write_regions<R: Region>(
        &self,
        total_bytes: usize,
        regions: &[R],
        handles: &mut Vec<Handle>,
    ) -> Result<(), Status> {
        let lengths = Lengths { bytes: total_bytes, handles: handles.len() };
        match self.send_regions(lengths, regions, || self.check_handles(handles)) {
            Ok(()) => Ok(()),
            Err(rejected) => Err(keep_or_drop(rejected, handles)),
        }
    }

    /// Sends a message of `total_bytes` that `fill` writes in place. [`usize::MAX`] stands for any
    /// length that is too long.
    ///
    /// # Errors
    /// As [`write`](Self::write), and after the sizes those of `fill`.
    ///
    /// # Ownership
    /// The handles are treated as by [`try_write`](Self::try_write).
    #[inline]
    pub fn write_with(
        &self,
        total_bytes: usize,
        fill: impl Fill,
        handles: &mut Vec<Handle>,
    ) -> Result<(), Status> {
        let lengths = Lengths { bytes: total_bytes, handles: handles.len() };
        match self.send(lengths, fill, || self.check_handles(handles)) {
            Ok(()) => Ok(()),
            Err(rejected) => Err(keep_or_drop(rejected, handles)),
        }
    }

    /// Checks and sends one message of regions, with the handles that `collect` checks.
    #[inline]
    pub(crate) fn send_regions<R: Region>(
        &self,
        lengths: Lengths,
        regions: &[R],
        collect: impl FnOnce() -> Result<Vec<Handle>, Status>,
    ) -> Result<(), Rejected> {
        if self.0.is_wired() {
            return self.send_in_place(lengths, regions, collect);
        }
        self.send(lengths, |filling| R::append_all(regions, filling), collect)
    }

    /// Sends regions from where they lie, because the other end is in another process and the
    /// kernel copies them.
    fn send_in_place<R: Region>(
        &self,
        lengths: Lengths,
        regions: &[R],
        collect: impl FnOnce() -> Result<Vec<Handle>, Status>,
    ) -> Result<(), Rejected> {
        let body = || in_place(lengths, regions);
        let prepared = self.prepare(Rights::WRITE, lengths, body, collect);
        let handles = prepared.map_err(Rejected::without_message)?;
        let locked = self.0.lock().map_err(|status| refusal(status, regions))?;
        self.transmit_in_place(locked, Body::new(regions, lengths.bytes), handles)
    }

    /// Sends a message whose regions stay where they lie.
    pub(crate) fn transmit_in_place<R: Region>(
        &self,
        locked: Locked<'_, ChannelEnd>,
        body: Body<'_, R>,
        handles: Vec<Handle>,
    ) -> Result<(), Rejected> {
        let regions = body.regions();
        match locked.transport(self.0.side) {
            Ok(Transport::Wired(wire)) => self.transmit(&wire, body, handles),
            // A wired end stays wired until it is closed.
            Ok(Transport::Local(_)) => Err(refusal(Status::BadState, regions)),
            Err(status) => Err(refusal(status, regions)),
        }
    }

    /// Checks, fills and sends one message with the handles that `collect` checks.
    #[inline]
    pub(crate) fn send(
        &self,
        lengths: Lengths,
        fill: impl Fill,
        collect: impl FnOnce() -> Result<Vec<Handle>, Status>,
    ) -> Result<(), Rejected> {
        let body = || gather(lengths.bytes, fill);
        let message = match self.prepare(Rights::WRITE, lengths, body, collect) {
            Ok(message) => message,
            Err(status) => return Err(Rejected::without_message(status)),
        };
        self.enter_queue(message.handles());
        match self.0.lock() {
            Ok(locked) => self.deliver(locked, message),
            Err(status) => Err(Rejected { status, message }),
        }
    }

    /// Makes the checks of everything that sends, in Zircon's order, and returns the message. Only
    /// the peer is checked later, under the lock.
    #[inline(always)]
    pub(crate) fn prepare<T: Outgoing>(
        &self,
        rights: Rights,
        lengths: Lengths,
        body: impl FnOnce() -> Result<T, Status>,
        collect: impl FnOnce() -> Result<Vec<Handle>, Status>,
    ) -> Result<T, Status> {
        self.0.grant.check(rights)?;
        if lengths.bytes > MAX_BYTES || lengths.handles > MAX_HANDLES {
            return Err(Status::OutOfRange);
        }
        let mut message = body()?;
        if lengths.handles > 0 {
            message.set_handles(collect()?);
        }
        Ok(message)
    }

    /// Takes the handles if each may be sent from here; otherwise returns the status of the first
    /// that may not, and leaves them to be closed.
    pub(crate) fn check_handles(&self, handles: &mut Vec<Handle>) -> Result<Vec<Handle>, Status> {
        handles.iter().try_for_each(|handle| self.check_handle(handle))?;
        Ok(std::mem::take(handles))
    }

    /// Makes the first checks of a handle that is to be sent from here.
    pub(crate) fn check_handle(&self, handle: &Handle) -> Result<(), Status> {
        handle.grant().check(Rights::TRANSFER)?;
        match handle {
            Handle::Channel(channel) if channel.0.is_same_end(&self.0) => Err(Status::NotSupported),
            _ => Ok(()),
        }
    }

    /// Hands over a message whose endpoints have [entered the peer's queue](Self::enter_queue). The
    /// endpoints of a rejected message have left it again.
    #[inline(always)]
    pub(crate) fn deliver(
        &self,
        locked: Locked<'_, ChannelEnd>,
        message: MessageBuf,
    ) -> Result<(), Rejected> {
        match locked.transport(self.0.side) {
            Ok(Transport::Local(mut locked)) => {
                match hand_over(&mut locked, self.0.side, message) {
                    Ok(()) => Ok(()),
                    Err(rejected) => {
                        drop(locked);
                        leave_queue(rejected.message.handles());
                        Err(rejected)
                    }
                }
            }
            Ok(Transport::Wired(wire)) => {
                leave_queue(message.handles());
                self.transmit_message(&wire, message)
            }
            Err(status) => {
                leave_queue(message.handles());
                Err(Rejected { status, message })
            }
        }
    }

    /// Records that the endpoints among `handles` can be reached through the peer's queue only.
    #[inline(always)]
    pub(crate) fn enter_queue(&self, handles: &[Handle]) {
        if !handles.is_empty() {
            self.enter_queue_each(handles);
        }
    }

    fn enter_queue_each(&self, handles: &[Handle]) {
        for handle in handles {
            if let Handle::Channel(channel) = handle
                && let Ok(mut locked) = channel.0.lock()
            {
                let side = channel.0.side;
                locked.end(side).holder.enter(&self.0.pair, self.0.side.peer());
            }
        }
    }

    /// Sends a message over the socket.
    pub(crate) fn transmit_message(
        &self,
        wire: &Wire,
        mut message: MessageBuf,
    ) -> Result<(), Rejected> {
        let handles = message.take_handles();
        let regions = [IoSlice::new(&message)];
        let sent = self.transmit(wire, Body::new(&regions, message.len()), handles);
        sent.map_err(|Rejected { status, message: mut unsent }| {
            message.set_handles(unsent.take_handles());
            Rejected { status, message }
        })
    }

    /// Sends regions and handles as one message over the socket. The handles come back with
    /// [`Status::ShouldWait`]; after any other failure they are closed.
    pub(crate) fn transmit<R: Region>(
        &self,
        wire: &Wire,
        body: Body<'_, R>,
        handles: Vec<Handle>,
    ) -> Result<(), Rejected> {
        if handles.is_empty() {
            let regions = body.regions();
            let sent = wire.send_body(Content::Message, body, &Parcel::default());
            return self.0.record_sent(sent).map_err(|status| refusal(status, regions));
        }
        // Before the handles are taken apart.
        if let Err(status) = self.0.check_room(wire) {
            return Err(Rejected::with_handles(status, handles));
        }
        let parcel = pack(handles).map_err(Rejected::without_message)?;
        let sent = wire.send_body(Content::Message, body, &parcel);
        self.0.record_sent(sent).map_err(|status| match status {
            // Handles that were taken apart here can always be put together again.
            Status::ShouldWait => {
                Rejected::with_handles(status, unpack(parcel).unwrap_or_default())
            }
            _ => Rejected::without_message(status),
        })
    }
}

/// Checks the regions of a message with handles before these are consumed: regions come first in
/// Zircon's order. Without handles the kernel finds a region whose memory is not there.
pub(crate) fn in_place(lengths: Lengths, regions: &[impl Region]) -> Result<Vec<Handle>, Status> {
    if lengths.handles > 0 {
        check_all(regions)?;
    }
    Ok(Vec::new())
}

/// Refusal of a message whose regions the kernel may not have read: one whose memory is not there
/// comes first in Zircon's order.
#[cold]
pub(crate) fn refusal(status: Status, regions: &[impl Region]) -> Rejected {
    let status = match status {
        Status::InvalidArgs => status,
        _ => check_all(regions).err().unwrap_or(status),
    };
    Rejected::without_message(status)
}

/// Leaves the handles of a message that found no room to the caller, and closes all others.
fn keep_or_drop(mut rejected: Rejected, handles: &mut Vec<Handle>) -> Status {
    handles.clear();
    if rejected.status == Status::ShouldWait {
        *handles = rejected.message.take_handles();
    }
    rejected.status
}

/// Sum of the regions if it is not too long; [`usize::MAX`] for too many regions.
#[inline]
pub(crate) fn total_bytes(regions: &[IoSlice<'_>]) -> usize {
    if regions.len() > MAX_REGIONS {
        return usize::MAX;
    }
    // All bits of the lengths together are at least the largest, so that one check is enough.
    const MAX_EACH: usize = usize::MAX / MAX_REGIONS;
    let (all, sum) = regions.iter().fold((0, 0usize), |(all, sum), region| {
        (all | region.len(), sum.wrapping_add(region.len()))
    });
    if all > MAX_EACH { usize::MAX } else { sum }
}

/// Returns a message without handles, filled by `fill`. Its size has been checked.
#[inline]
pub(crate) fn gather(
    total_bytes: usize,
    fill: impl FnOnce(&mut Filling<'_>) -> Result<(), Status>,
) -> Result<MessageBuf, Status> {
    Ok(MessageBuf::new(Buffer::filled(total_bytes, fill, Status::InvalidArgs)?))
}

/// Records that a program holds these endpoints again.
pub(crate) fn leave_queue(handles: &[Handle]) {
    for handle in handles {
        if let Handle::Channel(channel) = handle {
            channel.left_queue();
        }
    }
}

/// Gives `message` from `side` to the call that waits for it at the peer, or puts it into the
/// peer's queue.
#[inline(always)]
pub(crate) fn hand_over(
    locked: &mut Locked<'_, ChannelEnd>,
    side: Side,
    message: MessageBuf,
) -> Result<(), Rejected> {
    let peer = side.peer();
    let end = locked.end(peer);
    if let Some(call) = end.calls.answered_by(&message) {
        call.answer(Ok(message));
        return Ok(());
    }
    if !end.queue.has_room() {
        return Err(Rejected { status: Status::ShouldWait, message });
    }
    enqueue(locked, peer, message);
    Ok(())
}

/// Appends `message` to the queue of `side`.
#[inline(always)]
pub(crate) fn enqueue(locked: &mut Locked<'_, ChannelEnd>, side: Side, message: MessageBuf) {
    let queue = &mut locked.end(side).queue;
    queue.push(message);
    let is_full = !queue.has_room();
    locked.update(side, Signals::empty(), Signals::READABLE);
    if is_full {
        locked.update(side.peer(), Signals::WRITABLE, Signals::empty());
    }
}
