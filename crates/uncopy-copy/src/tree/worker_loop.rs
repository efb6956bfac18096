//! Runs the loop of a worker: takes tasks until there are none, and calls the function for each.

use std::thread::Scope;

use super::finish::end;
use super::job::Job;
use super::job_control::JobControl;
use super::queue::Task;
use super::worker::Worker;
use super::{enter, entry, list};
use crate::Gate;
use crate::pause::Inside;

pub(super) struct WorkerLoop<'scope, 'env> {
    worker: Worker<'scope, 'env>,
    _inside: Option<Inside>,
}

impl<'scope, 'env> WorkerLoop<'scope, 'env> {
    pub(super) fn new(
        job: &'env Job<'env>,
        control: &'env JobControl<'env>,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Self {
        let worker = Worker::new(job, control, scope, WorkerLoop::run);
        WorkerLoop { worker, _inside: job.context.gate().map(Gate::enter) }
    }

    /// Works until all is done, and adds its results to the summary.
    fn run(
        job: &'env Job<'env>,
        control: &'env JobControl<'env>,
        scope: &'scope Scope<'scope, 'env>,
    ) {
        let mut worker_loop = WorkerLoop::new(job, control, scope);
        worker_loop.work_on();
        worker_loop.hand_in();
    }

    /// The worker that runs in this loop.
    pub(super) fn worker(&mut self) -> &mut Worker<'scope, 'env> {
        &mut self.worker
    }

    /// Works until all is done.
    pub(super) fn work_on(&mut self) {
        let control = self.worker.control;
        while let Some(mut taken) = self.worker.scheduler.take() {
            if let Some(task) = taken.task.take() {
                control.rest_if_paused();
                self.work(task);
            }
        }
        // The workshop must be removed before the tree gets its name.
        control.rest_if_paused();
    }

    /// Adds its results to the job's summary.
    pub(super) fn hand_in(self) {
        self.worker.hand_in();
    }

    fn work(&mut self, task: Task) {
        let worker = &mut self.worker;
        match task {
            Task::Copy(batch) => entry::copy_batch(worker, batch),
            Task::Enter { parent, name, linked } => {
                match worker.control.goes_on() {
                    true => enter::enter(worker, &parent, &name, linked),
                    false => worker.control.leave_out(1),
                }
                end(worker, parent);
            }
            Task::List { directory, from, open } => match worker.control.goes_on() {
                true => list::list(worker, directory, from, open),
                false => end(worker, directory),
            },
        }
    }
}
