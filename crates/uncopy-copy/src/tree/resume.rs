//! Keeps the state that another run needs to resume this one: journals, and a tree that is kept
//! incomplete.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use super::directory::{Identity, identity};
use super::journal::{EarlierRun, Journal};
use crate::jobs::Incomplete;
use uncopy_os::file::FileId;
use uncopy_os::{Sys, clock, file};

/// Journals of one job, and what it leaves to another run.
pub(super) struct Resume {
    /// Journal of the root that is being copied.
    journal: RwLock<Option<Arc<Journal>>>,
    /// Whether there is a journal. It is checked for each file, and taking the lock for reading
    /// would make other workers wait.
    has_journal: AtomicBool,
    /// Journals of finished roots, and their directories.
    finished: Mutex<Vec<(Identity, OwnedFd, Vec<JournalFile>)>>,
    incomplete: Mutex<Option<Incomplete>>,
    /// Whether a failed file could not be removed, and has its name.
    has_remnants: AtomicBool,
    /// When the job began: since the epoch, and since boot.
    begun_at: (Duration, Duration),
}

/// Name and identity of a journal.
type JournalFile = (OsString, FileId);

impl Resume {
    pub(super) fn new() -> Resume {
        Resume {
            journal: RwLock::default(),
            has_journal: AtomicBool::new(false),
            finished: Mutex::default(),
            incomplete: Mutex::default(),
            has_remnants: AtomicBool::new(false),
            begun_at: (clock::realtime(), clock::boot()),
        }
    }

    /// Returns the journal of the root that is being copied.
    pub(super) fn journal(&self) -> Option<Arc<Journal>> {
        if !self.has_journal() {
            return None;
        }
        self.journal.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the run that began the journal of the root that is being copied, unless this one did.
    pub(super) fn earlier(&self) -> Option<EarlierRun> {
        self.journal()?.earlier()
    }

    pub(super) fn has_journal(&self) -> bool {
        self.has_journal.load(Ordering::Acquire)
    }

    /// Sets the journal of the root that is being copied.
    pub(super) fn set_journal(&self, journal: Option<Arc<Journal>>) {
        self.has_journal.store(journal.is_some(), Ordering::Release);
        *self.journal.write().unwrap_or_else(PoisonError::into_inner) = journal;
    }

    /// Keeps the journal of a finished root until all roots are finished, for a run that resumes
    /// the job.
    pub(super) fn finished_with(&self, journal: &Journal, parent: BorrowedFd<'_>) -> Sys<()> {
        let which = identity(&file::stat(parent)?);
        let name = (journal.name().to_owned(), journal.own());
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        match finished.iter_mut().find(|(known, ..)| *known == which) {
            Some((_, _, names)) => names.push(name),
            None => finished.push((which, file::duplicate(parent)?, vec![name])),
        }
        Ok(())
    }

    /// Removes the journals of all roots, which are done.
    pub(super) fn remove_journals(&self) {
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, parent, names) in finished.drain(..) {
            for (name, own) in names {
                Journal::remove(parent.as_fd(), &name, own);
            }
        }
    }

    /// Notes a tree that is kept incomplete.
    pub(super) fn keep(&self, incomplete: Incomplete) {
        *self.incomplete.lock().unwrap_or_else(PoisonError::into_inner) = Some(incomplete);
    }

    /// Returns the tree that is kept incomplete.
    pub(super) fn into_incomplete(self) -> Option<Incomplete> {
        self.incomplete.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something which was not copied whole may have its name in a tree that is being made.
    pub(super) fn leave_remnants(&self) {
        self.has_remnants.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_remnants(&self) -> bool {
        self.has_remnants.load(Ordering::Relaxed)
    }

    /// When the job began: since the epoch, and since boot.
    pub(super) fn begun_at(&self) -> (Duration, Duration) {
        self.begun_at
    }
}
