//! Keeps threads out of an interpreter that ends.
//!
//! Before Python 3.14 a thread that asks for the interpreter's lock while the interpreter ends is unwound by
//! `pthread_exit(3)` (`take_gil` in `Python/ceval_gil.h`), and frames of Rust are not made for that. So a thread asks before
//! it takes the lock: once the interpreter ends, all but the thread that ends it wait for ever, as Python 3.14 has it.
//!
//! The end begins when all functions of `atexit` have run, those that were registered before this package was imported too:
//! they may wait for threads. The interpreter drops the functions then, before anything else runs.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::sys::interpreter;
use crate::tree::wait_for_removers;

/// Longest wait for threads that are in a callback when the interpreter ends.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Time between two looks whether the interpreter goes on after all.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

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

    /// Begins a stay; does not return if the interpreter ends. The caller does not hold the interpreter's lock.
    fn begin_or_wait() -> Stay {
        loop {
            if let Some(stay) = Stay::begin() {
                return stay;
            }
            // The end does not wait for the stays further up, either.
            let own = OWN_STAYS.replace(0);
            INSIDE.fetch_sub(own, Ordering::SeqCst);
            thread::sleep(BETWEEN_LOOKS);
            INSIDE.fetch_add(own, Ordering::SeqCst);
            OWN_STAYS.set(own);
        }
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

/// Function of `atexit` that does nothing. It is dropped when all of them have run.
#[pyclass(frozen, module = "uncopy._native")]
struct End;

#[pymethods]
impl End {
    fn __call__(&self) {}
}

impl Drop for End {
    fn drop(&mut self) {
        Python::attach(end);
    }
}

/// Keeps other threads out of the interpreter from now on, and waits for those that are in it, for at most five seconds, and
/// until the trees of copies that were interrupted are removed.
fn end(py: Python<'_>) {
    ENDER.store(OWN_NUMBER.with(|own| *own), Ordering::SeqCst);
    let begin = Instant::now();
    py.detach(|| {
        while INSIDE.load(Ordering::SeqCst) > OWN_STAYS.get() && begin.elapsed() < LONGEST_WAIT {
            thread::sleep(Duration::from_millis(1));
        }
    });
    wait_for_removers(py);
    // If this is not the end: programs have their functions run or dropped early (`atexit._run_exitfuncs`).
    interpreter::call_later(go_on);
}

/// Lets threads in again if the interpreter runs.
extern "C" fn go_on(_: *mut c_void) -> c_int {
    if interpreter::is_running() {
        ENDER.store(0, Ordering::SeqCst);
        Python::attach(|py| {
            if let Err(error) = register(py) {
                error.write_unraisable(py, None);
            }
        });
    }
    0
}

fn register(py: Python<'_>) -> PyResult<()> {
    py.import("atexit")?.call_method1("register", (End,)).map(drop)
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
    register(py)?;
    let options = pyo3::types::PyDict::new(py);
    options.set_item("after_in_child", wrap_pyfunction!(forget_threads, module)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&options)).map(drop)
}
