//! Sources of a job that are single files: each is copied as [`crate::copy_file`] copies it, with the
//! rate, the pauses and the counts of the job.

use std::path::Path;

use super::file_progress::FileProgress;
use super::worker::Worker;
use crate::Outcome;
use crate::jobs::{EntryKind, EntryOutcome};
use crate::run;
use crate::written::WrittenFiles;

/// Single files of one job, which are copied in their order.
#[derive(Default)]
pub(super) struct SourceFiles {
    written: WrittenFiles,
}

impl SourceFiles {
    /// Copies one file.
    pub(super) fn copy(&mut self, worker: &mut Worker<'_, '_>, source: &Path, destination: &Path) {
        let job = worker.job();
        let options = &job.options().copy;
        let spare_threads = || job.spare_workers();
        let context = job.context().copy_context(&spare_threads);
        let mut progress = FileProgress::new(job);
        let copied = self
            .written
            .check(destination, options)
            .and_then(|()| run::copy(source, destination, options, &context, &mut progress));
        let (outcome, destination) = match copied {
            Ok(outcome) => {
                let destination = outcome.renamed().unwrap_or(destination).to_owned();
                if !outcome.is_skipped() {
                    self.written.add(&destination);
                }
                (outcome, destination)
            }
            Err(error) if error.is_cancelled() => {
                // An entry of a tree would not be reported; a source that the caller named is.
                job.stop(error.clone());
                let names = || (source.to_owned(), destination.to_owned());
                return worker.finish_at(names, EntryKind::File, EntryOutcome::Failed(error));
            }
            Err(error) => {
                let names = || (source.to_owned(), destination.to_owned());
                return worker.fail_at(names, EntryKind::File, error);
            }
        };
        let outcome = match outcome {
            Outcome::Copied(receipt) => {
                if let Some(portion) = receipt.portions.last() {
                    job.tally().note_mechanism(portion.mechanism);
                }
                EntryOutcome::Copied(Box::new(receipt))
            }
            Outcome::Skipped { reason, .. } => EntryOutcome::Skipped { reason },
        };
        worker.finish_at(|| (source.to_owned(), destination), EntryKind::File, outcome);
    }
}
