//! Flushes a log to the device while it is being written: when one flush ends, the next one covers
//! all lines that were written meanwhile.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Thread that flushes. It sleeps while there is nothing to flush.
#[derive(Debug)]
pub(super) struct Flusher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<FlushState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct FlushState {
    /// Whether a line was written since the last flush began.
    is_behind: bool,
    is_over: bool,
    failed: Option<io::Error>,
}

impl Flusher {
    /// Starts the thread.
    ///
    /// # Errors No thread can be started.
    pub(super) fn new(file: Arc<File>) -> io::Result<Flusher> {
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("audit".into()).spawn(move || own.work(&file))?;
        Ok(Flusher { shared, thread: Some(thread) })
    }

    /// Requests a flush, after a line was written.
    ///
    /// # Errors The flush of earlier lines failed; reported once.
    pub(super) fn request(&self) -> io::Result<()> {
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

    /// Waits for a flush in progress, and begins no other.
    ///
    /// # Errors A flush failed.
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
    fn lock(&self) -> MutexGuard<'_, FlushState> {
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
