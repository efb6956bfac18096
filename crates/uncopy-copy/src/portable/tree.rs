//! Copies trees on systems other than Linux: one worker, which walks by paths, a directory after the other.

mod calls;
mod contents;
mod entry;
#[cfg(test)]
mod fake;
mod journal;
mod names;
mod part;
mod place;
mod remove;
mod root;
mod scan;
mod tally;
#[cfg(test)]
mod tests;
mod walk;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use crate::chunks::ChunkSizes;
use crate::jobs::{JobObserver, JobOptions, Summary};
use crate::pause::Stopwatch;
use crate::portable::backup_claims::BackupClaims;
use crate::portable::identity::Identity;
use crate::{CopyOptions, Existing, Gate, Throttle, systems};
use calls::TreeCalls;
use journal::Journal;
use names::Names;
use tally::Tally;
use uncopy_core::{Error, Reason, Result};
use uncopy_os::native_calls::SystemCalls;

/// Copies trees, or single entries as entries of a tree; see [`crate::job::copy_trees`].
pub(super) fn run(
    pairs: &[(PathBuf, PathBuf)],
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    run_in_chunks(&SystemCalls, ChunkSizes::BUILT_IN, pairs, options, observer)
}

/// See [`crate::job::is_built`].
pub(super) fn is_built(source: &Path, destination: &Path, options: &JobOptions) -> bool {
    root::is_tree_built(&SystemCalls, source, destination, options)
}

/// Copies them by the calls of a system, large files in chunks of these sizes if there is a journal.
fn run_in_chunks(
    calls: &dyn TreeCalls,
    sizes: ChunkSizes,
    pairs: &[(PathBuf, PathBuf)],
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    let not_here = systems::refused_for_trees(options, calls.system());
    if !not_here.is_empty() {
        let subject = pairs.first().map_or_else(PathBuf::new, |(_, to)| to.clone());
        let error = Error::new("write to", subject, Reason::NotHere { options: not_here });
        return (Summary::default(), Err(error));
    }
    let begin = Stopwatch::start(options.gate.as_ref());
    let _inside = options.gate.as_ref().map(Gate::enter);
    let throttle = options.bytes_per_second.map(Throttle::new);
    let mut tally = Tally::new(options, observer, throttle.as_ref());
    if options.scan_ahead {
        scan::run(&mut tally, pairs, options);
    }
    let (names, destinations) = (Names::default(), Vec::new());
    // A file that a killed run left there passes nothing on.
    let inside = &CopyOptions { existing: Existing::Remove, ..options.copy.in_own_tree() };
    let umask = OnceCell::new();
    let (journal, ended) = (None, Vec::new());
    let claims = BackupClaims::of(options.copy.backup.as_ref());
    let mut job = Job {
        calls,
        sizes,
        options,
        inside,
        umask,
        tally,
        names,
        destinations,
        claims,
        journal,
        ended,
    };
    let mut not_begun = pairs.iter();
    while !job.tally.is_over()
        && let Some((source, destination)) = not_begun.next()
    {
        job.copy_root(source, destination);
    }
    if !job.tally.is_over() {
        // All roots are done, so another run needs no journals.
        job.ended.drain(..).for_each(|journal| journal.remove(calls));
    }
    let (mut summary, ended) = job.tally.into_summary(not_begun.len() as u64);
    summary.duration = begin.elapsed();
    (summary, ended)
}

/// A job on its way.
struct Job<'a> {
    calls: &'a dyn TreeCalls,
    sizes: ChunkSizes,
    options: &'a JobOptions,
    /// Options for what lies in a tree that has no name yet.
    inside: &'a CopyOptions,
    /// The umask, once it is known.
    umask: OnceCell<u32>,
    tally: Tally<'a>,
    names: Names,
    /// Existing directories that are copied to.
    destinations: Vec<Identity>,
    /// Files that neither a backup nor a copy may replace.
    claims: Option<BackupClaims>,
    /// Journal of the root that is being copied.
    journal: Option<Journal>,
    /// Journals of the roots that are done.
    ended: Vec<Journal>,
}
