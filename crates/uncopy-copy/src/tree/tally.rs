//! Counts the entries and bytes of a job, reports them to the observer, and sums them up at its
//! end.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Consent;
use crate::Control;
use crate::jobs::{JobObserver, JobProgress, Record, Summary};
use crate::stale::Unproven;
use uncopy_core::{Errno, Mechanism};
use uncopy_os::directory;
use uncopy_os::file::FileId;

/// Counts of one job, and the observer that receives them.
pub(super) struct Tally<'a> {
    observer: &'a dyn JobObserver,
    counters: Counters,
    /// Number of the last record.
    sequence: Mutex<u64>,
    /// Sum of the workers' summaries.
    summary: Mutex<Summary>,
    /// Counts of what was made before the tree that is being built.
    made_before: Mutex<Summary>,
    /// Names that look like leftovers.
    unproven: Mutex<Vec<(PathBuf, FileId)>>,
}

/// Counters that are reported while the job runs.
#[derive(Debug, Default)]
struct Counters {
    entries: AtomicU64,
    bytes: AtomicU64,
    found: AtomicU64,
    scanned_entries: AtomicU64,
    scanned_bytes: AtomicU64,
    scanned: AtomicBool,
    failed: AtomicU64,
    skipped: AtomicU64,
    /// Place in [`Mechanism::ALL`], plus 1.
    mechanism: AtomicU8,
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl<'a> Tally<'a> {
    pub(super) fn new(observer: &'a dyn JobObserver) -> Tally<'a> {
        Tally {
            observer,
            counters: Counters::default(),
            sequence: Mutex::default(),
            summary: Mutex::default(),
            made_before: Mutex::default(),
            unproven: Mutex::default(),
        }
    }

    /// Asks the observer whether an existing file may be replaced.
    pub(super) fn may_replace(&self, destination: &Path) -> Consent {
        self.observer.may_replace(destination)
    }

    /// Asks the observer whether the files of a finished root may be removed from the source.
    pub(super) fn may_remove(&self) -> bool {
        self.observer.may_remove()
    }

    /// Counts an entry that is finished, however it ended.
    pub(super) fn count_entry(&self) {
        add(&self.counters.entries, 1);
    }

    /// Counts an entry as failed, in addition to [`count_entry`](Tally::count_entry).
    pub(super) fn count_failed(&self) {
        add(&self.counters.failed, 1);
    }

    /// Counts an entry as skipped, in addition to [`count_entry`](Tally::count_entry).
    pub(super) fn count_skipped(&self) {
        add(&self.counters.skipped, 1);
    }

    /// Counts bytes that were copied.
    pub(super) fn count_bytes(&self, bytes: u64) {
        add(&self.counters.bytes, bytes);
    }

    /// Counts entries that a listing found.
    pub(super) fn count_found(&self, entries: u64) {
        add(&self.counters.found, entries);
    }

    /// Counts an entry that was met ahead of the copy, with its bytes if it is a regular file.
    pub(super) fn count_scanned(&self, bytes: Option<u64>) {
        self.add_scanned(1, bytes.unwrap_or(0));
    }

    /// Counts entries that were met ahead of the copy, and the bytes of the files among them.
    pub(super) fn add_scanned(&self, entries: u64, bytes: u64) {
        add(&self.counters.scanned_entries, entries);
        add(&self.counters.scanned_bytes, bytes);
    }

    /// Notes that everything was met ahead of the copy.
    pub(super) fn end_scan(&self) {
        self.counters.scanned.store(true, Ordering::Relaxed);
    }

    /// Notes the mechanism of the last copy.
    pub(super) fn note_mechanism(&self, mechanism: Mechanism) {
        let place = Mechanism::ALL.iter().position(|m| *m == mechanism).unwrap_or(0);
        let reported = &self.counters.mechanism;
        if reported.load(Ordering::Relaxed) != place as u8 + 1 {
            reported.store(place as u8 + 1, Ordering::Relaxed);
        }
    }

    /// Returns the number of finished entries, of all roots.
    pub(super) fn done_entries(&self) -> u64 {
        let Counters { entries, failed, skipped, .. } = &self.counters;
        load(entries).saturating_sub(load(failed) + load(skipped))
    }

    /// Adds a worker's results to the summary.
    pub(super) fn add(&self, summary: &Summary) {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner).add(summary);
    }

    /// Begins a tree that may be removed again. All workers have handed in their results.
    pub(super) fn begin_tree(&self) {
        let made = self.take_made();
        self.made_before.lock().unwrap_or_else(PoisonError::into_inner).add(&made);
    }

    /// Takes out the counts of what was made since the tree was begun, of which workers have handed in their results.
    pub(super) fn take_made(&self) -> Summary {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner).take_made()
    }

    /// Notes names that look like leftovers, for the summary.
    pub(super) fn add_unproven(&self, met: Vec<Unproven>, path: impl Fn(&OsStr) -> PathBuf) {
        if !met.is_empty() {
            let named = met.into_iter().map(|unproven| (path(&unproven.name), unproven.id));
            self.unproven.lock().unwrap_or_else(PoisonError::into_inner).extend(named);
        }
    }

    /// Whether the observer wants a record of every entry.
    pub(super) fn wants_records(&self) -> bool {
        self.observer.wants_records()
    }

    /// Numbers a record and passes it to the observer, one at a time.
    pub(super) fn report(&self, mut record: Record) {
        let mut sequence = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        *sequence += 1;
        record.sequence = *sequence;
        self.observer.finished(&record);
    }

    /// Reports progress to the observer, and returns whether to continue.
    pub(super) fn report_progress(&self) -> Control {
        self.observer.progress(self.progress())
    }

    /// Returns the progress of the job.
    fn progress(&self) -> JobProgress {
        let counters = &self.counters;
        let mechanism = usize::from(counters.mechanism.load(Ordering::Relaxed));
        JobProgress {
            entries: load(&counters.entries),
            bytes: load(&counters.bytes),
            total_entries: load(&counters.found).max(load(&counters.scanned_entries)),
            total_bytes: load(&counters.scanned_bytes),
            scanned: counters.scanned.load(Ordering::Relaxed),
            mechanism: mechanism.checked_sub(1).map(|place| Mechanism::ALL[place]),
        }
    }

    /// Returns the sum of all, with the leftovers that still exist.
    pub(super) fn into_summary(self) -> Summary {
        let Tally { summary, made_before, unproven, .. } = self;
        let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
        summary.add(&made_before.into_inner().unwrap_or_else(PoisonError::into_inner));
        for (path, id) in unproven.into_inner().unwrap_or_else(PoisonError::into_inner) {
            // A record in another directory may have identified the leftover, or a running copy may
            // have finished.
            let stays = match directory::stat_path(&path) {
                Ok(stat) => stat.id() == id,
                Err(errno) => errno != Errno::ENOENT,
            };
            if stays {
                summary.leftovers.add(path);
            }
        }
        summary
    }
}
