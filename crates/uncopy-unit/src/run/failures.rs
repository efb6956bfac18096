//! Collects why entries of a unit failed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::format::{Entry, Header, RelativePath, Root};
use crate::ledger::{FailureKind, FailureReason};
use uncopy_copy::job::{EntryOutcome, JobObserver, JobProgress, Record};
use uncopy_copy::{Consent, Control};
use uncopy_core::{Errno, Error, Objection, Reason};

/// Maximum number of reasons that are kept; further ones are counted.
const MAX_REASONS: usize = 100;

/// Failures so far, and the observer that hears of them.
pub(super) struct Failures<'a> {
    observer: &'a dyn JobObserver,
    describe: &'a (dyn Fn(&Error) -> String + Sync),
    source: PathBuf,
    destination: PathBuf,
    /// Number of entries that were reported to the observer, other than by a job.
    reported: AtomicU64,
    collected: Mutex<Collected>,
}

#[derive(Default)]
struct Collected {
    count: u64,
    reasons: Vec<FailureReason>,
    is_overtaken: bool,
    /// Entries whose destination was not as planned; they are tried once more.
    doubtful: Option<HashSet<PathBuf>>,
}

impl<'a> Failures<'a> {
    pub(super) fn new(
        observer: &'a dyn JobObserver,
        describe: &'a (dyn Fn(&Error) -> String + Sync),
        header: &Header,
    ) -> Failures<'a> {
        let root = |root: &Root| root.as_path().to_owned();
        let (source, destination) = (root(&header.source), root(&header.destination));
        let (reported, collected) = (AtomicU64::new(0), Mutex::default());
        Failures { observer, describe, source, destination, reported, collected }
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> u64 {
        self.lock().count
    }

    pub(super) fn reasons(&self) -> Vec<FailureReason> {
        self.lock().reasons.clone()
    }

    /// Whether a later attempt has begun.
    pub(super) fn is_overtaken(&self) -> bool {
        self.lock().is_overtaken
    }

    /// Sets entries aside from now on whose destination is not as planned: an earlier attempt may have just made them.
    pub(super) fn set_doubtful_aside(&self) {
        self.lock().doubtful = Some(HashSet::new());
    }

    /// Returns the entries that were set aside, and sets none aside from now on.
    pub(super) fn take_doubtful(&self) -> HashSet<PathBuf> {
        self.lock().doubtful.take().unwrap_or_default()
    }

    /// Whether the observer goes on.
    pub(super) fn goes_on(&self, progress: JobProgress) -> bool {
        self.observer.progress(progress) == Control::Continue
    }

    /// Adds the failure of an entry.
    pub(super) fn add(&self, path: Option<RelativePath>, error: &Error) {
        self.add_reason(self.reason(path, error));
    }

    /// Adds the failure that ended a job, unless it is that of an entry.
    pub(super) fn add_end(&self, error: &Error) {
        let reason = self.reason(None, error);
        let is_known = self.lock().reasons.iter().any(|known| known.message == reason.message);
        if !is_known {
            self.add_reason(reason);
        }
    }

    /// Makes what the ledger keeps of the failure of an entry.
    pub(super) fn reason(&self, path: Option<RelativePath>, error: &Error) -> FailureReason {
        let (kind, code) = (kind_of(error), code_of(error));
        FailureReason { kind, path, code, message: (self.describe)(error) }
    }

    /// Adds the failure of an entry that no job copies, and reports it.
    pub(super) fn add_entry(&self, entry: &Entry, error: Error) {
        self.add(Some(entry.path.clone()), &error);
        self.report(entry, EntryOutcome::Failed(error));
    }

    /// Reports how an entry ended that no job copies.
    pub(super) fn report(&self, entry: &Entry, outcome: EntryOutcome) {
        if !self.observer.wants_records() {
            return;
        }
        let sequence = self.reported.fetch_add(1, Ordering::Relaxed) + 1;
        let path = entry.path.as_path();
        let (source, destination) = (self.source.join(path), self.destination.join(path));
        let kind = entry.kind.into();
        self.observer.finished(&Record::new(sequence, kind, source, destination, outcome));
    }

