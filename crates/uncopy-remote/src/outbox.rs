//! Frames on their way to the other end.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uncopy_wire::Frame;

use crate::gate::lock;
use crate::spare::SpareBuffers;

/// Limit of the streams of a session.
const MAX_QUEUED_BYTES: usize = 4 << 20;
/// Payloads up to this length are joined into one write.
const JOINED_BYTES: usize = 32 << 10;
/// Number of joined bytes from which on they are written.
const WRITE_BYTES: usize = 256 << 10;

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// Whether nothing is added any more.
    is_closed: bool,
}

/// Queue of frames to be written, in order.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    added: Condvar,
    taken: Condvar,
    /// Number of bytes from which on those who can wait do so.
    limit: usize,
    spare: SpareBuffers,
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox::with_limit(MAX_QUEUED_BYTES)
    }
}

impl Outbox {
    pub(crate) fn with_limit(limit: usize) -> Outbox {
        Outbox {
            queue: Mutex::default(),
            added: Condvar::new(),
            taken: Condvar::new(),
            limit,
            spare: SpareBuffers::default(),
        }
    }

    /// Returns buffers for payloads. Those that were written go there.
    pub(crate) fn spare(&self) -> &SpareBuffers {
        &self.spare
    }

    /// Adds a frame, whatever there is. For frames whose number is bounded.
    pub(crate) fn push(&self, frame: Frame) {
        let mut queue = lock(&self.queue);
        if !queue.is_closed {
            queue.bytes += frame.payload.len() + uncopy_wire::HEAD_BYTES;
            queue.frames.push_back(frame);
            self.added.notify_one();
        }
    }

    /// Takes out a frame.
    #[cfg(test)]
    pub(crate) fn pop(&self) -> Option<Frame> {
        lock(&self.queue).frames.pop_front()
    }

    /// Waits until there is room. `false`: the outbox is closed.
    pub(crate) fn wait_for_room(&self) -> bool {
        let mut queue = lock(&self.queue);
        while queue.bytes > self.limit && !queue.is_closed {
            queue = self.taken.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        !queue.is_closed
    }

    /// Whether there is room.
    pub(crate) fn has_room(&self) -> bool {
        let queue = lock(&self.queue);
        queue.bytes <= self.limit && !queue.is_closed
    }

    /// Ends the queue behind what is in it.
    pub(crate) fn close(&self) {
        lock(&self.queue).is_closed = true;
        self.added.notify_all();
        self.taken.notify_all();
    }

    /// Ends the queue and drops what is in it.
    pub(crate) fn drop_all(&self) {
        {
            let mut queue = lock(&self.queue);
            queue.frames.clear();
            queue.bytes = 0;
        }
        self.close();
    }

    /// Writes frames until the queue is closed. Calls `ping` after each `interval` without a frame, and `sent` with each
    /// number of bytes.
    pub(crate) fn write_to(
        &self,
        output: &mut dyn Write,
        interval: Duration,
        ping: impl Fn(),
        sent: impl Fn(u64),
    ) -> io::Result<()> {
        let mut joined = Vec::new();
        let mut written = Instant::now();
        loop {
            joined.clear();
            let mut queue = lock(&self.queue);
            while queue.frames.is_empty() && !queue.is_closed {
                let left = interval.saturating_sub(written.elapsed());
                if left.is_zero() {
                    drop(queue);
                    ping();
                    written = Instant::now();
                    queue = lock(&self.queue);
                    continue;
                }
                (queue, _) =
                    self.added.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner);
            }
            let mut large = None;
            while let Some(frame) = queue.frames.pop_front() {
                joined.extend_from_slice(&frame.head());
                if frame.payload.len() > JOINED_BYTES {
                    large = Some(frame.payload);
                    break;
                }
                joined.extend_from_slice(&frame.payload);
                if joined.len() >= WRITE_BYTES {
                    break;
                }
            }
            if joined.is_empty() {
                return output.flush();
            }
            let large = large.unwrap_or_default();
            let bytes = joined.len() + large.len();
            drop(queue);
            output.write_all(&joined)?;
            output.write_all(&large)?;
            output.flush()?;
            self.spare.give(large);
            written = Instant::now();
            sent(bytes as u64);
            // Bytes count until they are written, so that the limit holds for a peer that does not read.
            let mut queue = lock(&self.queue);
            queue.bytes = queue.bytes.saturating_sub(bytes);
            drop(queue);
            self.taken.notify_all();
        }
    }
}
