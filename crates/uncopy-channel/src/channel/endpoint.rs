//! Endpoints of channels: their state under the pair's lock, and how they are closed.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc as StdArc;

use super::call::Calls;
use super::cycle::{self, Holder};
use super::handle::Handle;
use super::message::MessageBuf;
use super::packing::message_of;
use super::queue::{Bounds, Queue};
use crate::identity::Kind;
use crate::peer::{End, Locked, Pair, Peered, Side, peered};
use crate::rights::Rights;
use crate::signals::Signals;
use crate::status::Status;
use crate::sync::Arc;
use crate::transport::packet::Content;
use crate::transport::parcel::Load;

mod moving;
mod reading;
mod sending;

#[cfg(feature = "tokio")]
pub(crate) use sending::enqueue;
pub(crate) use sending::{
    Rejected, gather, hand_over, in_place, leave_queue, refusal, total_bytes,
};

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
    /// Unread messages for this end: written by the peer, or received from the socket if the peer
    /// is in another process.
    pub(crate) queue: Queue,
    pub(crate) calls: Calls,
    pub(crate) holder: Holder,
    /// Socket that hangs up when this end, sent to another process, is read from its message there.
    read_watch: Option<StdArc<OwnedFd>>,
    /// Socket to close when this end is read from its message; its sender waits for that.
    read_notice: Option<OwnedFd>,
}

impl ChannelEnd {
    fn new(bounds: Bounds) -> ChannelEnd {
        let queue = Queue::new(bounds);
        let (calls, holder) = Default::default();
        ChannelEnd { queue, calls, holder, read_watch: None, read_notice: None }
    }
}

/// Size of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lengths {
    /// Number of bytes.
    pub bytes: usize,
    /// Number of handles.
    pub handles: usize,
}

/// Treatment of a message that does not fit into the room of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Oversized {
    /// It stays queued.
    #[default]
    Keep,
    /// It is dropped, and its handles closed (`ZX_CHANNEL_READ_MAY_DISCARD`).
    Discard,
}

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

    /// Records that a program holds this endpoint again.
    pub(crate) fn left_queue(&self) {
        if let Ok(mut locked) = self.0.lock() {
            locked.end(self.0.side).holder.leave();
        }
    }
}

/// Contents of an endpoint that is closed or gone, to be dropped outside the lock.
#[derive(Default)]
pub(crate) struct Remains {
    messages: VecDeque<MessageBuf>,
    /// The peer, if it lies in a queue: it may be part of an unreachable cycle.
    suspect: Option<(Arc<Pair<ChannelEnd>>, Side)>,
}

/// Returns the peer of `side`, which nothing in this process writes to any more, if it is suspect.
fn suspect(
    pair: &Arc<Pair<ChannelEnd>>,
    locked: &mut Locked<'_, ChannelEnd>,
    side: Side,
) -> Option<(Arc<Pair<ChannelEnd>>, Side)> {
    let peer = side.peer();
    locked.end(peer).holder.is_queued().then(|| (pair.clone(), peer))
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
        locked.update(peer, Signals::WRITABLE, Signals::PEER_CLOSED);
        Remains { messages, suspect: suspect(pair, locked, side) }
    }

    /// Closes endpoints in messages one after the other: their queues may hold endpoints in turn, to
    /// any depth.
    fn drop_outside_lock(remains: Remains) {
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
        let Some(message) = message_of(content, load) else { return false };
        let end = locked.end(side);
        match end.calls.answered_by(&message) {
            Some(call) => call.answer(message.whole()),
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

    fn recheck_waiters(&mut self) {
        self.calls.recheck_waiters();
    }

    fn take_backlog_packets(&mut self) -> Vec<MessageBuf> {
        self.queue.take().into()
    }

    fn became_wired(&mut self) {
        self.queue.limit_handles(REMOTE_HANDLES);
    }

    fn kind_bits(&self) -> u32 {
        moving::bits_of(&self.calls)
    }

    fn has_waiting_calls(&self) -> bool {
        self.calls.are_waiting()
    }

    fn departed(
        pair: &Arc<Pair<ChannelEnd>>,
        locked: &mut Locked<'_, ChannelEnd>,
        side: Side,
        read_watch: Option<StdArc<OwnedFd>>,
    ) -> Remains {
        let end = locked.end(side);
        if read_watch.is_none() {
            end.calls.end(Status::Canceled);
        }
        end.read_watch = read_watch;
        end.holder.leave();
        Remains { messages: VecDeque::new(), suspect: suspect(pair, locked, side) }
    }

    fn read_watch(&self) -> Option<StdArc<OwnedFd>> {
        self.read_watch.clone()
    }

    fn was_read_elsewhere(&mut self) {
        self.read_watch = None;
        self.calls.end(Status::Canceled);
    }

    fn take_read_notice(&mut self) -> Option<OwnedFd> {
        self.read_notice.take()
    }
}

/// Descriptors that were received and not read, from which on no more are received, so that the
/// peer cannot use up this process's descriptors. At most two messages go beyond.
const REMOTE_HANDLES: usize = 64;
