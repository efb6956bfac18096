//! Defines a job, which its workers share: its parts, and the operations that need several of them.

use super::budget::Budget;
use super::context::Context;
use super::ending::Ending;
use super::links::Links;
use super::queue::Queue;
use super::resume::Resume;
use super::tally::Tally;
use crate::jobs::{JobObserver, JobOptions, OnError, Summary};
use crate::pause::{Passed, Stopwatch};
use crate::{Control, Gate, throttle};
use uncopy_core::{Error, Reason, Result};

/// The parts of a job.
pub(super) struct Job<'a> {
    context: Context<'a>,
    budget: Budget,
    queue: Queue,
    links: Links,
    tally: Tally<'a>,
    resume: Resume,
    ending: Ending,
}

impl<'a> Job<'a> {
    pub(super) fn new(options: &'a JobOptions, observer: &'a dyn JobObserver) -> Job<'a> {
        let budget = Budget::new(options);
        Job {
            context: Context::new(options),
            queue: Queue::new(budget.max_batches(), options.gate.clone()),
            budget,
            links: Links::new(options.links_in_memory),
            tally: Tally::new(observer),
            resume: Resume::new(),
            ending: Ending::default(),
        }
    }

    pub(super) fn options(&self) -> &'a JobOptions {
        self.context.options()
    }

    pub(super) fn context(&self) -> &Context<'a> {
        &self.context
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    pub(super) fn tally(&self) -> &Tally<'a> {
        &self.tally
    }

    pub(super) fn resume(&self) -> &Resume {
        &self.resume
    }

    pub(super) fn is_over(&self) -> bool {
        self.ending.is_over()
    }

    /// Counts entries that were found and are not tried.
    pub(super) fn leave_out(&self, entries: u64) {
        self.ending.leave_out(entries);
    }

    /// Ends the job with this error; the first one counts.
    pub(super) fn stop(&self, error: Error) {
        self.ending.stop(error);
        self.queue.close();
    }

    /// Ends the job because the observer requested it.
    pub(super) fn cancel(&self) {
        self.stop(Error::new("copy", "the trees", Reason::Cancelled));
    }

    /// Ends the job after its last root. If all are done, another run needs no journals.
    pub(super) fn end(&self) {
        if !self.is_over() {
            self.resume.remove_journals();
        }
        self.ending.end();
    }

    /// Whether the destination caused the end of the job, and an unfinished tree is kept for
    /// another run.
    pub(super) fn keeps_incomplete(&self) -> bool {
        self.ending.is_lasting() && self.options().on_error != OnError::Abort
    }

    /// Returns the number of idle workers.
    pub(super) fn spare_workers(&self) -> usize {
        self.budget.spare_workers(self.queue.at_work())
    }

    /// Waits until a small file may be moved at the rate of the job. Returns `false` if the job is
    /// to stop.
    pub(super) fn wait_for_budget(&self, bytes: u64) -> bool {
        throttle::wait_for_turn(self.context.throttle(), || self.ask(), bytes).is_some()
    }

    /// Reports progress to the observer, which decides whether to continue; waits while the job is
    /// paused.
    pub(super) fn ask(&self) -> Control {
        let ask = || match self.is_over() {
            true => Control::Stop,
            false => self.tally.report_progress(),
        };
        let Some(gate) = self.context.gate() else { return ask() };
        match gate.pass(ask) {
            Passed::Open => Control::Continue,
            Passed::Opened(at) => {
                self.context.resume_rate(at);
                Control::Continue
            }
            Passed::Stopped => Control::Stop,
        }
    }

    /// Waits if the job is paused, before a step that is not reported.
    pub(super) fn rest_if_paused(&self) {
        if self.context.gate().is_some_and(Gate::is_closed) && self.ask() == Control::Stop {
            self.cancel();
        }
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
