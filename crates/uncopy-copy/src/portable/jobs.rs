//! Copies jobs on systems other than Linux, one file after the other.

use std::path::{Path, PathBuf};

use super::backup_claims::BackupClaims;
use super::{copy_by, passing};
use crate::jobs::{
    EntryKind, EntryOutcome, JobObserver, JobOptions, JobProgress, Record, Sources, Summary,
};
use crate::pause::Stopwatch;
use crate::written::WrittenFiles;
use crate::{
    Consent, Control, CopyContext, Gate, Observer, Outcome, Phase, Progress, Throttle, copy_gated,
};
use uncopy_core::{Error, Reason, Result};
use uncopy_os::native::CopyCalls;
use uncopy_os::native_calls::SystemCalls;

/// Copies single files or trees; see [`crate::job::copy_trees`].
pub(crate) fn run_job(
    pairs: &[(PathBuf, PathBuf)],
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    match options.sources {
        Sources::Files => copy_files_by(&SystemCalls, pairs, options, observer),
        Sources::Trees | Sources::Entries => super::tree::run(pairs, options, observer),
    }
}

/// Copies single files by the calls of a system.
pub(super) fn copy_files_by(
    calls: &dyn CopyCalls,
    pairs: &[(PathBuf, PathBuf)],
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    let begin = Stopwatch::start(options.gate.as_ref());
    let mut files = Files::new(calls, pairs.len(), options, observer);
    let ended = files.copy_all(pairs);
    let mut summary = files.summary;
    summary.duration = begin.elapsed();
    (summary, ended)
}

/// See [`crate::job::is_built`].
pub(crate) fn is_built(source: &Path, destination: &Path, options: &JobOptions) -> bool {
    super::tree::is_built(source, destination, options)
}

/// Single files of one job.
struct Files<'a> {
    calls: &'a dyn CopyCalls,
    options: &'a JobOptions,
    observer: &'a dyn JobObserver,
    throttle: Option<Throttle>,
    written: WrittenFiles,
    claims: Option<BackupClaims>,
    progress: JobProgress,
    summary: Summary,
}

impl<'a> Files<'a> {
    fn new(
        calls: &'a dyn CopyCalls,
        files: usize,
        options: &'a JobOptions,
        observer: &'a dyn JobObserver,
    ) -> Files<'a> {
        let progress = JobProgress { total_entries: files as u64, ..JobProgress::default() };
        Files {
            calls,
            options,
            observer,
            throttle: options.bytes_per_second.map(Throttle::new),
            written: WrittenFiles::default(),
            claims: BackupClaims::of(options.copy.backup.as_ref()),
            progress,
            summary: Summary::default(),
        }
    }

    fn copy_all(&mut self, pairs: &[(PathBuf, PathBuf)]) -> Result<()> {
        for (place, (source, destination)) in pairs.iter().enumerate() {
            let left = (pairs.len() - place - 1) as u64;
            if let Err(error) = self.copy(source, destination) {
                self.summary.stopped_early = true;
                self.summary.sources_not_tried = left;
                self.summary.not_tried = left;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Copies one file.
    ///
    /// # Errors
    /// The job is over.
    fn copy(&mut self, source: &Path, destination: &Path) -> Result<()> {
        let options = &self.options.copy;
        let mut is_stopped = false;
        let is_taken = destination.symlink_metadata().is_ok();
        let checked = self.written.check(destination, options).and_then(|()| {
            // A backup is made of what has the name, which is not followed if it is a link.
            let claims = self.claims.as_ref().filter(|_| is_taken);
            claims
                .map_or(Ok(()), |claims| claims.check(self.calls, source, destination, destination))
        });
        let copied = checked.and_then(|()| {
            let (calls, observer, gate) = (self.calls, self.observer, self.options.gate.as_ref());
            let throttle = self.throttle.as_ref();
            let context = CopyContext { gate, throttle, ..CopyContext::new() };
            let before = self.progress.bytes;
            let attempt = |total: &mut JobProgress| {
                let mut progress = FileProgress { observer, before, total };
                copy_gated(source, destination, options, &context, &mut progress, |progress| {
                    copy_by(calls, source, destination, options, &context, progress)
                })
            };
            let ask = |progress: &mut JobProgress| {
                let ask = || observer.progress(*progress);
                let answer = gate.map_or_else(ask, |gate: &Gate| gate.control(ask));
                is_stopped |= answer == Control::Stop;
                answer
            };
            let (system, retries) = (calls.system(), self.options.retries);
            passing::persist(&mut self.progress, system, retries, attempt, ask)
        });
        let (mut ended, mut copy) = (Ok(()), destination.to_owned());
        let outcome = match copied {
            Ok(outcome) => {
                copy = outcome.renamed().unwrap_or(destination).to_owned();
                if !outcome.is_skipped() {
                    self.written.add(&copy);
                    if let Some(claims) = &mut self.claims {
                        claims.add(self.calls, &copy, is_taken);
                    }
                }
                match outcome {
                    Outcome::Copied(receipt) => EntryOutcome::Copied(Box::new(receipt)),
                    Outcome::Skipped { reason, .. } => EntryOutcome::Skipped { reason },
                }
            }
            Err(error) => {
                if error.is_cancelled() || self.options.on_error.ends_job(&error) {
                    ended = Err(error.clone());
                }
                EntryOutcome::Failed(error)
            }
        };
        self.finish(source, copy, outcome);
        is_stopped |= self.observer.progress(self.progress) == Control::Stop;
        match is_stopped && ended.is_ok() {
            true => Err(Error::new("copy", source, Reason::Cancelled)),
            false => ended,
        }
    }

    /// Counts and reports a file that is finished, however it ended.
    fn finish(&mut self, source: &Path, destination: PathBuf, outcome: EntryOutcome) {
        if let EntryOutcome::Copied(receipt) = &outcome {
            self.progress.mechanism = receipt.portions.last().map(|portion| portion.mechanism);
        }
        self.summary.add_outcome(EntryKind::File, &outcome);
        self.progress.entries += 1;
        self.observer.finished(&Record {
            sequence: self.progress.entries,
            kind: EntryKind::File,
            source: source.to_owned(),
            destination,
            outcome,
        });
    }
}

/// Adds the progress of one file to that of the job.
struct FileProgress<'a> {
    observer: &'a dyn JobObserver,
    /// Bytes of the files before it.
    before: u64,
    total: &'a mut JobProgress,
}

impl Observer for FileProgress<'_> {
    fn progress(&mut self, progress: Progress) -> Control {
        if progress.phase == Phase::Copying {
            self.total.bytes = self.before + progress.done_bytes;
        }
        self.observer.progress(*self.total)
    }

    fn may_replace(&mut self, destination: &Path) -> Consent {
        self.observer.may_replace(destination)
    }
}
