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
    /// Nobody begins a task until all have had a rest.
    rest: bool,
}

impl<Task: Send> Pool<Task> {
    /// Does the first task and all that it leads to.
    pub fn run(threads: usize, first: Task, work: impl Fn(Task, &Pool<Task>) + Sync) {
        Pool::run_with_rests(threads, vec![first], work, |_| {});
    }

    /// Does tasks, the last one first, and all that they lead to. When [a rest is asked for](Pool::ask_rest), `rest` is
    /// called with the tasks that wait, while nobody is at work on any other.
    pub fn run_with_rests(
        threads: usize,
        tasks: Vec<Task>,
        work: impl Fn(Task, &Pool<Task>) + Sync,
        rest: impl Fn(&[Task]) + Sync,
    ) {
        let state = PoolState { waiting: tasks, working: 0, rest: false };
        let pool = Pool { state: Mutex::new(state), changed: Condvar::new() };
        let each = || {
            while let Some(task) = pool.take(&rest) {
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

    /// Asks all threads for a rest. A task that takes long adds what is left of it, and ends.
    pub fn ask_rest(&self) {
        self.lock().rest = true;
    }

    /// Whether a rest is asked for.
    pub fn is_rest_asked(&self) -> bool {
        self.lock().rest
    }

    /// Waits for a task. `None`: all are done.
    fn take(&self, rest: impl Fn(&[Task])) -> Option<Task> {
        let mut state = self.lock();
        loop {
            // Whoever ended the last task comes here next, so somebody always sees that nobody works.
            if state.rest && state.working == 0 {
                rest(&state.waiting);
                state.rest = false;
                self.changed.notify_all();
            }
            if !state.rest
                && let Some(task) = state.waiting.pop()
            {
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

    /// A count-down in which each task asks for a rest, and the tasks that wait are all that is left.
    #[test]
    fn nobody_works_during_a_rest_and_nothing_is_lost_by_it() {
        for threads in [1, 2, 5] {
            let (working, done, rests) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
            Pool::run_with_rests(
                threads,
                vec![3_u64, 200],
                |left, pool| {
                    working.fetch_add(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                    if left > 0 {
                        pool.add(left - 1);
                    }
                    pool.ask_rest();
                    assert!(pool.is_rest_asked());
                    working.fetch_sub(1, Ordering::SeqCst);
                },
                |waiting| {
                    assert_eq!(working.load(Ordering::SeqCst), 0);
                    let left: u64 = waiting.iter().map(|left| left + 1).sum();
                    assert_eq!(done.load(Ordering::SeqCst) + left, 205);
                    rests.fetch_add(1, Ordering::SeqCst);
                },
            );
            assert_eq!(done.into_inner(), 205, "{threads}");
            assert!((1..=205).contains(&rests.into_inner()));
        }
    }
}
