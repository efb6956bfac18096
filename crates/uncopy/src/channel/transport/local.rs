//! Both ends in this process: a queue at each end, that the other end's writes go into.

use std::collections::VecDeque;

use crate::channel::handle::Handle;
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
    /// Each with what it counts for of the bound on handles.
    messages: VecDeque<(MessageBuf, usize)>,
    bytes: usize,
    handles: usize,
    bounds: Bounds,
    /// Messages come from another process.
    is_remote: bool,
}

/// From so many descriptors on that were taken out of a socket and not read, no more are taken, so
/// that the peer cannot use up this process's.
const REMOTE_DESCRIPTORS: usize = 64;

impl Queue {
    pub(in crate::channel) fn new(bounds: Bounds) -> Queue {
        Queue { messages: VecDeque::new(), bytes: 0, handles: 0, bounds, is_remote: false }
    }

    /// From now on it is filled by another process: handles count for the descriptors they hold,
    /// and fewer are taken.
    pub(in crate::channel) fn go_remote(&mut self) {
        self.is_remote = true;
        self.bounds.handles = self.bounds.handles.min(REMOTE_DESCRIPTORS);
    }

    fn weight(&self, message: &MessageBuf) -> usize {
        match message.handles() {
            [] => 0,
            handles if self.is_remote => handles.iter().map(Handle::descriptors).sum(),
            handles => handles.len(),
        }
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

    #[inline]
    pub(in crate::channel) fn front(&self) -> Option<&MessageBuf> {
        self.messages.front().map(|(message, _)| message)
    }

    #[inline]
    pub(in crate::channel) fn push(&mut self, message: MessageBuf) {
        let weight = self.weight(&message);
        self.bytes += message.len();
        self.handles += weight;
        self.messages.push_back((message, weight));
    }

    #[inline]
    pub(in crate::channel) fn pop(&mut self) -> Option<MessageBuf> {
        let (message, weight) = self.messages.pop_front()?;
        self.bytes -= message.len();
        self.handles -= weight;
        Some(message)
    }

    /// Empties it.
    pub(in crate::channel) fn take(&mut self) -> VecDeque<MessageBuf> {
        (self.bytes, self.handles) = (0, 0);
        std::mem::take(&mut self.messages).into_iter().map(|(message, _)| message).collect()
    }
}
