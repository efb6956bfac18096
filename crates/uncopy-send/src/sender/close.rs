//! Closes a sender in order.

use std::time::{Duration, Instant};

use super::Sender;
use crate::counters::Counters;
use crate::release::Release;
use crate::returned::NotClosed;
use crate::room::StableBytes;
use crate::room::inet::Transport;
use uncopy_core::Result;

impl<B: StableBytes> Sender<B> {
    /// Ends the stream after what was sent, and waits for every release; aborts the connection
    /// after `timeout` (`None`: never). Buffers that are not released even then, because a device still
    /// reads them, are parked. A stream on which a ring sends too stays open and is not aborted; buffers
    /// that are not released in time are parked.
    ///
    /// # Errors
    /// As [`next_release`](Self::next_release), with the releases so far.
    #[allow(clippy::result_large_err, reason = "the releases come back")]
    pub fn close(
        mut self,
        timeout: Option<Duration>,
    ) -> Result<(Vec<Release<B>>, Counters), NotClosed<B>> {
        let mut releases = Vec::new();
        let waited = self.release_all(timeout, &mut releases);
        let counters = std::mem::take(&mut self.counters);
        match waited {
            Ok(()) => Ok((releases, counters)),
            Err(error) => Err(NotClosed { releases, counters, error }),
        }
    }

    /// Ends the stream, and waits for all outstanding releases.
    fn release_all(
        &mut self,
        timeout: Option<Duration>,
        releases: &mut Vec<Release<B>>,
    ) -> Result<()> {
        self.socket().check_owner("close")?;
        self.end_stream();
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut aborted = false;
        while self.outstanding.sends > 0 {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let grace = if aborted { Some(Duration::from_secs(1)) } else { left };
            match self.wait_release(grace)? {
                Some(release) => releases.push(release),
                None if aborted || self.transport() == Transport::Udp => break,
                None if !self.socket().has_no_writers() => break,
                None => {
                    self.abort();
                    aborted = true;
                }
            }
        }
        Ok(())
    }
}
