//! Copies sources of a job that are single files, each like [`crate::copy_file`], with the rate,
//! the pauses and the counts of the job.

use std::path::Path;

use super::worker::Worker;
use crate::Outcome;
use crate::jobs::{EntryKind, EntryOutcome};
use crate::run;
use crate::written::WrittenFiles;

/// Single files of one job, copied in order.
#[derive(Default)]
pub(super) struct SourceFiles {
    written: WrittenFiles,
}

impl SourceFiles {
    /// Copies one file.
    pub(super) fn copy(&mut self, worker: &mut Worker<'_, '_>, source: &Path, destination: &Path) {
        let options = &worker.options.copy;
        let spare_threads = worker.scheduler.spare_workers();
        let context = worker.context.copy_context(&spare_threads, None);
        let mut progress = worker.file_progress();
        let copied = self.written.check(destination, options).and_then(|()| {
            let sweeper = worker.context.temporary_names();
            run::copy_of_job(source, destination, options, &context, sweeper, &mut progress)
        });
        let (outcome, destination) = match copied {
            Ok(outcome) => {
                let destination = outcome.renamed().unwrap_or(destination).to_owned();
                if !outcome.is_skipped() {
                    self.written.add(&destination);
                }
                (outcome, destination)
            }
            Err(error) if error.is_cancelled() => {
                // In contrast to an entry of a tree, a source that the caller named is reported.
                worker.control.stop(error.clone());
                let names = || (source.to_owned(), destination.to_owned());
                return worker.reporter.finish_at(
                    names,
                    EntryKind::File,
                    EntryOutcome::Failed(error),
                );
            }
            Err(error) => {
                let names = || (source.to_owned(), destination.to_owned());
                return worker.reporter.fail_at(names, EntryKind::File, error);
            }
        };
        let outcome = match outcome {
            Outcome::Copied(receipt) => {
                if let Some(portion) = receipt.portions.last() {
                    worker.tally.note_mechanism(portion.mechanism);
                }
                EntryOutcome::Copied(Box::new(receipt))
            }
            Outcome::Skipped { reason, .. } => EntryOutcome::Skipped { reason },
        };
        worker.reporter.finish_at(|| (source.to_owned(), destination), EntryKind::File, outcome);
    }
}
