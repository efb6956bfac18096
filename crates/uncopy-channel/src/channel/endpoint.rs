//! Endpoints: writing and reading.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc as StdArc;

use super::call::Calls;
use super::cycle::{self, Holder};
use super::handle::Handle;
use super::message::MessageBuf;
use super::packing::message_of;
use super::queue::{Bounds, Queue};
use crate::identity::Kind;
use crate::memory::{Buffer, Filling, scatter};
use crate::peer::{End, Locked, Pair, Peered, Side, peered};
use crate::rights::Rights;
use crate::signals::Signals;
use crate::source::Source;
use crate::status::{Fill, Status};
use crate::sync::Arc;
use crate::transport::packet::Content;
use crate::transport::parcel::Load;
use crate::{MAX_BYTES, MAX_HANDLES, MAX_REGIONS};

mod moving;
mod sending;

/// One end of a channel: sends messages to the other end and receives its messages, whole and in
/// order.
///
/// It may be used by several threads at once. Dropping it closes it: the peer keeps what is queued
/// for it, and messages queued for this end are dropped with their handles.
#[derive(Debug)]
pub struct Channel(pub(crate) Peered<ChannelEnd>);

peered!(Channel);

/// One end under the pair's lock.
pub(crate) struct ChannelEnd {
    /// Messages for this end: those that the peer wrote, or, if it is in another process, those
    /// that were taken out of the socket and not read yet.
    pub(crate) queue: Queue,
    pub(crate) calls: Calls,
    pub(crate) holder: Holder,
    /// Hangs up when this end, which has gone to another process, is read there.
    reading: Option<StdArc<OwnedFd>>,
    /// Somebody waits for this end to be read; closed then.
    unread: Option<OwnedFd>,
}

impl ChannelEnd {
    fn new(bounds: Bounds) -> ChannelEnd {
        let queue = Queue::new(bounds);
        let (calls, holder) = Default::default();
        ChannelEnd { queue, calls, holder, reading: None, unread: None }
    }
}

/// Sizes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lengths {
    /// Bytes.
    pub bytes: usize,
    /// Handles.
    pub handles: usize,
}

/// What a read does with a message that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Oversized {
    /// It stays queued.
    #[default]
    Keep,
    /// It is dropped, and its handles closed (`ZX_CHANNEL_READ_MAY_DISCARD`).
    Discard,
}

/// A message that was not accepted, and why.
pub(crate) type Rejected = (Status, MessageBuf);

impl Channel {
    /// Makes a new channel and returns both ends, with the default [`Bounds`].
    #[must_use]
    pub fn pair() -> (Channel, Channel) {
        Channel::pair_with(Bounds::default())
    }

    /// Makes a new channel and returns both ends, whose queues are bounded by `bounds`, each.
    #[must_use]
    pub fn pair_with(bounds: Bounds) -> (Channel, Channel) {
        let ends = [(); 2].map(|()| ChannelEnd::new(bounds));
        let [a, b] = Peered::pair(ends).map(Channel);
        (a, b)
    }

