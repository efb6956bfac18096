//! The bounded queue of messages at each end.

use std::collections::VecDeque;

use super::endpoint::ChannelEnd;
use super::handle::Handle;
use super::message::MessageBuf;
use crate::MAX_BYTES;
use crate::peer::{Pair, Side};
use crate::sync::Arc;

/// Bounds of one end's queue. When it is full, writes of the other end return
/// [`ShouldWait`](crate::Status::ShouldWait) and its
/// [`WRITABLE`](crate::Signals::WRITABLE) is cleared.
///
/// A queue below all three bounds takes one more message of any size, so that bytes and handles may
/// exceed their bounds by less than one message.
///
/// ```
/// use uncopy::channel::{Bounds, Channel};
///
/// let (near, far) = Channel::pair_with(Bounds::new().messages(16).bytes(1 << 20));
/// # drop((near, far));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// Number of messages; 4,096 by default.
    pub messages: usize,
    /// Total bytes of all messages; 16 MiB by default.
    pub bytes: usize,
    /// Number of handles of all messages; 4,096 by default.
    pub handles: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { messages: 4096, bytes: 16 << 20, handles: 4096 }
    }
}

impl Bounds {
    /// Returns the default bounds.
    #[must_use]
    pub fn new() -> Bounds {
        Bounds::default()
    }

    /// Sets how many messages the queue takes.
    #[must_use]
    pub fn messages(mut self, messages: usize) -> Bounds {
        self.messages = messages;
        self
    }

    /// Sets how many bytes of messages the queue takes.
    #[must_use]
    pub fn bytes(mut self, bytes: usize) -> Bounds {
        self.bytes = bytes;
        self
    }

    /// Sets how many handles of messages the queue takes.
    #[must_use]
    pub fn handles(mut self, handles: usize) -> Bounds {
        self.handles = handles;
        self
    }
}

/// Messages for one end, first in, first out.
pub(crate) struct Queue {
    messages: VecDeque<MessageBuf>,
    bytes: usize,
    handles: usize,
    bounds: Bounds,
}

impl Queue {
    pub(crate) fn new(bounds: Bounds) -> Queue {
        Queue { messages: VecDeque::new(), bytes: 0, handles: 0, bounds }
    }

    /// Lowers the bound on handles.
    pub(crate) fn limit_handles(&mut self, handles: usize) {
        self.bounds.handles = self.bounds.handles.min(handles);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.messages.len() < self.bounds.messages
            && self.bytes < self.bounds.bytes
            && self.handles < self.bounds.handles
    }

    /// Whether there is room for one more message behind one of the largest size, and for the
    /// descriptors of both.
    pub(crate) fn has_room_for_two(&self) -> bool {
        self.messages.len() + 1 < self.bounds.messages
            && self.bytes + MAX_BYTES < self.bounds.bytes
            && self.handles == 0
    }

    /// Whether there is room for what may come before the answer of a call: everything that a socket
    /// holds beside a full queue, by default up to 32 MiB, in messages of any size.
    pub(crate) fn has_room_before_answer(&self) -> bool {
        self.messages.len() / 16 < self.bounds.messages
            && self.bytes / 3 < self.bounds.bytes
            && self.handles / 2 < self.bounds.handles
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&MessageBuf> {
        self.messages.front()
    }

    pub(crate) fn back(&self) -> Option<&MessageBuf> {
        self.messages.back()
    }

    #[inline]
    pub(crate) fn push(&mut self, message: MessageBuf) {
        self.bytes += message.len();
        self.handles += message.weight();
        self.messages.push_back(message);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<MessageBuf> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.len();
        self.handles -= message.weight();
        Some(message)
    }

    /// Whether an endpoint lies in a message.
    pub(crate) fn holds(&self, pair: &Arc<Pair<ChannelEnd>>, side: Side) -> bool {
        let mut handles = self.messages.iter().flat_map(MessageBuf::handles);
        handles.any(|handle| match handle {
            Handle::Channel(channel) => {
                channel.0.side == side && Arc::ptr_eq(&channel.0.pair, pair)
            }
            _ => false,
        })
    }

    /// Removes all messages.
    pub(crate) fn take(&mut self) -> VecDeque<MessageBuf> {
        (self.bytes, self.handles) = (0, 0);
        std::mem::take(&mut self.messages)
    }
}
