//! Runs tasks that make further tasks on several threads, the last one first: so that a tree is gone
//! through depth first, and few directories wait.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Tasks that wait, and the number of those at work.
#[derive(Debug)]
pub struct Pool<Task> {
    state: Mutex<PoolState<Task>>,
    changed: Condvar,
}

#[derive(Debug)]
struct PoolState<Task> {
    waiting: Vec<Task>,
    working: usize,
}

impl<Task: Send> Pool<Task> {
    /// Does the first task and all that it leads to.
    pub fn run(threads: usize, first: Task, work: impl Fn(Task, &Pool<Task>) + Sync) {
        let state = PoolState { waiting: vec![first], working: 0 };
        let pool = Pool { state: Mutex::new(state), changed: Condvar::new() };
        let each = || {
            while let Some(task) = pool.take() {
                work(task, &pool);
                pool.done();
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                // Without another thread (RLIMIT_NPROC) the others do it.
                let _ = thread::Builder::new().spawn_scoped(scope, each);
            }
            each();
        });
    }

    /// Adds a task.
    pub fn add(&self, task: Task) {
        self.lock().waiting.push(task);
        self.changed.notify_one();
    }

    /// Returns the number of tasks that wait.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Waits for a task. `None`: all are done.
    fn take(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.waiting.pop() {
                state.working += 1;
                return Some(task);
            }
            if state.working == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self) {
        let mut state = self.lock();
        state.working -= 1;
        if state.working == 0 && state.waiting.is_empty() {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState<Task>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn tasks_of_tasks_are_all_done() {
        for threads in [1, 2, 5] {
            let done = AtomicU64::new(0);
            Pool::run(threads, 6, |depth, pool| {
                done.fetch_add(1, Ordering::Relaxed);
                (0..depth).for_each(|_| pool.add(depth - 1));
            });
            // 1 + 6 × (1 + 5 × (1 + 4 × …))
            let expected = (1..=6).fold(1, |all, width| 1 + width * all);
            assert_eq!(done.into_inner(), expected, "{threads}");
        }
    }
}
