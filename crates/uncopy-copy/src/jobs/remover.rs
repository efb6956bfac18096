//! Removes unfinished trees in threads of their own, so that a job that was stopped ends soon.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Removes in threads of their own what [jobs](crate::job::JobOptions::remover) began and gave up, so that they end soon
/// after they were stopped: 10,000 files take about 50 ms, and a file of a gibibyte up to 200 ms.
///
/// A job waits 30 ms for such a thread. What is left then lies under its temporary name until the thread is done: a
/// process that is to leave nothing calls [`wait`](Remover::wait) before it ends. A copy that comes later removes what
/// a process left that did not wait.
///
/// A clone is another handle of the same remover. In a process that was forked no thread of the parent goes on, and
/// `wait` would not return: it makes a remover of its own.
///
/// ```
/// use uncopy::copy::Control;
/// use uncopy::copy::job::{JobObserver, JobOptions, JobProgress, Remover, copy_trees_observed};
/// # let directory = tempfile::tempdir()?;
/// # let (source, destination) = (directory.path().join("a"), directory.path().join("b"));
/// struct Stopped;
/// impl JobObserver for Stopped {
///     fn progress(&self, _: JobProgress) -> Control {
///         Control::Stop
///     }
/// }
/// # std::fs::create_dir(&source)?;
/// # (0..2000).try_for_each(|n| std::fs::write(source.join(n.to_string()), "text"))?;
/// let remover = Remover::new();
/// let options = JobOptions::new().remover(remover.clone());
/// let ended = copy_trees_observed([(&source, &destination)], &options, &Stopped).unwrap_err();
/// assert!(ended.cause().is_cancelled());
/// remover.wait();
/// assert_eq!(std::fs::read_dir(&directory)?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Remover {
    threads: Arc<Threads>,
}

/// Two removers are equal if they are handles of one.
impl PartialEq for Remover {
    fn eq(&self, other: &Remover) -> bool {
        Arc::ptr_eq(&self.threads, &other.threads)
    }
}

impl Eq for Remover {}

#[derive(Debug, Default)]
struct Threads {
    /// Number of those that are not done.
    running: Mutex<usize>,
    done: Condvar,
}

impl Threads {
    fn running(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remover {
    /// Time for which a job waits.
    const PATIENCE: Duration = Duration::from_millis(30);

    /// Makes a remover that has nothing to do.
    #[must_use]
    pub fn new() -> Remover {
        Remover::default()
    }

    /// Returns whether nothing is left that was handed to it.
    #[must_use]
    pub fn is_done(&self) -> bool {
        *self.threads.running() == 0
    }

    /// Waits until [nothing is left](Remover::is_done).
    pub fn wait(&self) {
        let running = self.threads.running();
        let waited = self.threads.done.wait_while(running, |running| *running > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Calls `removal` in a thread, and waits for it no longer than a job may. If no thread can be started, it is called here.
    pub(crate) fn run(&self, removal: impl Fn() + Send + Sync + 'static) {
        let removal = Arc::new(removal);
        let (own, running) = (Arc::clone(&removal), Running::begin(&self.threads));
        let thread = thread::Builder::new().name("uncopy".into());
        let started = thread.spawn(move || {
            own();
            drop(own);
            drop(running);
        });
        if started.is_err() {
            removal();
        }
        drop(removal);
        let running = self.threads.running();
        let waited = self
            .threads
            .done
            .wait_timeout_while(running, Remover::PATIENCE, |running| *running > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// One of the threads, until it is done or has panicked.
struct Running(Arc<Threads>);

impl Running {
    fn begin(threads: &Arc<Threads>) -> Running {
        *threads.running() += 1;
        Running(Arc::clone(threads))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.running() -= 1;
        self.0.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_removal_that_takes_long_goes_on_in_its_thread() {
        let remover = Remover::new();
        let (go_on, gone_on) = channel::<()>();
        let gone_on = Mutex::new(gone_on);
        remover.run(move || gone_on.lock().unwrap().recv().unwrap());
        assert!(!remover.is_done());
        remover.run(|| ());
        assert!(!remover.is_done());
        go_on.send(()).unwrap();
        remover.wait();
        assert!(remover.is_done());
    }

    #[test]
    fn a_removal_that_panics_is_done() {
        let remover = Remover::new();
        remover.run(|| panic!("of a test"));
        remover.wait();
    }
}