    /// Sends the regions one behind the other as one message, with `handles`: all of it or
    /// nothing. The bytes are copied once, straight into the message.
    ///
    /// # Errors
    /// In this order: [`Status::AccessDenied`] without [`Rights::WRITE`]; [`Status::OutOfRange`]
    /// for more than [`MAX_REGIONS`], [`MAX_BYTES`] or [`MAX_HANDLES`]; the first failing handle's
    /// ([`Status::AccessDenied`] without [`Rights::TRANSFER`], [`Status::NotSupported`] if it is
    /// this very endpoint); [`Status::PeerClosed`]; [`Status::ShouldWait`] if the peer's queue is
    /// full.
    ///
    /// # Ownership
    /// Handles are consumed on success and on every failure, as by `zx_channel_write`.
    /// [`try_write`](Self::try_write) keeps them where the queue is full.
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
        if self.0.is_wired() {
            return self.write_wired(regions, handles);
        }
        self.write_with(total_bytes(regions), |filling| Ok(filling.append_all(regions)?), handles)
    }

    /// Sends a message of `total_bytes` that `fill` writes in place: the way of all writes.
    /// [`usize::MAX`] stands for any length that is too long.
    ///
    /// # Errors
    /// As [`write`](Self::write), and after the sizes `fill`'s own.
    ///
    /// # Ownership
    /// Of the handles: as of [`try_write`](Self::try_write).
    #[inline]
    pub fn write_with(
        &self,
        total_bytes: usize,
        fill: impl Fill,
        handles: &mut Vec<Handle>,
    ) -> Result<(), Status> {
        let count = handles.len();
        let result = self.send(total_bytes, fill, count, || self.check_handles(handles));
        if let Err((status, mut rejected)) = result {
            handles.clear();
            if status == Status::ShouldWait {
                *handles = rejected.take_handles();
            }
            return Err(status);
        }
        Ok(())
    }

    /// Checks in Zircon's order, fills a message, collects its handles, delivers it.
    #[inline]
    pub(crate) fn send(
        &self,
        total_bytes: usize,
        fill: impl Fill,
        handle_count: usize,
        collect: impl FnOnce() -> Result<Vec<Handle>, Status>,
    ) -> Result<(), Rejected> {
        let refused = |status| (status, MessageBuf::empty());
        self.0.grant.check(Rights::WRITE).map_err(refused)?;
        let mut message = create(total_bytes, fill, handle_count).map_err(refused)?;
        if handle_count > 0 {
            message = message.with_handles(collect().map_err(refused)?);
        }
        self.hand_over(message)
    }

    /// Delivers a message, here or over the socket.
    #[inline(always)]
    fn hand_over(&self, message: MessageBuf) -> Result<(), Rejected> {
        if self.0.is_wired() {
            return self.transmit_message(message);
        }
        self.enter_queue(message.handles());
        let mut locked = match self.0.lock() {
            Ok(locked) => locked,
            Err(status) => return Err((status, message)),
        };
        if locked.wire(self.0.side).is_some() {
            // The other end has gone just now.
            drop(locked);
            leave_queue(message.handles());
            return self.transmit_message(message);
        }
        match deliver(&mut locked, self.0.side, message) {
            Ok(()) => Ok(()),
            Err((status, rejected)) => {
                drop(locked);
                leave_queue(rejected.handles());
                Err((status, rejected))
            }
        }
    }

    /// Takes the handles if each may be sent from here. All are attempted; the first error counts.
    pub(crate) fn check_handles(&self, handles: &mut Vec<Handle>) -> Result<Vec<Handle>, Status> {
        let handles = std::mem::take(handles);
        handles.iter().try_for_each(|handle| self.check_handle(handle))?;
        Ok(handles)
    }

    /// The first checks of a handle that is to be sent from here.
    pub(crate) fn check_handle(&self, handle: &Handle) -> Result<(), Status> {
        handle.grant().check(Rights::TRANSFER)?;
        match handle {
            Handle::Channel(channel) if channel.0.is_same_end(&self.0) => Err(Status::NotSupported),
            _ => Ok(()),
        }
    }

    /// Endpoints among `handles` will be reachable through the peer's queue alone.
    pub(crate) fn enter_queue(&self, handles: &[Handle]) {
        for handle in handles {
            if let Handle::Channel(channel) = handle
                && let Ok(mut locked) = channel.0.lock()
            {
                let side = channel.0.side;
                locked.end(side).holder.enter(&self.0.pair, self.0.side.peer());
            }
        }
    }

    /// This endpoint is a program's again.
    pub(crate) fn left_queue(&self) {
        if let Ok(mut locked) = self.0.lock() {
            locked.end(self.0.side).holder.leave();
        }
    }

    /// Takes the next message, without copying.
    ///
    /// # Errors
    /// [`Status::AccessDenied`] without [`Rights::READ`]; [`Status::ShouldWait`] if the queue is
    /// empty, or [`Status::PeerClosed`] if nothing can come any more.
    #[inline]
    pub fn read(&self) -> Result<MessageBuf, Status> {
        let room = Lengths { bytes: usize::MAX, handles: usize::MAX };
        self.read_fitting(room, Oversized::Keep)
    }

    /// Takes the next message as [`read`](Self::read) does, if it fits into `room`.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Status::BufferTooSmall`] with the real sizes.
    #[inline]
    pub fn read_fitting(&self, room: Lengths, oversized: Oversized) -> Result<MessageBuf, Status> {
        self.0.grant.check(Rights::READ)?;
        let mut locked = self.0.lock()?;
        let taken = take(&mut locked, self.0.side, room, oversized);
        drop(locked);
        let (message, fits) = taken?;
        if message.handles().is_empty() && fits {
            return Ok(message);
        }
        message.handles().iter().for_each(Handle::arrived);
        if fits {
            return Ok(message);
        }
        Err(Status::BufferTooSmall { bytes: message.len(), handles: message.handles().len() })
    }

    /// Copies the next message into `bytes` and its handles into the first slots of `handles`,
    /// closing what was in them; says how many of each there were. Other slots stay as they were.
    ///
    /// # Errors
    /// As [`read_fitting`](Self::read_fitting).
    #[inline]
    pub fn read_into(
        &self,
        bytes: &mut [u8],
        handles: &mut [Option<Handle>],
    ) -> Result<Lengths, Status> {
        let room = Lengths { bytes: bytes.len(), handles: handles.len() };
        let mut message = self.read_fitting(room, Oversized::Keep)?;
        bytes[..message.len()].copy_from_slice(&message);
        Ok(hand_out(&mut message, handles))
    }

    /// Copies as [`read_into`](Self::read_into) does, with the bytes spread over `regions`, each filled
    /// before the next.
    ///
    /// # Errors
    /// As [`read_fitting`](Self::read_fitting); room is the sum of all regions.
    pub fn read_scattered(
        &self,
        regions: &mut [IoSliceMut<'_>],
        handles: &mut [Option<Handle>],
    ) -> Result<Lengths, Status> {
        let bytes = regions.iter().fold(0usize, |sum, region| sum.saturating_add(region.len()));
        let room = Lengths { bytes, handles: handles.len() };
        let mut message = self.read_fitting(room, Oversized::Keep)?;
        scatter(&message, regions);
        Ok(hand_out(&mut message, handles))
    }
}

