//! Implements one worker: the job, its buffers, and the operations that queue tasks and report how
//! entries ended.

use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Scope;

use super::directory::Directory;
use super::job::Job;
use super::place::Place;
use super::queue::{Batch, Task, WorkerId};
use super::small_files::{Devices, SmallFiles};
use super::workshop::Workshop;
use crate::Control;
use crate::jobs::{Action, EntryKind, EntryOutcome, Record, Summary};
use crate::small::{self, NextSmallFile, SmallFilePath};
use uncopy_core::{Cost, Error, InodeFlags, Mechanism, Note, Portion, Receipt};
use uncopy_os::Sys;
use uncopy_os::capabilities::Filesystem;

/// Room for a listing: a few hundred entries a call.
const LISTING_BYTES: usize = 64 << 10;

/// Function of a worker's thread: works until all is done.
pub(super) type Work<'scope, 'env> = fn(&'env Job<'env>, &'scope Scope<'scope, 'env>);

/// One worker.
pub(super) struct Worker<'scope, 'env> {
    job: &'env Job<'env>,
    id: WorkerId,
    /// Scope in which other workers are started, and their function.
    others: (&'scope Scope<'scope, 'env>, Work<'scope, 'env>),
    summary: Summary,
    /// Room for the contents of a small file.
    buffer: Vec<u8>,
    listing: Vec<MaybeUninit<u8>>,
    small: SmallFiles,
    /// Workshop of the last link or special file.
    workshop: Option<Workshop>,
    /// The observer's answer.
    wants_records: bool,
}

impl<'scope, 'env> Worker<'scope, 'env> {
    /// Makes one more worker; those that it starts run `work`.
    pub(super) fn new(
        job: &'env Job<'env>,
        scope: &'scope Scope<'scope, 'env>,
        work: Work<'scope, 'env>,
    ) -> Self {
        Worker {
            job,
            id: job.budget().next_worker(),
            others: (scope, work),
            summary: Summary::default(),
            buffer: small::buffer(&job.options().copy),
            listing: listing_room(),
            small: SmallFiles::default(),
            workshop: None,
            wants_records: job.tally().wants_records(),
        }
    }

    pub(super) fn job(&self) -> &'env Job<'env> {
        self.job
    }

    /// Number of the worker.
    pub(super) fn id(&self) -> WorkerId {
        self.id
    }

    /// Whether the observer wants a record of every entry.
    pub(super) fn wants_records(&self) -> bool {
        self.wants_records
    }

    /// Adds the results to the job's summary.
    pub(super) fn hand_in(mut self) {
        self.flush_small_counts();
        self.job.tally().add(&self.summary);
    }

    /// Queues a task for any worker; its directory has one more task.
    ///
    /// # Errors
    /// There are enough batches: the caller copies this one at once.
    pub(super) fn push(&mut self, directory: &Arc<Directory>, task: Task) -> Result<(), Batch> {
        self.job.rest_if_paused();
        directory.begin();
        let unclaimed = self.job.queue().push(task, self.id)?;
        if self.job.budget().is_worth_another(unclaimed) {
            self.spawn_worker();
        }
        Ok(())
    }

    /// Starts another worker, unless there are as many as there may be.
    fn spawn_worker(&self) -> bool {
        let (job, (scope, work)) = (self.job, self.others);
        if !job.budget().may_spawn_worker() {
            return false;
        }
        let worker = std::thread::Builder::new().name("uncopy".into());
        // If it cannot be started, the others do the work.
        let _ = worker.spawn_scoped(scope, move || {
            work(job, scope);
            job.budget().worker_ended();
        });
        true
    }

    /// Notes that a file took longer than one with shared blocks, so that other workers may help
    /// with the waiting files.
    pub(super) fn end_light_work(&self) {
        if self.job.budget().ends_light_work() {
            let unclaimed = self.job.queue().unclaimed();
            let _spawned = (0..unclaimed).take_while(|_| self.spawn_worker()).count();
        }
    }

    /// Takes the buffer for a listing, which is [given back](Worker::give_back_listing) afterwards.
    pub(super) fn take_listing(&mut self) -> Vec<MaybeUninit<u8>> {
        match std::mem::take(&mut self.listing) {
            // A batch copied during a listing may finish another directory, which is then listed
            // for mirroring.
            taken if taken.is_empty() => listing_room(),
            listing => listing,
        }
    }

    pub(super) fn give_back_listing(&mut self, listing: Vec<MaybeUninit<u8>>) {
        self.listing = listing;
    }

    /// Returns the directory in which entries can be changed by name.
    pub(super) fn workshop(&mut self, place: &Place<'_>) -> Sys<&Workshop> {
        let workshop = match self.workshop.take().filter(|workshop| workshop.is_for(place)) {
            Some(workshop) => workshop,
            None => Workshop::make(place)?,
        };
        Ok(self.workshop.insert(workshop))
    }

    /// Removes the workshop before the directory gets its times.
    pub(super) fn close_workshop(&mut self) {
        let closed = self.workshop.take().map(Workshop::close);
        let Some(Err((directory, name, errno))) = closed else { return };
        let path = directory.destination_path().join(name);
        let error = Error::system("remove the directory that entries were made in", &path, errno);
        self.fail_at(|| (directory.source_path(), path), EntryKind::Directory, error);
    }

    /// Room for the contents of a small file.
    pub(super) fn buffer(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Returns how small files are copied between these devices, and a buffer for their contents.
    /// If the devices changed, adds the refusals of the earlier files to the summary.
    pub(super) fn small_file_path(
        &mut self,
        devices: Devices,
        filesystems: (Filesystem, Filesystem),
    ) -> (&mut SmallFilePath, &mut [u8]) {
        if self.small.went_elsewhere(devices) {
            self.flush_small_counts();
        }
        (self.small.way(devices, filesystems), &mut self.buffer)
    }

    /// Adds the refusals of the counted small files to the summary.
    fn flush_small_counts(&mut self) {
        self.small.settle(&self.job.options().copy, &mut self.summary);
    }

    /// Takes out the guess about the next small file.
    pub(super) fn take_next_small(&mut self) -> NextSmallFile {
        self.small.take_next()
    }

    /// Stores the guess about the next small file.
    pub(super) fn set_next_small(&mut self, next: NextSmallFile) {
        self.small.set_next(next);
    }

    /// Number of entries that this worker did not copy: they failed, or were skipped.
    pub(super) fn not_copied(&self) -> u64 {
        self.summary.failed + self.summary.skipped
    }

    /// Counts a finished entry, and reports it.
    pub(super) fn finish(&mut self, place: &Place<'_>, kind: EntryKind, outcome: EntryOutcome) {
        self.finish_at(|| place.names(), kind, outcome);
    }

    /// Does the same for a file that was copied. A record is a noticeable part of the cost of a
    /// small file.
    pub(super) fn finish_copied(&mut self, place: &Place<'_>, receipt: Receipt) {
        if self.wants_records || has_notes(&receipt) {
            return self.finish(place, EntryKind::File, EntryOutcome::Copied(Box::new(receipt)));
        }
        self.summary.add_receipt(&receipt);
        self.entry_done();
    }

    /// The same for an entry of which only the two names are known.
    pub(super) fn finish_at(
        &mut self,
        names: impl FnOnce() -> (PathBuf, PathBuf),
        kind: EntryKind,
        outcome: EntryOutcome,
    ) {
        let reports = self.count(kind, &outcome);
        if reports || self.wants_records {
            let (source, destination) = names();
            self.job.tally().report(Record { sequence: 0, kind, source, destination, outcome });
        }
        self.entry_done();
    }

    /// Counts an entry. Returns `true` if it is reported even if the observer wants no records.
    fn count(&mut self, kind: EntryKind, outcome: &EntryOutcome) -> bool {
        match outcome {
            EntryOutcome::Copied(receipt) => {
                self.summary.add_receipt(receipt);
                has_notes(receipt)
            }
            EntryOutcome::Linked { .. } => {
                self.summary.hard_links += 1;
                false
            }
            EntryOutcome::Made { notes, flags_not_kept } => {
                match kind {
                    EntryKind::Directory => self.summary.directories += 1,
                    EntryKind::Symlink => self.summary.symlinks += 1,
                    _ => self.summary.specials += 1,
                }
                !notes.is_empty() || !flags_not_kept.is_empty()
            }
            EntryOutcome::Skipped { .. } => {
                self.summary.skipped += 1;
                self.job.tally().count_skipped();
                // This was not requested by the caller.
                kind == EntryKind::Special
            }
            EntryOutcome::Resumed => {
                self.summary.resumed += 1;
                false
            }
            EntryOutcome::Deleted { entries } => {
                self.summary.deleted += entries;
                false
            }
            EntryOutcome::Planned { action, .. } => {
                self.count_planned(kind, *action);
                // A dry run exists to be reported.
                true
            }
            EntryOutcome::Failed(_) => {
                self.summary.failed += 1;
                self.job.tally().count_failed();
                true
            }
        }
    }

    fn count_planned(&mut self, kind: EntryKind, action: Action) {
        let counter = match (action, kind) {
            (Action::Delete { entries }, _) => {
                self.summary.deleted += entries;
                return;
            }
            (Action::Link, _) => &mut self.summary.hard_links,
            (_, EntryKind::Directory) => &mut self.summary.directories,
            (_, EntryKind::Symlink) => &mut self.summary.symlinks,
            (_, EntryKind::Special) => &mut self.summary.specials,
            _ => &mut self.summary.files,
        };
        *counter += 1;
    }

    /// Counts an entry whose record is done; the observer may stop the job.
    fn entry_done(&self) {
        self.job.tally().count_entry();
        if self.job.ask() == Control::Stop {
            self.job.cancel();
        }
    }

    /// Reports an entry that could not be copied.
    pub(super) fn fail(&mut self, place: &Place<'_>, kind: EntryKind, error: Error) {
        self.fail_at(|| place.names(), kind, error);
    }

    /// The same for an entry of which only the two names are known.
    pub(super) fn fail_at(
        &mut self,
        names: impl FnOnce() -> (PathBuf, PathBuf),
        kind: EntryKind,
        error: Error,
    ) {
        if error.is_cancelled() {
            self.job.leave_out(1);
            return self.job.stop(error);
        }
        let end = self.job.options().on_error.ends_job(&error).then(|| error.clone());
        // No worker begins another entry while this one is reported.
        if let Some(error) = end {
            self.job.stop(error);
        }
        self.finish_at(names, kind, EntryOutcome::Failed(error));
    }

    fn count_portion(&mut self, bytes: u64, mechanism: Mechanism, cost: Cost) {
        if bytes > 0 && cost != Cost::Shared {
            self.end_light_work();
        }
        self.summary.add_portion(Portion { mechanism, bytes, cost });
        self.job.tally().note_mechanism(mechanism);
    }

    fn count_alike(&mut self, mechanism: Mechanism, is_empty: bool) {
        self.small.count(mechanism, is_empty, &self.job.options().copy, &mut self.summary);
    }

    /// Makes the receipt of a small file. Refusals are part of it if the observer wants records, and counted
    /// otherwise; so are its bytes if it is not reported.
    pub(super) fn small_receipt(
        &mut self,
        size: u64,
        mechanism: Mechanism,
        cost: Cost,
        notes: Vec<Note>,
        flags_not_kept: InodeFlags,
    ) -> Receipt {
        let mut receipt = Receipt::default();
        receipt.bytes = size;
        receipt.notes = notes;
        receipt.flags_not_kept = flags_not_kept;
        if self.wants_records || has_notes(&receipt) {
            receipt.add(mechanism, size, cost);
        } else {
            self.count_portion(size, mechanism, cost);
        }
        if !self.wants_records {
            self.count_alike(mechanism, size == 0);
        } else if let Some(way) = self.small.last_way() {
            receipt.refusals = way.refusals(size, mechanism, &self.job.options().copy);
            receipt.decided_by = way.decided_by(size, &self.job.options().copy);
        }
        receipt
    }
}

fn listing_room() -> Vec<MaybeUninit<u8>> {
    vec![MaybeUninit::uninit(); LISTING_BYTES]
}

/// Whether the receipt contains something that a person should know, even if no records are wanted.
fn has_notes(receipt: &Receipt) -> bool {
    !receipt.notes.is_empty() || !receipt.flags_not_kept.is_empty()
}
