//! Queues the tasks of one worker, and starts other workers for them.

use std::sync::Arc;
use std::thread::Scope;

use super::budget::Budget;
use super::directory::Directory;
use super::job::Job;
use super::job_control::JobControl;
use super::queue::{Batch, Queue, Taken, Task, WorkerId};

/// Function of a worker's thread: works until all is done.
pub(super) type Work<'scope, 'env> =
    fn(&'env Job<'env>, &'env JobControl<'env>, &'scope Scope<'scope, 'env>);

/// Scheduler of one worker.
pub(super) struct Scheduler<'scope, 'env> {
    budget: &'env Budget,
    queue: &'env Queue,
    control: &'env JobControl<'env>,
    id: WorkerId,
    /// Job and scope of the workers that are started, and their function.
    job: &'env Job<'env>,
    scope: &'scope Scope<'scope, 'env>,
    work: Work<'scope, 'env>,
}

impl<'scope, 'env> Scheduler<'scope, 'env> {
    /// Makes the scheduler of one more worker; those that it starts run `work`.
    pub(super) fn new(
        job: &'env Job<'env>,
        control: &'env JobControl<'env>,
        scope: &'scope Scope<'scope, 'env>,
        work: Work<'scope, 'env>,
    ) -> Self {
        let Job { budget, queue, .. } = job;
        let id = budget.next_worker();
        Scheduler { budget, queue, control, id, job, scope, work }
    }

    /// Queues a task for any worker; its directory has one more task.
    ///
    /// # Errors
    /// There are enough batches: the caller copies this one at once.
    pub(super) fn push(&self, directory: &Arc<Directory>, task: Task) -> Result<(), Batch> {
        self.control.rest_if_paused();
        directory.begin();
        let unclaimed = self.queue.push(task, self.id)?;
        if self.budget.is_worth_another(unclaimed) {
            self.spawn_worker();
        }
        Ok(())
    }

    /// Waits for a task. Returns `None` when all is done, or the job is over.
    pub(super) fn take(&self) -> Option<Taken<'env>> {
        self.queue.take(self.id)
    }

    /// Number of directories that wait to be entered.
    pub(super) fn waiting_directories(&self) -> usize {
        self.queue.waiting_directories()
    }

    /// Returns a function that counts the idle workers.
    pub(super) fn spare_workers(&self) -> impl Fn() -> usize + Sync + use<'env> {
        let (budget, queue) = (self.budget, self.queue);
        move || budget.spare_workers(queue.at_work())
    }

    /// Starts another worker, unless there are as many as there may be.
    fn spawn_worker(&self) -> bool {
        let (budget, scope, work) = (self.budget, self.scope, self.work);
        let (job, control) = (self.job, self.control);
        if !budget.may_spawn_worker() {
            return false;
        }
        let worker = std::thread::Builder::new().name("uncopy".into());
        let started = self.queue.count_started();
        // If it cannot be started, the others do the work.
        let _ = worker.spawn_scoped(scope, move || {
            let _started = started;
            work(job, control, scope);
            budget.worker_ended();
        });
        true
    }

    /// Waits until no other worker has results that it has not handed in; to be called when all is done.
    pub(super) fn wait_for_results(&self) {
        self.queue.wait_for_results();
    }

    /// Notes that a file took longer than one with shared blocks, so that other workers may help
    /// with the waiting files.
    pub(super) fn end_light_work(&self) {
        if self.budget.ends_light_work() {
            let unclaimed = self.queue.unclaimed();
            let _spawned = (0..unclaimed).take_while(|_| self.spawn_worker()).count();
        }
    }
}