fn hand_out(message: &mut MessageBuf, slots: &mut [Option<Handle>]) -> Lengths {
    let lengths = Lengths { bytes: message.len(), handles: message.handles().len() };
    if lengths.handles > 0 {
        for (slot, handle) in slots.iter_mut().zip(message.take_handles()) {
            *slot = Some(handle);
        }
    }
    lengths
}

/// The regions' sum if that is not too long; [`usize::MAX`] for too many regions.
#[inline]
pub(crate) fn total_bytes(regions: &[IoSlice<'_>]) -> usize {
    if regions.len() > MAX_REGIONS {
        return usize::MAX;
    }
    // A length that alone is too long counts as the least of those, so that no sum overflows and
    // the additions do not have to wait for a check each.
    regions.iter().map(|region| region.len().min(MAX_BYTES + 1)).sum()
}

/// A message without its handles: sizes first, then bytes.
#[inline]
pub(crate) fn create(
    total_bytes: usize,
    fill: impl FnOnce(&mut Filling<'_>) -> Result<(), Status>,
    handle_count: usize,
) -> Result<MessageBuf, Status> {
    if total_bytes > MAX_BYTES || handle_count > MAX_HANDLES {
        return Err(Status::OutOfRange);
    }
    Ok(MessageBuf::new(Buffer::filled(total_bytes, fill, Status::InvalidArgs)?))
}

/// What could not be sent is a program's again.
pub(crate) fn leave_queue(handles: &[Handle]) {
    for handle in handles {
        if let Handle::Channel(channel) = handle {
            channel.left_queue();
        }
    }
}

/// Hands `message` from `side` to its peer: to the call that waits for it, or to the queue.
#[inline(always)]
pub(crate) fn deliver(
    locked: &mut Locked<'_, ChannelEnd>,
    side: Side,
    message: MessageBuf,
) -> Result<(), Rejected> {
    let peer = side.peer();
    // Of `side` itself: with its last handle, while one that was succeeded is in use.
    if locked.is_closed(peer) || locked.is_closed(side) {
        return Err((Status::PeerClosed, message));
    }
    let end = locked.end(peer);
    if let Some(call) = end.calls.asked_for(&message) {
        call.answer(Ok(message));
        return Ok(());
    }
    if !end.queue.has_room() {
        return Err((Status::ShouldWait, message));
    }
    enqueue(locked, peer, message);
    Ok(())
}

/// Puts `message` behind those that wait for `side`.
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

/// Takes the next message of `side`, and says whether it fits into `room`.
#[inline]
fn take(
    locked: &mut Locked<'_, ChannelEnd>,
    side: Side,
    room: Lengths,
    oversized: Oversized,
) -> Result<(MessageBuf, bool), Status> {
    if locked.end(side).queue.is_empty() {
        locked.pump(side, Signals::READABLE);
    }
    let is_orphan = locked.is_orphan(side);
    let queue = &mut locked.end(side).queue;
    let Some(next) = queue.front() else {
        return Err(if is_orphan { Status::PeerClosed } else { Status::ShouldWait });
    };
    let (bytes, handles) = (next.len(), next.handles().len());
    let fits = bytes <= room.bytes && handles <= room.handles;
    if !fits && oversized == Oversized::Keep {
        return Err(Status::BufferTooSmall { bytes, handles });
    }
    let was_full = !queue.has_room();
    let message = queue.pop().ok_or(Status::ShouldWait)?;
    let (is_empty, has_room) = (queue.is_empty(), queue.has_room());
    if is_empty {
        locked.update(side, Signals::READABLE, Signals::empty());
    }
    if was_full && has_room {
        made_room(locked, side, is_orphan);
    }
    Ok((message, fits))
}

/// The queue of `side` is no longer full.
fn made_room(locked: &mut Locked<'_, ChannelEnd>, side: Side, is_orphan: bool) {
    if locked.wire(side).is_some() {
        // What stayed in the socket may be what somebody waits for.
        locked.pump(side, Signals::empty());
        locked.look(side);
    } else if !is_orphan {
        locked.update(side.peer(), Signals::empty(), Signals::WRITABLE);
    }
}

/// What a closed endpoint leaves behind.
#[derive(Default)]
pub(crate) struct Remains {
    messages: VecDeque<MessageBuf>,
    /// The peer, if it lies in a queue: nobody may be able to reach it any more.
    suspect: Option<(Arc<Pair<ChannelEnd>>, Side)>,
}

impl End for ChannelEnd {
    const KIND: Kind = Kind::Channel;
    const RIGHTS: Rights = Rights::CHANNEL;
    const INITIAL: Signals = Signals::WRITABLE;
    const USER: Signals = Signals::USER_ALL;
    type Remains = Remains;
    type Unread = MessageBuf;

    fn close(
        pair: &Arc<Pair<ChannelEnd>>,
        locked: &mut Locked<'_, ChannelEnd>,
        side: Side,
    ) -> Remains {
        let peer = side.peer();
        let end = locked.end(side);
        end.calls.end(Status::Canceled);
        end.holder.leave();
        let messages = end.queue.take();
        let end = locked.end(peer);
        end.calls.end(Status::PeerClosed);
        let suspect = end.holder.is_queued().then(|| (pair.clone(), peer));
        locked.update(peer, Signals::WRITABLE, Signals::PEER_CLOSED);
        Remains { messages, suspect }
    }

    /// Messages may hold endpoints whose queues hold endpoints, however deep: one after the other.
    fn bury(remains: Remains) {
        let mut handles = Vec::new();
        let mut next = Some(remains);
        loop {
            if let Some(Remains { messages, suspect }) = next.take() {
                handles.extend(messages.into_iter().flat_map(|mut m| m.take_handles()));
                if let Some((pair, side)) = suspect {
                    let lost = cycle::unreachable(&pair, side);
                    handles.extend(lost.into_iter().flat_map(|mut m| m.take_handles()));
                }
            }
            match handles.pop() {
                Some(Handle::Channel(mut channel)) => next = Some(channel.0.close()),
                Some(_) => {}
                None => return,
            }
        }
    }

    fn cancel_calls(locked: &mut Locked<'_, ChannelEnd>, side: Side) {
        locked.end(side).calls.end(Status::Canceled);
    }

    fn has_room(&self) -> bool {
        self.queue.has_room() || (self.calls.are_waiting() && self.queue.has_room_before_answer())
    }

    fn has_room_for_two(&self) -> bool {
        self.queue.has_room_for_two()
    }

    fn take_in(
        locked: &mut Locked<'_, ChannelEnd>,
        side: Side,
        content: Content,
        load: Load,
    ) -> bool {
        if content != Content::Message {
            return false;
        }
        let Some(message) = message_of(load) else { return false };
        let end = locked.end(side);
        match end.calls.asked_for(&message) {
            Some(call) => call.answer(Ok(message)),
            None => {
                end.queue.push(message);
                locked.update(side, Signals::empty(), Signals::READABLE);
            }
        }
        true
    }

    fn cut_off(&mut self) {
        self.calls.end(Status::PeerClosed);
    }

    fn look(&mut self) {
        self.calls.look();
    }

    fn give_up(&mut self) -> Vec<MessageBuf> {
        self.queue.take().into()
    }

    fn go_remote(&mut self) {
        self.queue.limit_handles(REMOTE_HANDLES);
    }

    fn awaits_reading(&self) -> bool {
        self.calls.are_waiting()
    }

    fn left(&mut self, reading: Option<StdArc<OwnedFd>>) {
        if reading.is_none() {
            self.calls.end(Status::Canceled);
        }
        self.reading = reading;
        self.holder.leave();
    }

    fn reading(&self) -> Option<StdArc<OwnedFd>> {
        self.reading.clone()
    }

    fn was_read(&mut self) {
        self.reading = None;
        self.calls.end(Status::Canceled);
    }

    fn take_unread(&mut self) -> Option<OwnedFd> {
        self.unread.take()
    }
}

/// From so many descriptors on that were taken out of the socket and not read, no more are taken,
/// so that the peer cannot use up this process's; two messages at most go beyond.
const REMOTE_HANDLES: usize = 64;
