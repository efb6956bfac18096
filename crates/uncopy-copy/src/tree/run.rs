//! Runs one job from beginning to end.

use std::path::PathBuf;
use std::sync::Arc;

use super::job::Job;
use super::overlap;
use super::parents;
use super::root::{self, RootSource};
use super::scan::Scan;
use super::source_files::SourceFiles;
use super::worker_loop::WorkerLoop;
use crate::guarded_entries::GuardedEntries;
use crate::jobs::{JobObserver, JobOptions, Parents, Sources, Summary};
use crate::pause::Stopwatch;
use crate::peer::Peer;
use crate::peer_link::PeerLink;
use crate::written::WrittenFiles;
use uncopy_core::Result;

/// Copies every pair; see [`crate::job::copy_trees`].
pub(crate) fn run_job(
    pairs: &[(PathBuf, PathBuf)],
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    run(pairs, None, None, options, observer)
}

/// Copies entries as far as the guard allows; see [`crate::guarded_job::copy_guarded`].
pub(crate) fn run_guarded_job(
    listed: GuardedEntries<'_>,
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    run(&[], listed.root.link(), Some(listed), options, observer)
}

/// Copies every root of another machine; see [`crate::job::copy_from_peer`].
pub(crate) fn run_job_from_peer(
    peer: Arc<dyn Peer>,
    pairs: &[(PathBuf, PathBuf)],
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    let name = pairs.first().map_or_else(PathBuf::new, |(source, _)| source.clone());
    let link = Arc::new(PeerLink::new(peer, name));
    run(pairs, Some(&link), None, options, observer)
}

fn run(
    pairs: &[(PathBuf, PathBuf)],
    peer: Option<&Arc<PeerLink>>,
    listed: Option<GuardedEntries<'_>>,
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    let refused = overlap::refusals(pairs, peer, options);
    let one_by_one = if options.parents == Parents::Omit { pairs } else { &[] };
    let begin = Stopwatch::start(options.gate.as_ref());
    let (job, mut sources_not_tried) =
        (Job::new(options, observer, peer.cloned(), pairs, listed), 0);
    let control = &job.control();
    std::thread::scope(|scope| {
        if options.scan_ahead {
            let sources: Vec<PathBuf> = pairs.iter().map(|(source, _)| source.clone()).collect();
            // If no thread can be started, the total stays unknown.
            let scan = Scan { options, tally: &job.tally, ending: &job.ending };
            let _ =
                std::thread::Builder::new().spawn_scoped(scope, move || scan.run(&sources, peer));
        }
        let (mut worker_loop, mut files) =
            (WorkerLoop::new(&job, control, scope), SourceFiles::default());
        if options.sources == Sources::Files {
            job.tally.count_found(pairs.len() as u64);
        }
        if let Some(listed) = listed {
            parents::copy_listed(&mut worker_loop, listed);
        } else if options.parents != Parents::Omit {
            parents::copy(&mut worker_loop, pairs, &refused);
        }
        let mut written = WrittenFiles::default();
        for (index, (source, destination)) in one_by_one.iter().enumerate() {
            control.rest_if_paused();
            if control.is_over() {
                control.leave_out(1);
                sources_not_tried += 1;
                continue;
            }
            if let Some(error) = refused.get(&index) {
                root::refuse_pair(&mut worker_loop, source, destination, error);
                continue;
            }
            match options.sources {
                Sources::Trees | Sources::Entries => {
                    let number = u32::try_from(index).unwrap_or(u32::MAX);
                    let there = peer.map(|link| (link, number));
                    let source = RootSource { path: source, there };
                    root::copy(&mut worker_loop, &mut written, source, destination)
                }
                Sources::Files => files.copy(worker_loop.worker(), source, destination),
            }
        }
        worker_loop.hand_in();
        job.end();
    });
    job.into_summary(&begin, sources_not_tried)
}
