//! Messages: received bytes and handles.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

use super::handle::Handle;
use crate::Status;
use crate::memory::Buffer;
use crate::sync::Arc;

/// One message, as it was received. When it is dropped, its memory returns to the pool and handles
/// that are still in it are closed.
///
/// The bytes begin at an address divisible by 64.
pub struct MessageBuf {
    buffer: Buffer,
    handles: Vec<Handle>,
    /// Number that the handles count for in a bounded queue.
    weight: u32,
    /// Whether its handles were lost, because their descriptors could not be opened.
    is_cut: bool,
}

impl MessageBuf {
    #[inline]
    pub(crate) fn new(buffer: Buffer) -> MessageBuf {
        MessageBuf { buffer, handles: Vec::new(), weight: 0, is_cut: false }
    }

    /// Returns a message without bytes and handles.
    pub(crate) fn empty() -> MessageBuf {
        MessageBuf::new(Buffer::empty())
    }

    #[inline]
    pub(crate) fn set_handles(&mut self, handles: Vec<Handle>) {
        // At most 64.
        self.weight = handles.len() as u32;
        self.handles = handles;
    }

    /// Adds handles that consist of `descriptors` and count for as many.
    pub(crate) fn with_received(mut self, handles: Vec<Handle>, descriptors: usize) -> MessageBuf {
        self.set_handles(handles);
        // At most 253.
        self.weight = self.weight.max(descriptors as u32);
        self
    }

    /// Marks it as one whose handles were lost.
    pub(crate) fn cut(self) -> MessageBuf {
        MessageBuf { is_cut: true, ..self }
    }

    /// Whether its handles were lost.
    #[inline]
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the message, unless its handles were lost.
    #[inline]
    pub(crate) fn whole(self) -> Result<MessageBuf, Status> {
        if self.is_cut { Err(Status::descriptor_limit()) } else { Ok(self) }
    }

    /// Number that its handles count for in a queue.
    #[inline]
    pub(crate) fn weight(&self) -> usize {
        self.weight as usize
    }

    /// Returns the handles that have not been taken out.
    #[inline]
    #[must_use]
    pub fn handles(&self) -> &[Handle] {
        &self.handles
    }

    /// Takes the handles out, in the order in which they were written.
    #[inline]
    #[must_use = "handles that are dropped are closed"]
    pub fn take_handles(&mut self) -> Vec<Handle> {
        std::mem::take(&mut self.handles)
    }

    /// Returns the bytes as a part that can be split, and the handles. Allocates a reference count.
    #[must_use]
    pub fn into_parts(self) -> (Part, Vec<Handle>) {
        let range = 0..self.buffer.len();
        (Part { owner: Arc::new(self.buffer), range }, self.handles)
    }

    /// Returns the transaction id: the first four bytes; 0 for a shorter message.
    #[inline]
    pub(crate) fn txid(&self) -> u32 {
        self.buffer.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// Writes the transaction id over the first four bytes; false if there are fewer.
    pub(crate) fn set_txid(&mut self, txid: u32) -> bool {
        let first = self.buffer.first_chunk_mut::<4>();
        first.map(|bytes| *bytes = txid.to_ne_bytes()).is_some()
    }
}

impl Deref for MessageBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl DerefMut for MessageBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }
}

impl fmt::Debug for MessageBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageBuf")
            .field("bytes", &self.len())
            .field("handles", &self.handles)
            .finish()
    }
}

/// A part of a message's bytes, with shared ownership of the memory: cloned and split without
/// copying. The memory returns to the pool with the last part.
#[derive(Clone)]
pub struct Part {
    owner: Arc<Buffer>,
    range: Range<usize>,
}

impl Part {
    /// Returns the part before `at` and the part from there on.
    ///
    /// # Panics
    /// If `at` is behind the end.
    #[must_use]
    pub fn split_at(self, at: usize) -> (Part, Part) {
        assert!(at <= self.len(), "split at {at} of {} bytes", self.len());
        let middle = self.range.start + at;
        let front = Part { owner: self.owner.clone(), range: self.range.start..middle };
        (front, Part { owner: self.owner, range: middle..self.range.end })
    }
}

impl Deref for Part {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.owner[self.range.clone()]
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("bytes", &self.len()).finish_non_exhaustive()
    }
}
