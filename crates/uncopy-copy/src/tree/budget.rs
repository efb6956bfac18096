//! Limits of a job: workers, descriptors, and entries to delete.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::queue::WorkerId;
use crate::jobs::JobOptions;
use uncopy_os::directory;

/// Directories whose descriptors are kept while their entries are copied; the others are opened
/// again when they are needed. Each has two.
const MAX_PINNED: usize = 256;

/// Workers beyond this number wait for each other in the filesystem.
const MAX_WORKERS: usize = 8;

/// Both directories, both files, and what opening a deep directory again takes on its way; twice.
const DESCRIPTORS_OF_A_WORKER: usize = 16;

/// While every file shares its blocks with its copy in turn, another worker is worth its start when so
/// many tasks wait.
const MANY_LIGHT_TASKS: usize = 16;

/// Limits of one job, and what is used of them.
pub(super) struct Budget {
    /// Number of workers that the caller named.
    wanted_workers: Option<usize>,
    /// Maximum number of workers; computed on first use.
    workers: OnceLock<usize>,
    alive: AtomicUsize,
    /// Workers there have been.
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
    pub(super) fn new(options: &JobOptions) -> Budget {
        let wanted_workers = options.jobs.map(Into::into);
        let descriptors = usize::try_from(directory::descriptor_limit()).unwrap_or(usize::MAX);
        Budget {
            wanted_workers,
            workers: OnceLock::new(),
            alive: AtomicUsize::new(1),
            begun: AtomicUsize::new(0),
            is_light: AtomicBool::new(false),
            descriptors,
            pinned: AtomicUsize::new(0),
            // A pair of directories each: half of all descriptors at most, with those of batches.
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

    /// Counts one worker less, which found nothing more to do.
    pub(super) fn worker_ended(&self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }

    /// Numbers the next worker.
    pub(super) fn next_worker(&self) -> WorkerId {
        WorkerId(self.begun.fetch_add(1, Ordering::Relaxed))
    }

    /// Workers that have nothing to do while so many have a task. Who asks is at work, also with a root
    /// that is a file, of which the queue does not know.
    pub(super) fn spare_workers(&self, at_work: usize) -> usize {
        self.max_workers().saturating_sub(at_work.max(1))
    }

    /// Notes of the root that is begun whether its files are expected to share their blocks with their
    /// copies in turn.
    pub(super) fn expect_light_work(&self, is_light: bool) {
        // A number of workers that the caller named is used.
        let is_light = is_light && self.wanted_workers.is_none();
        self.is_light.store(is_light, Ordering::Relaxed);
    }

    /// Expects no light work any more; `true`: it did until now.
    pub(super) fn ends_light_work(&self) -> bool {
        self.is_light.load(Ordering::Relaxed) && self.is_light.swap(false, Ordering::Relaxed)
    }

    /// Whether so many tasks that nobody waits for are worth another worker, beside the one that asks.
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

    /// Counts so many more entries as deleted, if the sum is not above `most`.
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
