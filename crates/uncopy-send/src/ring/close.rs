//! Closes a ring in order.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use super::Ring;
use super::message::RingEvent;
use crate::release::{Release, Sent};
use crate::room::StableBytes;
use uncopy_core::{Error, Result};

/// The sends that were not finished when a ring was closed.
///
/// ```
/// use std::time::Duration;
/// use uncopy::send::{InetSocket, Message, Mode, Ring, RingOptions};
///
/// let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
/// let options = RingOptions::new().mode(Mode::Zerocopy);
/// let mut ring = Ring::new(&options);
/// let socket = ring.add(InetSocket::connect_tcp(listener.local_addr().unwrap())?);
/// ring.send(socket, Message::new(vec![7; 64 << 20]))?;
/// // The peer does not read.
/// let unfinished = ring.close(Some(Duration::from_millis(10))).unwrap_err();
/// assert_eq!((unfinished.sends, unfinished.bytes), (1, 64 << 20));
/// # Ok::<(), uncopy::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Unfinished {
    /// Number of sends that failed, and of sends whose buffers the kernel still had.
    pub sends: usize,
    /// Bytes that the failed sends did not send, and bytes of the buffers that the kernel still had.
    pub bytes: usize,
    /// The first error whose result was not taken from the ring. `None`: the time was over.
    pub error: Option<Error>,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfinished { sends, bytes, error } = self;
        write!(f, "{sends} sends were not finished, with {bytes} bytes")?;
        match error {
            Some(error) => write!(f, ": {error}"),
            None => f.write_str(
                ": the time was over; wait longer, or find out why the peer does not read",
            ),
        }
    }
}

impl std::error::Error for Unfinished {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.as_ref().map(|error| error as _)
    }
}

/// The failures among the events of a ring.
#[derive(Default)]
struct Failures {
    /// Bytes that each failed send did not send, by number; `None` until it is released.
    sends: HashMap<u64, Option<usize>>,
    first: Option<Error>,
}

impl Failures {
    fn note(&mut self, sent: Sent) {
        if let Err(error) = sent.result {
            self.sends.insert(sent.id.get(), None);
            self.first.get_or_insert(error);
        }
    }

    fn note_release<B: StableBytes>(&mut self, release: &Release<B>) {
        if let Some(bytes) = self.sends.get_mut(&release.id.get()) {
            *bytes = Some(release.payload.len() - release.bytes);
        }
    }

    fn note_event<B: StableBytes>(&mut self, event: RingEvent<B>) {
        match event {
            RingEvent::Sent(sent) => self.note(sent),
            RingEvent::Released(release) => self.note_release(&release),
            RingEvent::Notified(notification) => {
                notification.releases.iter().for_each(|release| self.note_release(release));
            }
        }
    }
}

impl<B: StableBytes> Ring<B> {
    /// Makes every send that was taken in, ends the streams after them, and waits up to `timeout` until all
    /// buffers are released (`None`: without a limit). A stream ends as soon as the last of its sends has its
    /// result. Events that were not taken, and released buffers, are dropped.
    ///
    /// A stream whose socket a [`Sender`](crate::Sender) or another ring uses too ends with the last of them.
    /// Success does not mean that the peer has read everything: only its answer shows that.
    ///
    /// # Errors
    /// [`Unfinished`]: a send failed whose result was not taken from the ring before, or the time was over.
    /// Buffers that the kernel still has then are treated as after a drop: see [Dropping](Ring#dropping).
    pub fn close(mut self, timeout: Option<Duration>) -> Result<(), Unfinished> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut failures = Failures::default();
        if let Err(error) = self.finish_all(deadline, &mut failures) {
            failures.first.get_or_insert(error);
        }
        let left = self.outstanding();
        self.into_releases().iter().for_each(|release| failures.note_release(release));
        // Failed sends that are not released yet count as outstanding.
        let failed = || failures.sends.values().flatten();
        let sends = left.sends + failed().count();
        let bytes = left.bytes + failed().sum::<usize>();
        match (sends, failures.first) {
            (0, None) => Ok(()),
            (_, error) => Err(Unfinished { sends, bytes, error }),
        }
    }

    /// Makes all sends, until nothing is outstanding or the time is over.
    fn finish_all(&mut self, deadline: Option<Instant>, failures: &mut Failures) -> Result<()> {
        self.check_owner("close")?;
        let mut is_over = false;
        loop {
            while let Some(event) = self.next_event() {
                failures.note_event(event);
            }
            self.engine.end_streams();
            if is_over || self.outstanding().sends == 0 {
                return Ok(());
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            is_over = left == Some(Duration::ZERO);
            self.advance(usize::from(!is_over), left)?;
        }
    }
}
