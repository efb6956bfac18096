//! Closes a sender in order.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::{Observer, Sender, is_stopped, shorter};
use crate::counters::Counters;
use crate::file_transfer::GLANCE;
use crate::release::Release;
use crate::returned::NotClosed;
use crate::room::StableBytes;
use crate::room::inet::Transport;
use uncopy_core::Result;

/// Longest wait for the next release after a connection was aborted.
const GRACE: Duration = Duration::from_secs(1);

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
        self,
        timeout: Option<Duration>,
    ) -> Result<(Vec<Release<B>>, Counters), NotClosed<B>> {
        self.close_with(timeout, None)
    }

    /// As [`close`](Self::close); `observer` is called about every 50 ms, and may stop the wait. Buffers that were not
    /// released until then are parked, and a stream goes on to its end, as when a sender is dropped.
    ///
    /// # Errors
    /// As [`close`](Self::close), and one for which [`is_cancelled`](uncopy_core::Error::is_cancelled) is true if the observer stopped
    /// it.
    #[allow(clippy::result_large_err, reason = "the releases come back")]
    pub fn close_observed(
        self,
        timeout: Option<Duration>,
        observer: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<(Vec<Release<B>>, Counters), NotClosed<B>> {
        self.close_with(timeout, Some(observer))
    }

    #[allow(clippy::result_large_err, reason = "the releases come back")]
    fn close_with(
        mut self,
        timeout: Option<Duration>,
        observer: Option<Observer<'_>>,
    ) -> Result<(Vec<Release<B>>, Counters), NotClosed<B>> {
        let mut releases = Vec::new();
        let waited = self.release_all(timeout, observer, &mut releases);
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
        mut observer: Option<Observer<'_>>,
        releases: &mut Vec<Release<B>>,
    ) -> Result<()> {
        self.socket().check_owner("close")?;
        self.end_stream();
        let glance = observer.is_some().then_some(GLANCE);
        let mut deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut aborted = false;
        while self.outstanding.sends > 0 {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let wait = shorter(left, glance);
            match self.wait_release(wait)? {
                Some(release) => {
                    releases.push(release);
                    if aborted {
                        deadline = Instant::now().checked_add(GRACE);
                    }
                }
                None if is_stopped(&mut observer) => {
                    return Err(self.stopped("close"));
                }
                // It was only a glance.
                None if wait != left && self.transmitter.outstanding_reports() > 0 => {}
                None if aborted || self.transport() == Transport::Udp => break,
                None if !self.socket().has_no_writers() => break,
                None => {
                    self.abort();
                    aborted = true;
                    deadline = Instant::now().checked_add(GRACE);
                }
            }
        }
        Ok(())
    }
}
