//! Counts and reports how the entries of one worker ended.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::job_control::JobControl;
use super::place::Place;
use super::tally::Tally;
use crate::Control;
use crate::Skip;
use crate::jobs::{EntryKind, EntryOutcome, JobOptions, Record, Summary};
use crate::stale::Unproven;
use uncopy_core::{Error, Receipt};

/// Reporter of one worker.
pub(super) struct Reporter<'env> {
    options: &'env JobOptions,
    tally: &'env Tally<'env>,
    control: &'env JobControl<'env>,
    summary: Summary,
    /// Entries that were skipped because their copy is up to date.
    up_to_date: u64,
    /// The observer's answer.
    wants_records: bool,
}

impl<'env> Reporter<'env> {
    pub(super) fn new(
        options: &'env JobOptions,
        tally: &'env Tally<'env>,
        control: &'env JobControl<'env>,
    ) -> Reporter<'env> {
        let wants_records = tally.wants_records();
        let summary = Summary::default();
        Reporter { options, tally, control, summary, up_to_date: 0, wants_records }
    }

    /// Whether the observer wants a record of every entry.
    pub(super) fn wants_records(&self) -> bool {
        self.wants_records
    }

    /// Whether a file with this receipt is reported as it is, and not only counted.
    pub(super) fn reports(&self, receipt: &Receipt) -> bool {
        self.wants_records || Summary::has_notes(receipt)
    }

    /// Results of this worker.
    pub(super) fn summary(&mut self) -> &mut Summary {
        &mut self.summary
    }

    /// Notes names that look like leftovers, for the summary.
    pub(super) fn add_unproven(&self, met: Vec<Unproven>, path: impl Fn(&OsStr) -> PathBuf) {
        self.tally.add_unproven(met, path);
    }

    /// Adds the results to the job's summary.
    pub(super) fn hand_in(self) {
        self.tally.add(&self.summary);
    }

    /// Adds the counts of what was made to the job's summary, and begins them again.
    pub(super) fn hand_in_made(&mut self) {
        self.tally.add(&self.summary.take_made());
    }

    /// Number of entries that have no copy by this worker: they failed, or were skipped although their copy is
    /// not up to date.
    pub(super) fn not_copied(&self) -> u64 {
        self.summary.failed + self.summary.skipped - self.up_to_date
    }

    /// Number of entries that this worker skipped because their copy is up to date.
    pub(super) fn up_to_date(&self) -> u64 {
        self.up_to_date
    }

    /// Counts a finished entry, and reports it.
    pub(super) fn finish(&mut self, place: &Place<'_>, kind: EntryKind, outcome: EntryOutcome) {
        self.finish_at(|| place.names(), kind, outcome);
    }

    /// Finishes an entry, or reports why it failed.
    pub(super) fn finish_or_fail(
        &mut self,
        place: &Place<'_>,
        kind: EntryKind,
        made: Result<EntryOutcome, Error>,
    ) {
        match made {
            Ok(outcome) => self.finish(place, kind, outcome),
            Err(error) => self.fail(place, kind, error),
        }
    }

    /// Does the same for a file that was copied. A record is a noticeable part of the cost of a
    /// small file.
    pub(super) fn finish_copied(&mut self, place: &Place<'_>, receipt: Receipt) {
        if self.reports(&receipt) {
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
            self.tally.report(Record { sequence: 0, kind, source, destination, outcome });
        }
        self.entry_done();
    }

    /// Reports a new tree that was removed again. It is no entry: each of its entries was reported.
    pub(super) fn discarded(&mut self, source: PathBuf, destination: PathBuf, lost: Summary) {
        let (kind, outcome) =
            (EntryKind::Directory, EntryOutcome::Discarded { lost: Box::new(lost) });
        self.summary.add_outcome(kind, &outcome);
        self.tally.report(Record { sequence: 0, kind, source, destination, outcome });
    }

    /// Counts an entry. Returns `true` if it is reported even if the observer wants no records.
    fn count(&mut self, kind: EntryKind, outcome: &EntryOutcome) -> bool {
        match outcome {
            EntryOutcome::Skipped { reason } => {
                self.up_to_date += u64::from(is_up_to_date(*reason));
                self.tally.count_skipped();
            }
            EntryOutcome::Failed(_) => self.tally.count_failed(),
            _ => {}
        }
        self.summary.add_outcome(kind, outcome)
    }

    /// Counts an entry whose record is done; the observer may stop the job.
    fn entry_done(&self) {
        self.tally.count_entry();
        if self.control.ask() == Control::Stop {
            self.control.cancel();
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
            self.control.leave_out(1);
            return self.control.stop(error);
        }
        if let Some(lost) = self.control.lost() {
            // Whatever failed, it was not tried to the end.
            self.control.leave_out(1);
            return self.control.stop(lost);
        }
        let end = self.options.on_error.ends_job(&error).then(|| error.clone());
        // No worker begins another entry while this one is reported.
        if let Some(error) = end {
            self.control.stop(error);
        }
        self.finish_at(names, kind, EntryOutcome::Failed(error));
    }
}

/// Whether a skipped entry has a copy that is what another one would be.
fn is_up_to_date(reason: Skip) -> bool {
    matches!(reason, Skip::AsNew | Skip::SameSize | Skip::SameContents)
}
