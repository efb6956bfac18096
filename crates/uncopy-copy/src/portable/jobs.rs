//! Copies jobs on systems other than Linux, one file after the other.

use std::path::{Path, PathBuf};

use crate::jobs::{
    EntryKind, EntryOutcome, JobObserver, JobOptions, JobProgress, Record, Sources, Summary,
};
use crate::pause::Stopwatch;
use crate::written::WrittenFiles;
use crate::{Control, CopyContext, Observer, Outcome, Phase, Progress, Throttle, copy_file_in};
use uncopy_core::{Error, Reason, Result};

/// Copies single files or trees; see [`crate::job::copy_trees`].
pub(crate) fn run_job(
    pairs: &[(PathBuf, PathBuf)],
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    if options.sources != Sources::Files {
        return super::tree::run(pairs, options, observer);
    }
    let begin = Stopwatch::start(options.gate.as_ref());
    let mut files = Files::new(pairs.len(), options, observer);
    let ended = files.copy_all(pairs);
    let mut summary = files.summary;
    summary.duration = begin.elapsed();
    (summary, ended)
}

/// There are no journals; see [`crate::job::is_built`].
pub(crate) fn is_built(_: &Path, _: &Path, _: &JobOptions) -> bool {
    false
}

/// Single files of one job.
struct Files<'a> {
    options: &'a JobOptions,
    observer: &'a dyn JobObserver,
    throttle: Option<Throttle>,
    written: WrittenFiles,
    progress: JobProgress,
    summary: Summary,
}

impl<'a> Files<'a> {
    fn new(files: usize, options: &'a JobOptions, observer: &'a dyn JobObserver) -> Files<'a> {
        let progress = JobProgress { total_entries: files as u64, ..JobProgress::default() };
        Files {
            options,
            observer,
            throttle: options.bytes_per_second.map(Throttle::new),
            written: WrittenFiles::default(),
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
        let copied = self.written.check(destination, options).and_then(|()| {
            let context = CopyContext {
                gate: self.options.gate.as_ref(),
                throttle: self.throttle.as_ref(),
                ..CopyContext::new()
            };
            let mut progress = FileProgress {
                observer: self.observer,
                before: self.progress.bytes,
                total: &mut self.progress,
            };
            copy_file_in(source, destination, options, &context, &mut progress)
        });
        let (mut ended, mut copy) = (Ok(()), destination.to_owned());
        let outcome = match copied {
            Ok(outcome) => {
                copy = outcome.renamed().unwrap_or(destination).to_owned();
                if !outcome.is_skipped() {
                    self.written.add(&copy);
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
        match self.observer.progress(self.progress) {
            Control::Stop if ended.is_ok() => Err(Error::new("copy", source, Reason::Cancelled)),
            _ => ended,
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
}
