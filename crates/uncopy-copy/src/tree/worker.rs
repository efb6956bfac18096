//! A worker: takes tasks until there are none, and hands each to the step that does it.

use std::thread::Scope;

use super::finish::end;
use super::job::Job;
use super::queue::Task;
use super::step::Step;
use super::{enter, entry, list};
use crate::Gate;
use crate::pause::Inside;

pub(super) struct Worker<'scope, 'env> {
    step: Step<'scope, 'env>,
    _inside: Option<Inside>,
}

impl<'scope, 'env> Worker<'scope, 'env> {
    pub(super) fn new(job: &'env Job<'env>, scope: &'scope Scope<'scope, 'env>) -> Self {
        let step = Step::new(job, scope, Worker::run);
        Worker { step, _inside: job.context().gate().map(Gate::enter) }
    }

    /// Works until all is done, and hands in what it did.
    fn run(job: &'env Job<'env>, scope: &'scope Scope<'scope, 'env>) {
        let mut worker = Worker::new(job, scope);
        worker.work_on();
        worker.hand_in();
    }

    pub(super) fn job(&self) -> &'env Job<'env> {
        self.step.job()
    }

    /// What its steps need of it.
    pub(super) fn step(&mut self) -> &mut Step<'scope, 'env> {
        &mut self.step
    }

    /// Works until all is done.
    pub(super) fn work_on(&mut self) {
        let job = self.job();
        while let Some(mut taken) = job.queue().take(self.step.id()) {
            if let Some(task) = taken.task.take() {
                job.rest_if_paused();
                self.work(task);
            }
        }
        // Before the tree gets its name.
        job.rest_if_paused();
    }

    /// Adds what it did to the job's summary.
    pub(super) fn hand_in(self) {
        self.step.hand_in();
    }

    fn work(&mut self, task: Task) {
        let step = &mut self.step;
        match task {
            Task::Copy(batch) => entry::copy_batch(step, batch),
            Task::Enter { parent, name, linked } => {
                enter::enter(step, &parent, &name, linked);
                end(step, parent);
            }
            Task::List { directory, from } => list::list(step, directory, from),
        }
    }
}
