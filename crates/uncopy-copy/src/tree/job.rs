//! Owns the parts of a job, from which its workers take what they need.

use std::path::PathBuf;
use std::sync::Arc;

use super::budget::Budget;
use super::context::Context;
use super::ending::Ending;
use super::job_control::JobControl;
use super::links::Links;
use super::queue::Queue;
use super::resume::Resume;
use super::tally::Tally;
use crate::guarded_entries::GuardedEntries;
use crate::jobs::{JobObserver, JobOptions, Summary};
use crate::pause::Stopwatch;
use crate::peer_link::PeerLink;
use uncopy_core::Result;

/// The parts of a job, each with one duty.
pub(super) struct Job<'a> {
    pub(super) context: Context<'a>,
    pub(super) budget: Budget,
    pub(super) queue: Queue,
    pub(super) links: Links,
    pub(super) tally: Tally<'a>,
    pub(super) resume: Resume,
    pub(super) ending: Ending,
}

impl<'a> Job<'a> {
    /// Makes the parts of a job that copies `pairs`, or listed entries; `peer`: its source is on another machine.
    pub(super) fn new(
        options: &'a JobOptions,
        observer: &'a dyn JobObserver,
        peer: Option<Arc<PeerLink>>,
        pairs: &'a [(PathBuf, PathBuf)],
        listed: Option<GuardedEntries<'a>>,
    ) -> Job<'a> {
        let budget = Budget::new(options, peer.is_some());
        let pairs = if peer.is_some() { &[] } else { pairs };
        Job {
            context: Context::new(options, pairs, listed),
            queue: Queue::new(budget.max_batches(), options.gate.clone()),
            budget,
            links: Links::new(options.links_in_memory),
            tally: Tally::new(observer),
            resume: Resume::new(),
            ending: Ending::new(peer),
        }
    }

    /// Returns the control of the job, which ends and pauses it.
    pub(super) fn control(&self) -> JobControl<'_> {
        JobControl::new(&self.context, &self.tally, &self.ending, &self.queue)
    }

    /// Ends the job after its last root. If all are done, another run needs no journals.
    pub(super) fn end(&self) {
        if !self.ending.is_over() {
            self.resume.remove_journals();
        }
        self.ending.end();
    }

    /// Sums up a job that is over and began with this watch.
    pub(super) fn into_summary(
        self,
        begin: &Stopwatch<'_>,
        sources_not_tried: u64,
    ) -> (Summary, Result<()>) {
        let not_tried = self.ending.left_out() + self.queue.dropped();
        let Job { tally, ending, resume, .. } = self;
        let mut summary = tally.into_summary();
        summary.duration = begin.elapsed();
        let stopped = ending.into_error();
        summary.stopped_early = stopped.is_some();
        summary.not_tried = not_tried;
        summary.sources_not_tried = sources_not_tried;
        summary.incomplete = resume.into_incomplete();
        (summary, stopped.map_or(Ok(()), Err))
    }
}
