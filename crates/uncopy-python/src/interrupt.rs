//! Copies that Ctrl-C ends, and their progress: the interpreter is asked for signals while the library works.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyException, PyRecursionError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use uncopy::copy::{Control, Observer, Phase};

use crate::ending::{call, with_lock, without_lock};

/// Minimum time between two looks for signals, shorter than the pieces of a copy: a small copy never looks, and a large
/// one after each piece, also where other threads hold the interpreter's lock.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Most calls of callbacks within each other on a thread: each needs up to 40 KiB of its stack.
const MAX_NESTED: usize = 20;

thread_local! {
    /// Calls of callbacks on this thread that have not returned.
    static NESTED: Cell<usize> = const { Cell::new(0) };
}

/// A point in a copy, as callbacks get it.
#[pyclass(frozen, module = "uncopy", get_all)]
pub(crate) struct Progress {
    /// "waiting", "copying", "flushing" or "verifying".
    phase: &'static str,
    /// Bytes done in this phase.
    done_bytes: u64,
    /// Bytes of this phase; 0 where they are not known.
    total_bytes: u64,
    /// Entries of a tree that are done; 0 for a file until it is copied.
    done_entries: u64,
}

/// Phases of copies.
const PHASES: [&str; 4] = ["waiting", "copying", "flushing", "verifying"];

#[pymethods]
impl Progress {
    /// Makes a point, as `pickle` does in another process.
    #[new]
    fn new(
        phase: &str,
        done_bytes: u64,
        total_bytes: u64,
        done_entries: u64,
    ) -> PyResult<Progress> {
        let phase = PHASES.into_iter().find(|known| *known == phase);
        let phase = phase.ok_or_else(|| {
            PyValueError::new_err(format!("phase is not one of: {}", PHASES.join(", ")))
        })?;
        Ok(Progress { phase, done_bytes, total_bytes, done_entries })
    }

    fn __reduce__<'py>(
        this: &Bound<'py, Progress>,
    ) -> (Bound<'py, PyType>, (&'static str, u64, u64, u64)) {
        let Progress { phase, done_bytes, total_bytes, done_entries } = this.get();
        (this.get_type(), (phase, *done_bytes, *total_bytes, *done_entries))
    }

    fn __repr__(&self) -> String {
        let Progress { phase, done_bytes, total_bytes, done_entries } = self;
        format!(
            "Progress(phase={phase:?}, done_bytes={done_bytes}, total_bytes={total_bytes}, \
             done_entries={done_entries})"
        )
        .replace('"', "'")
    }
}

impl Progress {
    pub(crate) fn of_tree(done_entries: u64, done_bytes: u64) -> Progress {
        Progress { phase: "copying", done_bytes, total_bytes: 0, done_entries }
    }
}

impl From<uncopy::copy::Progress> for Progress {
    fn from(point: uncopy::copy::Progress) -> Progress {
        let phase = match point.phase {
            Phase::Waiting => "waiting",
            Phase::Flushing => "flushing",
            Phase::Verifying => "verifying",
            _ => "copying",
        };
        let (done_bytes, total_bytes) = (point.done_bytes, point.total_bytes);
        Progress { phase, done_bytes, total_bytes, done_entries: 0 }
    }
}

/// Calls a callback.
///
/// # Errors
/// Exceptions of the callback; `RecursionError` within too many others.
pub(crate) fn report(callback: &Bound<'_, PyAny>, point: Progress) -> PyResult<()> {
    let nested = NESTED.get();
    if nested == MAX_NESTED {
        return Err(PyRecursionError::new_err(format!(
            "maximum recursion depth exceeded: {MAX_NESTED} calls of progress are within each other; copy without \
             progress there"
        )));
    }
    NESTED.set(nested + 1);
    let called = callback.call1((point,));
    NESTED.set(nested);
    called.map(drop)
}

/// Observer of a copy on the caller's thread: looks for signals, and calls the callback.
pub(crate) struct Watch {
    callback: Option<Py<PyAny>>,
    looked: Instant,
    /// Exception of a signal handler or of the callback, which ended the copy.
    pub(crate) raised: Option<PyErr>,
}

impl Watch {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Watch {
        Watch { callback, looked: Instant::now(), raised: None }
    }

    fn look(&mut self, point: uncopy::copy::Progress) -> PyResult<()> {
        with_lock(|py| {
            py.check_signals()?;
            match &self.callback {
                Some(callback) => report(callback.bind(py), Progress::from(point)),
                None => Ok(()),
            }
        })
    }
}

impl Observer for Watch {
    fn progress(&mut self, point: uncopy::copy::Progress) -> Control {
        if self.callback.is_none() && self.looked.elapsed() < BETWEEN_LOOKS {
            return Control::Continue;
        }
        let looked = self.look(point);
        self.looked = Instant::now();
        match looked {
            Ok(()) => Control::Continue,
            Err(raised) => {
                self.raised = Some(raised);
                Control::Stop
            }
        }
    }
}

/// Exception that stopped work on another thread.
pub(crate) struct Stopped {
    pub(crate) raised: PyErr,
    /// Whether somebody wants the program to go on elsewhere, or to end: a signal handler raised it, or no program handles it
    /// as an error.
    pub(crate) is_interrupt: bool,
}

/// Runs `work` on another thread and waits for it. Meanwhile signals are handled on this one and `tick` is called; what
/// either raises sets `stop`, and is returned when the work has ended.
///
/// # Errors
/// The exception that was raised, or `RuntimeError` if no thread can be started, or the work panicked.
pub(crate) fn run_beside<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> T + Send,
) -> Result<T, Stopped> {
    let mut stopped = None;
    let finished = thread::scope(|scope| {
        let (sender, mut receiver) = channel();
        let worker = thread::Builder::new().name("uncopy".into());
        if let Err(error) = worker.spawn_scoped(scope, move || sender.send(work())) {
            stopped = Some(Stopped { raised: no_thread(&error), is_interrupt: false });
            return None;
        }
        loop {
            let (received, back) =
                without_lock(py, move || (receiver.recv_timeout(BETWEEN_LOOKS), receiver));
            receiver = back;
            match received {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let handled = py.check_signals();
                    let is_of_handler = handled.is_err();
                    if let Err(raised) = handled.and_then(|()| call(py, &mut tick)) {
                        stop.store(true, Ordering::Relaxed);
                        let is_interrupt =
                            is_of_handler || !raised.is_instance_of::<PyException>(py);
                        stopped.get_or_insert(Stopped { raised, is_interrupt });
                    }
                }
            }
        }
    });
    match (stopped, finished) {
        (Some(stopped), _) => Err(stopped),
        (None, Some(result)) => Ok(result),
        (None, None) => {
            let raised = PyRuntimeError::new_err("the thread that copies has panicked");
            Err(Stopped { raised, is_interrupt: false })
        }
    }
}

/// Makes what Python raises when it can start no thread, with the next step.
fn no_thread(error: &io::Error) -> PyErr {
    PyRuntimeError::new_err(format!(
        "can't start new thread: {error}; raise the limit on processes and threads (ulimit -u, a control group's), or that \
         on memory, and copy again"
    ))
}
