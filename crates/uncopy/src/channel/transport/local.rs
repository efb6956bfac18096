//! Both ends in this process: a queue at each end, that the other end's writes go into.

use std::collections::VecDeque;

use crate::channel::MAX_BYTES;
use crate::channel::message::MessageBuf;

/// How much one end's queue takes before the other's writes answer
/// [`ShouldWait`](crate::channel::Status::ShouldWait) and its
/// [`WRITABLE`](crate::channel::Signals::WRITABLE) clears.
///
/// A queue below all three bounds takes one message more, whatever its size, so that bytes and
/// handles may exceed theirs by less than one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// Messages; 4,096 by default.
    pub messages: usize,
    /// Bytes of all messages; 16 MiB by default.
    pub bytes: usize,
    /// Handles of all messages; 4,096 by default.
    pub handles: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { messages: 4096, bytes: 16 << 20, handles: 4096 }
    }
}

/// Messages on their way to one end, first in, first out.
pub(in crate::channel) struct Queue {
    messages: VecDeque<MessageBuf>,
    bytes: usize,
    handles: usize,
    bounds: Bounds,
}

impl Queue {
    pub(in crate::channel) fn new(bounds: Bounds) -> Queue {
        Queue { messages: VecDeque::new(), bytes: 0, handles: 0, bounds }
    }

    /// Lowers the bound on handles.
    pub(in crate::channel) fn limit_handles(&mut self, handles: usize) {
        self.bounds.handles = self.bounds.handles.min(handles);
    }

    #[inline]
    pub(in crate::channel) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    #[inline]
    pub(in crate::channel) fn has_room(&self) -> bool {
        self.messages.len() < self.bounds.messages
            && self.bytes < self.bounds.bytes
            && self.handles < self.bounds.handles
    }

    /// There is room for one more behind the largest message; of descriptors, as many again as one
    /// carries.
    pub(in crate::channel) fn has_room_for_two(&self) -> bool {
        self.messages.len() + 1 < self.bounds.messages
            && self.bytes + MAX_BYTES < self.bounds.bytes
            && self.handles == 0
    }

    /// There is room for what may lie before the answer of a call: for all that a socket holds
    /// besides a full queue, which by default is up to 32 MiB, in messages of any size.
    pub(in crate::channel) fn has_room_before_answer(&self) -> bool {
        self.messages.len() / 16 < self.bounds.messages
            && self.bytes / 3 < self.bounds.bytes
            && self.handles / 2 < self.bounds.handles
    }

    #[inline]
    pub(in crate::channel) fn front(&self) -> Option<&MessageBuf> {
        self.messages.front()
    }

    #[inline]
    pub(in crate::channel) fn push(&mut self, message: MessageBuf) {
        self.bytes += message.len();
        self.handles += message.weight();
        self.messages.push_back(message);
    }

    #[inline]
    pub(in crate::channel) fn pop(&mut self) -> Option<MessageBuf> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.len();
        self.handles -= message.weight();
        Some(message)
    }

    /// Empties it.
    pub(in crate::channel) fn take(&mut self) -> VecDeque<MessageBuf> {
        (self.bytes, self.handles) = (0, 0);
        std::mem::take(&mut self.messages)
    }
}
