//! Queues the tasks of a job for its workers: directories last in, first out, so that a job goes
//! depth first and has few of them open; and a limited number of batches of files.
//!
//! The worker that listed a directory copies its files as long as other workers have another
//! directory: new names in one directory are created one at a time (its `i_rwsem`), and workers
//! that share one wait for each other.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::FileType;

use super::directory::{Directory, Open};
use crate::Gate;
use crate::peer::{PeerAttribute, PeerEntry};
use uncopy_os::directory::Entry;

/// Number of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WorkerId(pub(super) usize);

/// A piece of work.
pub(super) enum Task {
    /// Copy these entries of a directory.
    Copy(Batch),
    /// Go into a directory of a directory.
    Enter { parent: Arc<Directory>, name: OsString, linked: bool },
    /// List a directory from this place on. Where only what is open knows the place, it stays open.
    List { directory: Arc<Directory>, from: u64, open: Option<Arc<Open>> },
}

impl Task {
    /// Returns the number of entries in the task, as far as they were found.
    fn entries(&self) -> u64 {
        match self {
            Task::Copy(batch) => batch.len(),
            Task::Enter { .. } => 1,
            Task::List { .. } => 0,
        }
    }
}

/// Maximum number of entries in a batch: large enough that taking one costs little, and small
/// enough that all workers have something to do in a small tree.
const BATCH_ENTRIES: usize = 64;

/// Number of bytes of contents from which a batch is full.
const BATCH_BYTES: usize = 1 << 20;

/// Some entries of a directory that are no directories.
pub(super) struct Batch {
    pub(super) directory: Arc<Directory>,
    pub(super) open: Arc<Open>,
    names: Vec<u8>,
    entries: Vec<Listed>,
    /// The entries as another machine listed them, in the same order; `None`: it did not. Empty, if it listed none.
    there: Vec<Option<Arc<PeerEntry>>>,
    contents_bytes: usize,
}

#[derive(Clone, Copy)]
struct Listed {
    inode: u64,
    kind: FileType,
    start: usize,
    end: usize,
}

impl Batch {
    pub(super) fn new(directory: &Arc<Directory>, open: &Arc<Open>) -> Batch {
        let (directory, open) = (Arc::clone(directory), Arc::clone(open));
        Batch {
            directory,
            open,
            names: Vec::new(),
            entries: Vec::new(),
            there: Vec::new(),
            contents_bytes: 0,
        }
    }

    /// Adds an entry; `true`: the batch is full.
    pub(super) fn add(&mut self, entry: Entry<'_>) -> bool {
        let start = self.names.len();
        self.names.extend_from_slice(entry.name.to_bytes());
        let end = self.names.len();
        self.entries.push(Listed { inode: entry.inode, kind: entry.kind, start, end });
        if !self.there.is_empty() {
            self.there.push(None);
        }
        self.is_full()
    }

    /// Adds an entry of another machine, in the same way.
    pub(super) fn add_there(&mut self, entry: PeerEntry) -> bool {
        let start = self.names.len();
        self.names.extend_from_slice(entry.name.as_bytes());
        let (inode, kind, end) = (entry.stat.inode, entry.stat.file_type(), self.names.len());
        self.entries.push(Listed { inode, kind, start, end });
        self.contents_bytes += entry.contents.as_ref().map_or(0, |contents| contents.len());
        self.contents_bytes +=
            entry.attributes.iter().flatten().map(PeerAttribute::bytes).sum::<usize>();
        self.there.resize(self.entries.len() - 1, None);
        self.there.push(Some(Arc::new(entry)));
        self.is_full()
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= BATCH_ENTRIES || self.contents_bytes >= BATCH_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Sorts the entries by inode: their blocks are more likely to be in that order on the device
    /// than in the order of names. Another machine decides about its own order.
    pub(super) fn sort(&mut self) {
        if self.there.is_empty() {
            self.entries.sort_unstable_by_key(|listed| listed.inode);
        }
    }

    /// Returns the entries: names, kinds, and what another machine listed.
    pub(super) fn entries(
        &self,
    ) -> impl Iterator<Item = (&OsStr, FileType, Option<&Arc<PeerEntry>>)> {
        let name = |listed: &Listed| OsStr::from_bytes(&self.names[listed.start..listed.end]);
        let there = |index: usize| self.there.get(index).and_then(Option::as_ref);
        let entries = self.entries.iter().enumerate();
        entries.map(move |(index, listed)| (name(listed), listed.kind, there(index)))
    }
}

/// Work that waits, and workers that wait for it.
pub(super) struct Queue {
    state: Mutex<QueueState>,
    wake: Condvar,
    /// Maximum number of waiting batches; a worker that finds more does one itself.
    max_batches: usize,
    /// Gate at which workers without work count as resting.
    gate: Option<Gate>,
}

#[derive(Default)]
struct QueueState {
    /// Batches, and the worker that listed each.
    batches: VecDeque<(WorkerId, Batch)>,
    /// Tasks other than batches.
    others: Vec<Task>,
    /// Number of workers that were started and have not handed in their results.
    started: usize,
    working: usize,
    waiting: usize,
    closed: bool,
    /// Number of entries in tasks that are not taken any more.
    dropped: u64,
}

/// A worker that was started; it has handed in its results when this is dropped.
pub(super) struct Started<'a> {
    queue: &'a Queue,
}

