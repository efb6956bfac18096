//! The serving side of an open data connection: sends pieces of files that the session has open, one after the other.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uncopy_core::Errno;

use super::Serving;
use super::opened::Opened;
use crate::gate::lock;
use crate::link::Counts;
use crate::open_life::READY;

/// Number of bytes that are hashed at once.
const BATCH_BYTES: usize = 256 << 10;

/// Piece to be sent.
#[derive(Debug)]
pub(super) struct SendJob {
    /// Number of the call.
    pub(super) id: u32,
    pub(super) of: Arc<Opened>,
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

#[derive(Debug, Default)]
struct SendQueue {
    jobs: VecDeque<SendJob>,
    has_ended: bool,
}

/// Sender of an open data connection.
#[derive(Debug)]
pub(crate) struct OpenSender {
    /// Time for a piece.
    limit: Duration,
    counts: Arc<Counts>,
    queue: Mutex<SendQueue>,
    added: Condvar,
}

impl OpenSender {
    /// `limit`: time in which the other end must have taken a piece.
    pub(crate) fn new(limit: Duration, counts: Arc<Counts>) -> OpenSender {
        OpenSender { limit, counts, queue: Mutex::default(), added: Condvar::new() }
    }

    /// Queues a piece. `false`: the connection has ended.
    pub(super) fn push(&self, job: SendJob) -> bool {
        let mut queue = lock(&self.queue);
        if !queue.has_ended {
            queue.jobs.push_back(job);
            self.added.notify_one();
        }
        !queue.has_ended
    }

    /// Sends pieces until the connection ends. Each is answered in the session before it is sent.
    pub(crate) fn run(&self, serving: &Serving, socket: &TcpStream) {
        let is_ready = socket.set_write_timeout(Some(self.limit)).is_ok() && { socket }
            .write_all(&[READY])
            .is_ok();
        let mut buffer = vec![0; BATCH_BYTES];
        while is_ready && let Some(job) = self.next() {
            let SendJob { id, of, offset, bytes } = job;
            let digested = of.digest(offset, bytes, &mut buffer);
            let bytes = digested.as_ref().map_or(0, |digested| digested.bytes);
            serving.answer_sent(id, digested.as_ref().map_err(|errno| *errno));
            let end = offset + u64::from(bytes);
            // The file may have become shorter; then the connection has lost its order.
            if bytes > 0 && of.send(offset..end, socket, Instant::now() + self.limit).is_err() {
                break;
            }
            self.counts.send(bytes.into());
        }
        self.close(serving);
    }

    /// Waits for the next piece; `None`: the connection has ended.
    fn next(&self) -> Option<SendJob> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.has_ended {
                return None;
            }
            match queue.jobs.pop_front() {
                None => queue = self.added.wait(queue).unwrap_or_else(PoisonError::into_inner),
                job => return job,
            }
        }
    }

    /// Ends it, and answers what is not sent.
    pub(crate) fn close(&self, serving: &Serving) {
        let jobs = {
            let mut queue = lock(&self.queue);
            queue.has_ended = true;
            std::mem::take(&mut queue.jobs)
        };
        self.added.notify_all();
        for job in jobs {
            serving.answer_sent(job.id, Err(Errno::ENOTCONN));
        }
    }

    /// Waits for the end of a connection over which the other end has nothing to send.
    pub(crate) fn watch(socket: &TcpStream) {
        // Whatever it is, it is no part of the protocol.
        let _ = { socket }.read(&mut [0]);
    }
}
