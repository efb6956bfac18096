//! Records whether a job is over, why it ended early, and how many entries it left out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::peer_link::PeerLink;
use uncopy_core::Error;

/// End of one job.
#[derive(Debug, Default)]
pub(super) struct Ending {
    over: AtomicBool,
    /// The first error that ended it.
    error: Mutex<Option<Error>>,
    /// Entries that were found and not tried.
    left_out: AtomicU64,
    /// Source on another machine: the job is over when that is lost.
    peer: Option<Arc<PeerLink>>,
}

impl Ending {
    /// Makes it for a job whose source may be on another machine.
    pub(super) fn new(peer: Option<Arc<PeerLink>>) -> Ending {
        Ending { peer, ..Ending::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.peer.as_ref().is_some_and(|peer| peer.is_lost())
    }

    /// Returns the error of a source on another machine that was lost.
    pub(super) fn lost(&self) -> Option<Error> {
        self.peer.as_ref().and_then(|peer| peer.lost())
    }

    /// Ends the job: all is done.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Ends the job with this error; the first one counts.
    pub(super) fn stop(&self, error: Error) {
        // A loss stops the workers, which takes it for the observer's wish.
        let error = self.lost().unwrap_or(error);
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.end();
    }

    /// Whether the job ended with an error that stays until something else changes.
    pub(super) fn is_lasting(&self) -> bool {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.as_ref().is_some_and(Error::is_lasting)
    }

    /// Counts entries that were found and are not tried.
    pub(super) fn leave_out(&self, entries: u64) {
        self.left_out.fetch_add(entries, Ordering::Relaxed);
    }

    /// Entries that were found and not tried.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// The error that ended the job.
    pub(super) fn into_error(self) -> Option<Error> {
        let lost = self.lost();
        self.error.into_inner().unwrap_or_else(PoisonError::into_inner).or(lost)
    }
}