/// A task; its worker counts as working until this is dropped.
pub(super) struct Taken<'a> {
    queue: &'a Queue,
    pub(super) task: Option<Task>,
}

impl Queue {
    /// Makes a queue in which at most `max_batches` wait: each holds the descriptors of its
    /// directory.
    pub(super) fn new(max_batches: usize, gate: Option<Gate>) -> Queue {
        Queue { state: Mutex::default(), wake: Condvar::new(), max_batches, gate }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task of this worker. Returns the number of waiting tasks without an idle worker, or
    /// the task as `Err` if there are enough batches and the worker must do it itself.
    pub(super) fn push(&self, task: Task, by: WorkerId) -> Result<usize, Batch> {
        let mut state = self.lock();
        if state.closed {
            state.dropped += task.entries();
            drop(state);
            return Ok(0);
        }
        match task {
            Task::Copy(batch) if state.batches.len() >= self.max_batches => return Err(batch),
            Task::Copy(batch) => state.batches.push_back((by, batch)),
            other => state.others.push(other),
        }
        let (is_awaited, unclaimed) = (state.waiting > 0, state.unclaimed());
        drop(state);
        if is_awaited {
            self.wake.notify_one();
        }
        Ok(unclaimed)
    }

    /// Returns the number of waiting tasks without an idle worker.
    pub(super) fn unclaimed(&self) -> usize {
        self.lock().unclaimed()
    }

    /// Returns the number of directories that wait to be entered or listed.
    pub(super) fn waiting_directories(&self) -> usize {
        self.lock().others.len()
    }

    /// Returns the number of workers that have a task.
    pub(super) fn at_work(&self) -> usize {
        self.lock().working
    }

    /// Returns the next task for this worker: from its own batches, a directory, or another
    /// worker's batch. `None`: all is done, or the job was stopped. In both cases no worker is
    /// working any more, so the caller may remove what was made.
    pub(super) fn take(&self, worker: WorkerId) -> Option<Taken<'_>> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.next(worker) {
                state.working += 1;
                return Some(Taken { queue: self, task: Some(task) });
            }
            if state.working == 0 {
                let is_awaited = state.waiting > 0;
                drop(state);
                if is_awaited {
                    self.wake.notify_all();
                }
                return None;
            }
            state.waiting += 1;
            let _resting = self.gate.as_ref().map(Gate::rest);
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Counts a worker that is started.
    pub(super) fn count_started(&self) -> Started<'_> {
        self.lock().started += 1;
        Started { queue: self }
    }

    /// Waits until all started workers have handed in their results; to be called when all is done.
    pub(super) fn wait_for_results(&self) {
        let mut state = self.lock();
        while state.started > 0 {
            let _resting = self.gate.as_ref().map(Gate::rest);
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes the queue: no task is taken any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let (batches, others) =
            (std::mem::take(&mut state.batches), std::mem::take(&mut state.others));
        let batched: u64 = batches.iter().map(|(_, batch)| batch.len()).sum();
        state.dropped += batched + others.iter().map(Task::entries).sum::<u64>();
        drop(state);
        drop((batches, others));
        self.wake.notify_all();
    }

    /// Entries that waited when it was closed, or came later.
    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }
}

impl QueueState {
    fn unclaimed(&self) -> usize {
        (self.batches.len() + self.others.len()).saturating_sub(self.waiting)
    }

