//! Defines what a comparison reports: findings, progress, and the summary.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Control;
use crate::options::Digest;
use uncopy_core::Error;

/// Difference of an entry of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Difference {
    /// A file has other bytes.
    Content,
    /// It is of another type, such as a symbolic link instead of a file.
    Type,
    /// A symbolic link has another target.
    LinkTarget,
    /// A device file has another number.
    Device,
    /// The destination lacks it.
    Missing,
    /// The destination has it, and the source or the manifest has not.
    Extra,
}

impl Difference {
    /// Every difference.
    pub const ALL: [Difference; 6] = [
        Difference::Content,
        Difference::Type,
        Difference::LinkTarget,
        Difference::Device,
        Difference::Missing,
        Difference::Extra,
    ];

    /// The stable name: `link_target`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Difference::Content => "content",
            Difference::Type => "type",
            Difference::LinkTarget => "link_target",
            Difference::Device => "device",
            Difference::Missing => "missing",
            Difference::Extra => "extra",
        }
    }
}

/// An entry that differs, or that could not be compared.
#[derive(Debug)]
#[non_exhaustive]
pub struct CompareFinding {
    /// Path below the destination; empty for the destination itself.
    pub name: PathBuf,
    /// Kind of the finding.
    pub kind: FindingKind,
}

/// Kind of a finding about an entry.
#[derive(Debug)]
#[non_exhaustive]
pub enum FindingKind {
    /// It differs.
    Differs(Difference),
    /// It could not be read, on either side.
    Unreadable(Error),
    /// A manifest names a file outside the directory: an absolute path, or one with `..`. Nothing was
    /// opened.
    Outside,
    /// A line of a manifest, by its number from 1, names no file and digest.
    Malformed {
        /// The line.
        line: u64,
    },
}

/// Progress of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompareProgress {
    /// Entries compared.
    pub entries: u64,
    /// Bytes of files compared.
    pub bytes: u64,
}

/// Observer of a comparison, called by all threads.
pub trait CompareObserver: Sync {
    /// Called after each entry and between the pieces of a file.
    fn progress(&self, _: CompareProgress) -> Control {
        Control::Continue
    }

    /// Receives a finding, by one thread at a time. The order depends on the threads.
    fn found(&self, _: &CompareFinding) {}
}

/// Ignores all events.
impl CompareObserver for () {}

/// Result of a comparison in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompareSummary {
    /// Entries compared; with a manifest, its files.
    pub entries: u64,
    /// Bytes of files that were compared.
    pub bytes: u64,
    /// Entries that differ.
    pub different: u64,
    /// Entries that the destination lacks.
    pub missing: u64,
    /// Entries that the destination has in excess, if they were looked for.
    pub extra: u64,
    /// Entries, or lines of a manifest, that could not be compared.
    pub unreadable: u64,
    /// Algorithm that the lines of a manifest were taken to be of by their number of digits alone, if no file has
    /// the digest of its line: they may be of another one, such as MD5.
    pub doubted: Option<Digest>,
    /// From the first look to the last.
    pub duration: Duration,
}

impl CompareSummary {
    /// Whether everything was compared, and nothing differs.
    #[must_use]
    pub fn is_same(&self) -> bool {
        !self.differs() && self.unreadable == 0
    }

    /// Whether a difference was found.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.different + self.missing + self.extra > 0
    }
}

/// State that the threads of a comparison share.
pub(super) struct Comparison<'a> {
    observer: &'a dyn CompareObserver,
    summary: Mutex<CompareSummary>,
    entries: AtomicU64,
    bytes: AtomicU64,
    stopped: AtomicBool,
    begin: Instant,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(observer: &'a dyn CompareObserver) -> Comparison<'a> {
        Comparison {
            observer,
            summary: Mutex::default(),
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            begin: Instant::now(),
        }
    }

    /// Whether nothing was compared or found yet.
    pub(super) fn is_empty(&self) -> bool {
        let summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        self.entries.load(Ordering::Relaxed) == 0 && summary.unreadable == 0
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Counts bytes that were compared. Returns whether to go on.
    pub(super) fn add_bytes(&self, bytes: u64) -> bool {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.report()
    }

    fn report(&self) -> bool {
        let (entries, bytes) =
            (self.entries.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        if self.observer.progress(CompareProgress { entries, bytes }) == Control::Stop {
            self.stopped.store(true, Ordering::Relaxed);
        }
        !self.is_stopped()
    }

    /// Counts an entry, and reports it if it differs or could not be compared.
    pub(super) fn finish(&self, name: impl FnOnce() -> PathBuf, found: Option<FindingKind>) {
        self.entries.fetch_add(1, Ordering::Relaxed);
        if let Some(found) = found {
            self.find(name(), found);
        }
        self.report();
    }

    /// Reports something that is no entry of source or manifest.
    pub(super) fn find(&self, name: PathBuf, found: FindingKind) {
        if self.is_stopped() {
            // Nothing is found about an entry that was given up.
            return;
        }
        let mut summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            FindingKind::Differs(Difference::Missing) => summary.missing += 1,
            FindingKind::Differs(Difference::Extra) => summary.extra += 1,
            FindingKind::Differs(_) => summary.different += 1,
            _ => summary.unreadable += 1,
        }
        self.observer.found(&CompareFinding { name, kind: found });
    }

    pub(super) fn into_summary(self) -> CompareSummary {
        let summary = self.summary.into_inner().unwrap_or_else(PoisonError::into_inner);
        CompareSummary {
            entries: self.entries.into_inner(),
            bytes: self.bytes.into_inner(),
            duration: self.begin.elapsed(),
            ..summary
        }
    }
}

/// Returns the finding for an error of a call on a path.
pub(super) fn unreadable(
    operation: &'static str,
    path: impl AsRef<Path>,
    errno: uncopy_core::Errno,
) -> FindingKind {
    FindingKind::Unreadable(Error::system(operation, path, errno))
}
