//! Keeps threads out of an interpreter that ends.
//!
//! Before Python 3.14 a thread that asks for the interpreter's lock while the interpreter ends is unwound by
//! `pthread_exit(3)` (`take_gil` in `Python/ceval_gil.h`), and frames of Rust are not made for that. So a thread asks before
//! it takes the lock: once the interpreter ends, all but the thread that ends it wait for ever, as Python 3.14 has it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::sys::interpreter;

/// Longest wait for threads that are in a callback when the interpreter ends.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Number of the thread that ends the interpreter; 0: none.
static ENDER: AtomicU64 = AtomicU64::new(0);

/// Stays of threads in the interpreter, with frames of Rust below.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Number of the next thread.
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static OWN_NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    /// Stays of this thread: a callback may call the package again.
    static OWN_STAYS: Cell<usize> = const { Cell::new(0) };
}

/// A stay of this thread in the interpreter, which the end of the interpreter waits for.
struct Stay;

impl Stay {
    /// Begins a stay. `None`: the interpreter ends.
    fn begin() -> Option<Stay> {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        OWN_STAYS.set(OWN_STAYS.get() + 1);
        let stay = Stay;
        let ender = ENDER.load(Ordering::SeqCst);
        (ender == 0 || ender == OWN_NUMBER.with(|own| *own)).then_some(stay)
    }

    /// Begins a stay, or never returns. The caller does not hold the interpreter's lock.
    fn begin_or_wait() -> Stay {
        Stay::begin().unwrap_or_else(|| {
            INSIDE.fetch_sub(OWN_STAYS.replace(0), Ordering::SeqCst);
            loop {
                thread::park();
            }
        })
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        OWN_STAYS.set(OWN_STAYS.get() - 1);
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Acts without the interpreter's lock.
pub(crate) fn without_lock<T: Send>(py: Python<'_>, act: impl FnOnce() -> T + Send) -> T {
    let (done, _stay) = py.detach(|| (act(), Stay::begin_or_wait()));
    done
}

/// Acts with the interpreter's lock, which the thread does not hold.
pub(crate) fn with_lock<T>(act: impl FnOnce(Python<'_>) -> T) -> T {
    let _stay = Stay::begin_or_wait();
    Python::attach(act)
}

/// Calls code of Python from a thread that holds the interpreter's lock, and has frames of Rust to return to.
pub(crate) fn call<T>(py: Python<'_>, act: impl FnOnce(Python<'_>) -> T) -> T {
    let _stay = Stay::begin().unwrap_or_else(|| py.detach(Stay::begin_or_wait));
    act(py)
}

/// Keep other threads out of the interpreter from now on, and wait for those that are in it, for at most five seconds.
#[pyfunction]
fn end(py: Python<'_>) {
    ENDER.store(OWN_NUMBER.with(|own| *own), Ordering::SeqCst);
    let begin = Instant::now();
    py.detach(|| {
        while INSIDE.load(Ordering::SeqCst) > OWN_STAYS.get() && begin.elapsed() < LONGEST_WAIT {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Forget the threads of the parent process.
#[pyfunction]
fn forget_threads() {
    INSIDE.store(OWN_STAYS.get(), Ordering::SeqCst);
    ENDER.store(0, Ordering::SeqCst);
}

/// Has the interpreter call these functions when it ends, and in forked processes.
pub(crate) fn prepare(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    // Another interpreter ends by itself, and the process goes on.
    if !interpreter::is_first(py) {
        return Ok(());
    }
    let end = wrap_pyfunction!(end, module)?;
    py.import("atexit")?.call_method1("register", (end,))?;
    let options = pyo3::types::PyDict::new(py);
    options.set_item("after_in_child", wrap_pyfunction!(forget_threads, module)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&options)).map(drop)
}