    /// After the end of a job the queue is empty.
    fn next(&mut self, worker: WorkerId) -> Option<Task> {
        if self.closed {
            return None;
        }
        let own = self.batches.iter().position(|(by, _)| *by == worker);
        if let Some((_, batch)) = own.and_then(|place| self.batches.remove(place)) {
            return Some(Task::Copy(batch));
        }
        let batches = &mut self.batches;
        self.others.pop().or_else(|| batches.pop_front().map(|(_, batch)| Task::Copy(batch)))
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        self.queue.lock().started -= 1;
        self.queue.wake.notify_all();
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.working -= 1;
        let over = state.working == 0 && state.waiting > 0;
        drop(state);
        if over {
            self.queue.wake.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::super::directory::{Entered, Parent, identity};
    use super::*;
    use crate::source_directory::SourceDirectory;

    fn directory() -> (Arc<Directory>, Arc<Open>) {
        let place = tempfile::tempdir().unwrap();
        let opened = || uncopy_os::follow::open_root(place.path()).unwrap();
        let source = uncopy_os::file::stat(opened()).unwrap();
        let path = || place.path().into();
        let above = Parent::Root {
            source: path(),
            destination: path(),
            register: crate::stale::Register::none(),
            earlier: Box::default(),
        };
        let entered = Entered {
            destination: identity(&source),
            source,
            fresh: true,
            remade: false,
            absent: false,
            private: false,
            whole: true,
            linked: false,
        };
        let source_fd = SourceDirectory::Here(opened());
        let open = Arc::new(Open::new(source_fd, opened()));
        (Arc::new(Directory::new(above, entered, &open, false)), open)
    }

    #[test]
    fn who_listed_a_directory_copies_its_files_while_there_are_others() {
        let (directory, open) = directory();
        let queue = Queue::new(8, None);
        let (here, there) = (WorkerId(1), WorkerId(2));
        let enter = || {
            let (parent, name) = (Arc::clone(&directory), OsString::from("below"));
            Task::Enter { parent, name, linked: false }
        };
        for task in [Task::Copy(Batch::new(&directory, &open)), enter(), enter()] {
            assert!(queue.push(task, here).is_ok());
        }
        assert!(queue.push(Task::Copy(Batch::new(&directory, &open)), here).is_ok());
        let mut taken = Vec::new();
        let reported = [there, here, there, there].map(|worker| {
            let one = queue.take(worker).unwrap();
            let is_batch = matches!(one.task, Some(Task::Copy(_)));
            taken.push(one);
            if is_batch { "batch" } else { "directory" }
        });
        assert_eq!(reported, ["directory", "batch", "directory", "batch"]);
    }

    #[test]
    fn who_adds_a_task_hears_how_many_nobody_waits_for() {
        let (directory, open) = directory();
        let queue = Queue::new(2, None);
        let batch = || Task::Copy(Batch::new(&directory, &open));
        let list = || Task::List { directory: Arc::clone(&directory), from: 0, open: None };
        let reported = [list(), batch(), batch(), batch(), list()].map(|task| {
            let answer = queue.push(task, WorkerId(0));
            answer.ok()
        });
        assert_eq!(reported, [Some(1), Some(2), Some(3), None, Some(4)]);
        queue.lock().waiting = 3;
        assert_eq!(queue.unclaimed(), 1);
        queue.lock().waiting = 5;
        assert_eq!(queue.unclaimed(), 0);
    }

    /// The starter of a job removes what was made; no worker may add to it then.
    #[test]
    fn who_asks_after_the_end_waits_for_those_still_at_work() {
        let queue = Queue::new(1, None);
        queue.lock().working = 1;
        let at_work = Taken { queue: &queue, task: None };
        let done = AtomicBool::new(false);
        queue.close();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                done.store(true, Ordering::Relaxed);
                drop(at_work);
            });
            assert!(queue.take(WorkerId(0)).is_none());
            assert!(done.load(Ordering::Relaxed), "somebody is still at work");
        });
    }

    /// Their counts are needed before the tree that they worked on is given up.
    #[test]
    fn results_are_there_when_the_workers_have_ended() {
        let queue = Queue::new(1, None);
        let handed_in = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let started = [queue.count_started(), queue.count_started()];
            scope.spawn(|| {
                for worker in started {
                    std::thread::sleep(Duration::from_millis(25));
                    handed_in.store(queue.lock().started == 1, Ordering::Relaxed);
                    drop(worker);
                }
            });
            queue.wait_for_results();
            assert!(handed_in.load(Ordering::Relaxed), "a worker has not ended");
        });
        queue.wait_for_results();
    }
}
