//! Decides whether and when a job continues: asks the observer, waits for its pauses and its rate,
//! and ends it.

use std::path::Path;

use super::context::Context;
use super::ending::Ending;
use super::queue::Queue;
use super::tally::Tally;
use crate::jobs::OnError;
use crate::pause::Passed;
use crate::{Consent, Control, Gate, throttle};
use uncopy_core::{Error, Reason};

/// Control of one job.
pub(super) struct JobControl<'a> {
    context: &'a Context<'a>,
    tally: &'a Tally<'a>,
    ending: &'a Ending,
    queue: &'a Queue,
}

impl<'a> JobControl<'a> {
    pub(super) fn new(
        context: &'a Context<'a>,
        tally: &'a Tally<'a>,
        ending: &'a Ending,
        queue: &'a Queue,
    ) -> JobControl<'a> {
        JobControl { context, tally, ending, queue }
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

    /// Returns the error of a source on another machine that was lost.
    pub(super) fn lost(&self) -> Option<Error> {
        self.ending.lost()
    }

    /// Ends the job because the observer requested it.
    pub(super) fn cancel(&self) {
        self.stop(Error::new("copy", "the trees", Reason::Cancelled));
    }

    /// Whether the destination caused the end of the job, and an unfinished tree is kept for
    /// another run.
    pub(super) fn keeps_incomplete(&self) -> bool {
        self.ending.is_lasting() && self.context.options().on_error != OnError::Abort
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

    /// Asks the observer whether an existing file may be replaced.
    pub(super) fn may_replace(&self, destination: &Path) -> Consent {
        self.tally.may_replace(destination)
    }

    /// Asks the observer before a step that is long, and reported only with others behind it. Returns `false` if the job is
    /// over.
    pub(super) fn goes_on(&self) -> bool {
        if !self.is_over() && self.ask() == Control::Stop {
            self.cancel();
        }
        !self.is_over()
    }

    /// Waits if the job is paused, before a step that is not reported.
    pub(super) fn rest_if_paused(&self) {
        if self.context.gate().is_some_and(Gate::is_closed) && self.ask() == Control::Stop {
            self.cancel();
        }
    }
}
