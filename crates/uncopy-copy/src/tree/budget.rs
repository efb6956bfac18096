//! Keeps the limits of a job: workers, descriptors, and entries to delete.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::queue::WorkerId;
use crate::jobs::JobOptions;
use uncopy_os::directory;

/// Directories whose descriptors are kept while their entries are copied; the others are opened
/// again when they are needed. Each has two.
const MAX_PINNED: usize = 256;

/// Maximum number of workers by default; more of them wait for each other in the filesystem.
const MAX_WORKERS: usize = 8;

/// Descriptors of one worker: both directories, both files, and those for opening a deep directory
/// again; twice.
const DESCRIPTORS_OF_A_WORKER: usize = 16;

/// Number of waiting tasks from which another worker is worth its start while files share blocks
/// with their copies one after the other.
const MANY_LIGHT_TASKS: usize = 16;

/// Limits of one job, and what is used of them.
pub(super) struct Budget {
    /// Number of workers that the caller named.
    wanted_workers: Option<usize>,
    /// Maximum number of workers; computed on first use.
    workers: OnceLock<usize>,
    alive: AtomicUsize,
    /// Number of workers started so far.
    begun: AtomicUsize,
    /// Files are expected to share their blocks with their copies in turn, and each that is copied does.
    is_light: AtomicBool,
    /// File-descriptor limit.
    descriptors: usize,
    pinned: AtomicUsize,
    max_pinned: usize,
    max_batches: usize,
    deleted: AtomicU64,
}

impl Budget {
    /// Makes the limits. Workers that ask another machine wait for its answers, and not for a processor.
    pub(super) fn new(options: &JobOptions, is_elsewhere: bool) -> Budget {
        let usual = is_elsewhere.then_some(MAX_WORKERS);
        let wanted_workers = options.jobs.map(Into::into).or(usual);
        let descriptors = usize::try_from(directory::descriptor_limit()).unwrap_or(usize::MAX);
        Budget {
            wanted_workers,
            workers: OnceLock::new(),
            alive: AtomicUsize::new(1),
            begun: AtomicUsize::new(0),
            is_light: AtomicBool::new(false),
            descriptors,
            pinned: AtomicUsize::new(0),
            // Each has a pair of directories; together with those of batches they may use half of
            // all descriptors.
            max_pinned: (descriptors / 8).min(MAX_PINNED),
            max_batches: (descriptors / 8).min(wanted_workers.unwrap_or(MAX_WORKERS) * 4),
            deleted: AtomicU64::new(0),
        }
    }

    /// Maximum number of workers.
    fn max_workers(&self) -> usize {
        *self.workers.get_or_init(|| {
            let wanted = self.wanted_workers.unwrap_or_else(usual_workers);
            wanted.min(self.descriptors / DESCRIPTORS_OF_A_WORKER)
        })
    }

    /// Counts one more worker, if there may be one.
    pub(super) fn may_spawn_worker(&self) -> bool {
        let workers = self.max_workers();
        let one_more = |alive| (alive < workers).then_some(alive + 1);
        self.alive.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Counts one worker less, which found no more work.
    pub(super) fn worker_ended(&self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }

    /// Numbers the next worker.
    pub(super) fn next_worker(&self) -> WorkerId {
        WorkerId(self.begun.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the number of idle workers while the given number have a task. The caller is counted
    /// as working, even with a root that is a file, which the queue does not know.
    pub(super) fn spare_workers(&self, at_work: usize) -> usize {
        self.max_workers().saturating_sub(at_work.max(1))
    }

    /// Notes whether the files of the root being started are expected to share their blocks with
    /// their copies one after the other.
    pub(super) fn expect_light_work(&self, is_light: bool) {
        // A number given by the caller is used as it is.
        let is_light = is_light && self.wanted_workers.is_none();
        self.is_light.store(is_light, Ordering::Relaxed);
    }

    /// Stops expecting light work. Returns `true` if it was expected until now.
    pub(super) fn ends_light_work(&self) -> bool {
        self.is_light.load(Ordering::Relaxed) && self.is_light.swap(false, Ordering::Relaxed)
    }

    /// Whether this number of waiting tasks without an idle worker is worth another worker, in
    /// addition to the caller.
    pub(super) fn is_worth_another(&self, unclaimed: usize) -> bool {
        match self.is_light.load(Ordering::Relaxed) {
            true => unclaimed >= MANY_LIGHT_TASKS.min(self.max_batches),
            false => unclaimed > 1,
        }
    }

    /// Maximum number of batches that wait: each holds the descriptors of its directory.
    pub(super) fn max_batches(&self) -> usize {
        self.max_batches
    }

    /// Counts one more directory that keeps its descriptors, if there may be one.
    pub(super) fn may_pin(&self) -> bool {
        let one_more = |pinned| (pinned < self.max_pinned).then_some(pinned + 1);
        self.pinned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Counts a directory that keeps its descriptors, whatever their number.
    pub(super) fn must_pin(&self) {
        self.pinned.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a directory less that keeps its descriptors.
    pub(super) fn unpinned(&self) {
        self.pinned.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a number of further entries as deleted, unless the sum exceeds `most`.
    pub(super) fn may_delete(&self, entries: u64, most: Option<u64>) -> bool {
        let most = most.unwrap_or(u64::MAX);
        let more = |deleted: u64| deleted.checked_add(entries).filter(|sum| *sum <= most);
        self.deleted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// Number of workers where the caller names none.
pub(crate) fn usual_workers() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into).min(MAX_WORKERS)
}
