//! Flushes a log to the device while it is being written: as soon as one flush ends, the next takes
//! all lines that were written meanwhile.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The thread that flushes. It sleeps while there is nothing to flush.
#[derive(Debug)]
pub(super) struct Flusher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Something was written since the last flush began.
    is_behind: bool,
    is_over: bool,
    failed: Option<io::Error>,
}

impl Flusher {
    /// # Errors
    /// There can be no more threads.
    pub(super) fn new(file: Arc<File>) -> io::Result<Flusher> {
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("audit".into()).spawn(move || own.work(&file))?;
        Ok(Flusher { shared, thread: Some(thread) })
    }

    /// A line was written, which is flushed as soon as may be.
    ///
    /// # Errors
    /// Of a flush of earlier lines, once.
    pub(super) fn wrote(&self) -> io::Result<()> {
        let mut state = self.shared.lock();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        let was_behind = std::mem::replace(&mut state.is_behind, true);
        drop(state);
        if !was_behind {
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    /// Waits for a flush that is on its way, and begins no other.
    ///
    /// # Errors
    /// Of a flush.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.stop();
        self.shared.lock().failed.take().map_or(Ok(()), Err)
    }

    fn stop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, file: &File) {
        let mut state = self.lock();
        while !state.is_over && state.failed.is_none() {
            if !state.is_behind {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_behind = false;
            drop(state);
            let flushed = file.sync_data();
            state = self.lock();
            state.failed = flushed.err();
        }
    }
}
