//! Implements one worker: the parts of the job that it uses, and its buffers.

use std::thread::Scope;

use super::backups::Backups;
use super::budget::Budget;
use super::context::Context;
use super::delete::Deleter;
use super::file_progress::FileProgress;
use super::job::Job;
use super::job_control::JobControl;
use super::last_answer::LastAnswer;
use super::links::Links;
use super::listing_buffer::ListingBuffer;
use super::place::Place;
use super::reporter::Reporter;
use super::resume::Resume;
use super::scheduler::{Scheduler, Work};
use super::small_files::{Devices, SmallFiles};
use super::tally::Tally;
use super::workshop::Workshop;
use crate::jobs::{EntryKind, JobOptions};
use crate::small::{self, NextSmallFile, SmallFilePath};
use uncopy_core::{Cost, Error, InodeFlags, Mechanism, Note, Portion, Receipt};
use uncopy_os::Sys;
use uncopy_os::capabilities::Filesystem;

/// One worker. What needs only a part of it takes that part.
pub(super) struct Worker<'scope, 'env> {
    pub(super) options: &'env JobOptions,
    pub(super) context: &'env Context<'env>,
    pub(super) budget: &'env Budget,
    pub(super) links: &'env Links,
    pub(super) tally: &'env Tally<'env>,
    pub(super) resume: &'env Resume,
    pub(super) control: &'env JobControl<'env>,
    pub(super) scheduler: Scheduler<'scope, 'env>,
    pub(super) reporter: Reporter<'env>,
    pub(super) listing: ListingBuffer,
    answer: LastAnswer,
    /// Room for the contents of a small file.
    buffer: Vec<u8>,
    small: SmallFiles,
    /// Workshop of the last link or special file.
    workshop: Option<Workshop>,
}

impl<'scope, 'env> Worker<'scope, 'env> {
    /// Makes one more worker; those that it starts run `work`.
    pub(super) fn new(
        job: &'env Job<'env>,
        control: &'env JobControl<'env>,
        scope: &'scope Scope<'scope, 'env>,
        work: Work<'scope, 'env>,
    ) -> Self {
        let Job { context, budget, links, tally, resume, .. } = job;
        let options = context.options();
        Worker {
            options,
            context,
            budget,
            links,
            tally,
            resume,
            control,
            scheduler: Scheduler::new(job, control, scope, work),
            reporter: Reporter::new(options, tally, control),
            listing: ListingBuffer::new(),
            answer: LastAnswer::default(),
            buffer: small::buffer(&options.copy),
            small: SmallFiles::default(),
            workshop: None,
        }
    }

    /// Adds the results to the job's summary.
    pub(super) fn hand_in(mut self) {
        self.flush_small_counts();
        self.reporter.hand_in();
    }

    /// Waits until the job's summary has all that was made so far; to be called between roots, by the worker that begins
    /// them.
    pub(super) fn settle(&mut self) {
        self.scheduler.wait_for_results();
        self.flush_small_counts();
        self.reporter.hand_in_made();
    }

    /// Returns the parts that deleting uses.
    pub(super) fn deleter(&mut self) -> Deleter<'_, 'env> {
        Deleter {
            context: self.context,
            options: self.options,
            budget: self.budget,
            control: self.control,
            backups: Backups { context: self.context, resume: self.resume },
            reporter: &mut self.reporter,
            listing: &mut self.listing,
            answer: &mut self.answer,
        }
    }

    /// Returns a new observer of one file.
    pub(super) fn file_progress(&self) -> FileProgress<'env> {
        FileProgress::new(self.tally, self.control)
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
        self.reporter.fail_at(|| (directory.source_path(), path), EntryKind::Directory, error);
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
        (self.small.path(devices, filesystems), &mut self.buffer)
    }

    /// Adds the refusals of the counted small files to the summary.
    fn flush_small_counts(&mut self) {
        self.small.settle(&self.options.copy, self.reporter.summary());
    }

    /// Takes out the guess about the next small file.
    pub(super) fn take_next_small(&mut self) -> NextSmallFile {
        self.small.take_next()
    }

    /// Stores the guess about the next small file.
    pub(super) fn set_next_small(&mut self, next: NextSmallFile) {
        self.small.set_next(next);
    }

    fn count_portion(&mut self, bytes: u64, mechanism: Mechanism, cost: Cost) {
        if bytes > 0 && cost != Cost::Shared {
            self.scheduler.end_light_work();
        }
        self.reporter.summary().add_portion(Portion { mechanism, bytes, cost });
        self.tally.note_mechanism(mechanism);
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
        if self.reporter.reports(&receipt) {
            receipt.add(mechanism, size, cost);
        } else {
            self.count_portion(size, mechanism, cost);
        }
        let options = &self.options.copy;
        if !self.reporter.wants_records() {
            self.small.count(mechanism, size == 0, options, self.reporter.summary());
        } else if let Some(path) = self.small.last_path() {
            receipt.refusals = path.refusals(size, mechanism, options);
            receipt.decided_by = path.decided_by(size, options);
        }
        receipt
    }
}