    /// Adds a failure that is no error of a call.
    pub(super) fn add_reason(&self, reason: FailureReason) {
        let mut collected = self.lock();
        collected.count += 1;
        collected.is_overtaken |= reason.kind == FailureKind::Overtaken;
        if collected.reasons.len() < MAX_REASONS {
            collected.reasons.push(reason);
        }
    }

    fn entry(&self, source: &Path) -> Option<PathBuf> {
        source.strip_prefix(&self.source).ok().map(Path::to_owned)
    }
}

impl JobObserver for Failures<'_> {
    fn progress(&self, progress: JobProgress) -> Control {
        match self.is_overtaken() {
            true => Control::Stop,
            false => self.observer.progress(progress),
        }
    }

    fn wants_records(&self) -> bool {
        self.observer.wants_records()
    }

    fn may_replace(&self, _: &Path) -> Consent {
        Consent::Refused
    }

    fn finished(&self, record: &Record) {
        if let EntryOutcome::Failed(error) = &record.outcome {
            let entry = self.entry(&record.source);
            if kind_of(error) == FailureKind::Conflict
                && let Some(doubtful) = &mut self.lock().doubtful
            {
                doubtful.extend(entry);
                return;
            }
            let path = entry.and_then(|entry| RelativePath::new(entry).ok());
            self.add(path, error);
        }
        self.observer.finished(record);
    }
}

/// Decides what kind of failure an error is (pure).
pub(super) fn kind_of(error: &Error) -> FailureKind {
    match error.reason() {
        Reason::SourceChanged { .. }
        | Reason::Refused(Objection::SourceSincePlan { .. } | Objection::KindChanged { .. }) => {
            FailureKind::SourceChanged
        }
        Reason::Refused(
            Objection::DestinationSincePlan
            | Objection::NotDirectory
            | Objection::IsDirectory
            | Objection::LinkForDirectory
            | Objection::DirectoryReplaced
            | Objection::InsideSource { .. }
            | Objection::MountedSource { .. }
            | Objection::HoldsSource
            | Objection::MayLieInSource { .. },
        ) => FailureKind::Conflict,
        Reason::Refused(Objection::Overtaken) => FailureKind::Overtaken,
        Reason::Cancelled => FailureKind::Interrupted,
        Reason::VerificationFailed { .. } => FailureKind::Verification,
        // A name of the source that the plan saw, or one that leads to it, is gone or another thing.
        Reason::System { errno: Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP }
            if !error.is_at_destination() =>
        {
            FailureKind::SourceChanged
        }
        _ => FailureKind::Error,
    }
}

/// Returns the stable name of an error, if it has one.
fn code_of(error: &Error) -> Option<String> {
    match error.reason() {
        Reason::Refused(why) => Some(why.code().to_owned()),
        _ => error.errno().map(|errno| errno.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uncopy_core::FileKind;

    #[test]
    fn errors_have_kinds() {
        let refused = |why| Error::new("copy", "a", Reason::Refused(why));
        let what = String::new();
        for (error, expected) in [
            (refused(Objection::SourceSincePlan { what }), FailureKind::SourceChanged),
            (refused(Objection::KindChanged { kind: FileKind::Fifo }), FailureKind::SourceChanged),
            (refused(Objection::DestinationSincePlan), FailureKind::Conflict),
            (refused(Objection::NotDirectory), FailureKind::Conflict),
            (refused(Objection::Overtaken), FailureKind::Overtaken),
            (refused(Objection::NameTaken), FailureKind::Error),
            (Error::new("copy", "a", Reason::Cancelled), FailureKind::Interrupted),
            (Error::system("open", "a", Errno::ENOENT), FailureKind::SourceChanged),
            (Error::destination("open", "a", Errno::ENOENT), FailureKind::Error),
            (Error::destination("write to", "a", Errno::ENOSPC), FailureKind::Error),
            (Error::system("read", "a", Errno::EIO), FailureKind::Error),
        ] {
            assert_eq!(kind_of(&error), expected, "{error}");
        }
    }
}
