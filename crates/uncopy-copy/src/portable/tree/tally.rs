//! Counts and reports how entries ended, and decides whether the job goes on.

use std::path::{Path, PathBuf};

use crate::jobs::{
    EntryKind, EntryOutcome, Incomplete, JobObserver, JobOptions, JobProgress, OnError, Record,
    Summary,
};
use crate::observer::{Consent, Observer, Phase, Progress};
use crate::pause::Passed;
use crate::{Control, Throttle};
use uncopy_core::{Error, Objection, Reason, Result};

/// Counts of one job, and the observer that receives them.
pub(super) struct Tally<'a> {
    options: &'a JobOptions,
    observer: &'a dyn JobObserver,
    throttle: Option<&'a Throttle>,
    /// The observer's answer.
    wants_records: bool,
    pub(super) progress: JobProgress,
    summary: Summary,
    /// Counts of what was made before the tree that is being built.
    made_before: Summary,
    /// Number of the last record.
    sequence: u64,
    /// The error that ended the job.
    stopped: Option<Error>,
    /// Entries found by the copy itself, without the roots.
    found: u64,
}

impl<'a> Tally<'a> {
    pub(super) fn new(
        options: &'a JobOptions,
        observer: &'a dyn JobObserver,
        throttle: Option<&'a Throttle>,
    ) -> Tally<'a> {
        Tally {
            options,
            observer,
            throttle,
            wants_records: observer.wants_records(),
            progress: JobProgress::default(),
            summary: Summary::default(),
            made_before: Summary::default(),
            sequence: 0,
            stopped: None,
            found: 0,
        }
    }

    pub(super) fn throttle(&self) -> Option<&'a Throttle> {
        self.throttle
    }

    pub(super) fn is_over(&self) -> bool {
        self.stopped.is_some()
    }

    /// Ends the job with this error; the first one counts.
    pub(super) fn stop(&mut self, error: Error) {
        self.stopped.get_or_insert(error);
    }

    /// Counts entries that were found and are not tried.
    pub(super) fn leave_out(&mut self, entries: u64) {
        self.summary.not_tried += entries;
    }

    /// Counts entries that a listing found.
    pub(super) fn add_found(&mut self, entries: u64) {
        self.found += entries;
        self.progress.total_entries = self.progress.total_entries.max(self.found);
    }

    /// Counts a file that was compared, and the bytes that were the same.
    pub(super) fn add_compared(&mut self, same_bytes: u64) {
        self.summary.compared += 1;
        self.summary.compared_bytes += same_bytes;
    }

    /// Whether the destination caused the end of the job, and an unfinished tree is kept.
    pub(super) fn keeps_incomplete(&self) -> bool {
        let lasts = self.stopped.as_ref().is_some_and(Error::is_lasting);
        lasts && self.options.on_error != OnError::Abort
    }

    /// Notes the tree that is kept.
    pub(super) fn keep(&mut self, incomplete: Incomplete) {
        self.summary.incomplete = Some(incomplete);
    }

    /// Returns the number of entries that are done, of all roots.
    pub(super) fn done_entries(&self) -> u64 {
        self.progress.entries.saturating_sub(self.summary.failed + self.summary.skipped)
    }

    /// Reports progress to the observer, which decides whether to go on; waits while the job is paused.
    pub(super) fn ask(&self) -> Control {
        let ask = || match self.is_over() {
            true => Control::Stop,
            false => self.observer.progress(self.progress),
        };
        let Some(gate) = &self.options.gate else { return ask() };
        match gate.pass(ask) {
            Passed::Open => Control::Continue,
            Passed::Opened(at) => {
                if let Some(throttle) = self.throttle {
                    throttle.restart(at);
                }
                Control::Continue
            }
            Passed::Stopped => Control::Stop,
        }
    }

    /// Asks the observer whether an existing entry may be replaced.
    pub(super) fn may_replace(&self, destination: &Path) -> Consent {
        self.observer.may_replace(destination)
    }

    /// As [`Tally::ask`]; a stop ends the job.
    pub(super) fn ask_or_end(&mut self) -> Control {
        let answer = self.ask();
        if answer == Control::Stop {
            self.cancel();
        }
        answer
    }

    fn cancel(&mut self) {
        self.stop(Error::new("copy", "the trees", Reason::Cancelled));
    }

    /// Counts a finished entry, and reports it.
    pub(super) fn finish(
        &mut self,
        source: &Path,
        destination: &Path,
        kind: EntryKind,
        outcome: EntryOutcome,
    ) {
        if let EntryOutcome::Copied(receipt) = &outcome
            && let Some(portion) = receipt.portions.last()
        {
            self.progress.mechanism = Some(portion.mechanism);
        }
        self.report(source, destination, kind, outcome);
        self.progress.entries += 1;
        let _ = self.ask_or_end();
    }

    fn report(
        &mut self,
        source: &Path,
        destination: &Path,
        kind: EntryKind,
        outcome: EntryOutcome,
    ) {
        if self.summary.add_outcome(kind, &outcome) || self.wants_records {
            self.sequence += 1;
            let (source, destination) = (source.to_owned(), destination.to_owned());
            let sequence = self.sequence;
            self.observer.finished(&Record { sequence, kind, source, destination, outcome });
        }
    }

    /// Begins a tree that may be removed again.
    pub(super) fn begin_tree(&mut self) {
        self.made_before.add(&self.summary.take_made());
    }

    /// Reports that a new tree was removed again, with all that was made since it was begun.
    pub(super) fn discard_tree(&mut self, source: &Path, destination: &Path) {
        let lost = Box::new(self.summary.take_made());
        if lost.made_entries() > 0 {
            let outcome = EntryOutcome::Discarded { lost };
            self.report(source, destination, EntryKind::Directory, outcome);
        }
    }

    /// Reports an entry that could not be copied.
    pub(super) fn fail(
        &mut self,
        source: &Path,
        destination: &Path,
        kind: EntryKind,
        error: Error,
    ) {
        if error.is_cancelled() {
            self.leave_out(1);
            return self.stop(error);
        }
        if self.options.on_error.ends_job(&error) {
            self.stop(error.clone());
        }
        self.finish(source, destination, kind, EntryOutcome::Failed(error));
    }

    /// Sums up the job.
    pub(super) fn into_summary(self, not_begun: u64) -> (Summary, Result<()>) {
        let Tally { mut summary, made_before, stopped, .. } = self;
        summary.add(&made_before);
        summary.stopped_early = stopped.is_some();
        summary.not_tried += not_begun;
        summary.sources_not_tried = not_begun;
        (summary, stopped.map_or(Ok(()), Err))
    }
}

/// Adds the bytes of one file to those of the job.
pub(super) struct FileProgress<'a, 'b> {
    tally: &'a mut Tally<'b>,
    reported: u64,
}

impl<'a, 'b> FileProgress<'a, 'b> {
    pub(super) fn new(tally: &'a mut Tally<'b>) -> FileProgress<'a, 'b> {
        FileProgress { tally, reported: 0 }
    }
}

impl Observer for FileProgress<'_, '_> {
    fn progress(&mut self, progress: Progress) -> Control {
        if progress.phase == Phase::Copying {
            let more = progress.done_bytes.saturating_sub(self.reported);
            self.reported += more;
            self.tally.progress.bytes += more;
        }
        self.tally.ask()
    }
}

/// Makes the record of an unfinished tree.
pub(super) fn incomplete(
    source: &Path,
    destination: &Path,
    path: PathBuf,
    entries: u64,
    has_journal: bool,
) -> Incomplete {
    let reason = || Reason::Refused(Objection::NothingNoted);
    Incomplete {
        source: source.to_owned(),
        destination: destination.to_owned(),
        path: std::path::absolute(&path).unwrap_or(path),
        entries,
        no_journal: (!has_journal).then(reason),
        removed_by_next: false,
    }
}
