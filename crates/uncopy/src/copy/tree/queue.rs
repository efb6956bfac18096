//! What is to be done, and by whom: directories last in, first out, so that a job goes down before
//! it goes on and has few of them at a time; and batches of files, of which there are never many.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::FileType;

use super::directory::{Directory, Open};
use crate::sys::directory::Entry;

/// A piece of work.
pub(super) enum Task {
    /// Copy these entries of a directory.
    Copy(Batch),
    /// Go into a directory of a directory.
    Enter { parent: Arc<Directory>, name: OsString, linked: bool },
    /// List a directory from this place on.
    List { directory: Arc<Directory>, from: u64 },
}

/// Entries in one batch at most: enough that taking one costs little, and few enough that all
/// workers have something to do in a small tree.
const BATCH_ENTRIES: usize = 64;

/// Some entries of a directory that are no directories.
pub(super) struct Batch {
    pub(super) directory: Arc<Directory>,
    pub(super) open: Arc<Open>,
    names: Vec<u8>,
    entries: Vec<Listed>,
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
        Batch { directory, open, names: Vec::new(), entries: Vec::new() }
    }

    /// Adds an entry; `true`: the batch is full.
    pub(super) fn add(&mut self, entry: Entry<'_>) -> bool {
        let start = self.names.len();
        self.names.extend_from_slice(entry.name.to_bytes());
        let end = self.names.len();
        self.entries.push(Listed { inode: entry.inode, kind: entry.kind, start, end });
        self.entries.len() >= BATCH_ENTRIES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// In the order of inodes, in which their blocks are likelier to lie on the device than in that
    /// of names.
    pub(super) fn sort(&mut self) {
        self.entries.sort_unstable_by_key(|listed| listed.inode);
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&OsStr, FileType)> {
        let name = |listed: &Listed| OsStr::from_bytes(&self.names[listed.start..listed.end]);
        self.entries.iter().map(move |listed| (name(listed), listed.kind))
    }
}

/// Work that waits, and workers that wait for it.
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    /// So many batches may wait; who finds more does one itself.
    most_batches: usize,
}

#[derive(Default)]
struct State {
    batches: VecDeque<Batch>,
    /// Tasks other than batches.
    others: Vec<Task>,
    working: usize,
    waiting: usize,
    closed: bool,
}

/// A task, and the worker's word that it is at work until this is dropped.
pub(super) struct Taken<'a> {
    queue: &'a Queue,
    pub(super) task: Option<Task>,
}

impl Queue {
    /// `most_batches` may wait: each holds the descriptors of its directory.
    pub(super) fn new(most_batches: usize) -> Queue {
        Queue { state: Mutex::default(), wake: Condvar::new(), most_batches }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task; `Err`: there are enough batches, do it yourself. `Ok(true)`: nobody waits for
    /// it.
    pub(super) fn push(&self, task: Task) -> Result<bool, Batch> {
        let mut state = self.lock();
        match task {
            Task::Copy(batch) if state.batches.len() >= self.most_batches => return Err(batch),
            Task::Copy(batch) => state.batches.push_back(batch),
            other => state.others.push(other),
        }
        let nobody = state.waiting == 0;
        drop(state);
        if !nobody {
            self.wake.notify_one();
        }
        Ok(nobody)
    }

    /// How many directories wait to be entered or listed.
    pub(super) fn waiting_directories(&self) -> usize {
        self.lock().others.len()
    }

    /// The next task, batches first; `None`: all is done, or the job was stopped. In both cases
    /// nobody is at work any more, so that what was made can be taken back.
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.next() {
                state.working += 1;
                return Some(Taken { queue: self, task: Some(task) });
            }
            if state.working == 0 {
                drop(state);
                self.wake.notify_all();
                return None;
            }
            state.waiting += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Nobody takes anything any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let left = (std::mem::take(&mut state.batches), std::mem::take(&mut state.others));
        drop(state);
        drop(left);
        self.wake.notify_all();
    }
}

impl State {
    /// After the end of a job there is nothing, even if somebody still adds it.
    fn next(&mut self) -> Option<Task> {
        if self.closed {
            return None;
        }
        self.batches.pop_front().map(Task::Copy).or_else(|| self.others.pop())
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.working -= 1;
        let over = state.working == 0;
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

    use super::*;

    /// Whoever begins a job takes back what was made of it; nobody may add to it then.
    #[test]
    fn who_asks_after_the_end_waits_for_those_still_at_work() {
        let queue = Queue::new(1);
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
            assert!(queue.take().is_none());
            assert!(done.load(Ordering::Relaxed), "somebody is still at work");
        });
    }
}
