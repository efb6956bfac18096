//! Tells the first interpreter of a process from others, and whether it runs.

use std::ffi::{c_int, c_void};
use std::ptr;

use pyo3::prelude::*;

/// Whether this is the first interpreter of the process.
pub(crate) fn is_first(_: Python<'_>) -> bool {
    // SAFETY: the thread is attached to an interpreter, as the argument shows, so that there is a current one
    // (`PyInterpreterState_Get` in the manual of the C interface).
    let current = unsafe { pyo3::ffi::PyInterpreterState_Get() };
    // SAFETY: it is the current interpreter, which exists while the thread is attached to it.
    unsafe { pyo3::ffi::PyInterpreterState_GetID(current) == 0 }
}

/// Whether the first interpreter runs, and does not end.
pub(crate) fn is_running() -> bool {
    // SAFETY: it may be called at any time, from any thread.
    unsafe { pyo3::ffi::Py_IsInitialized() != 0 }
}

/// Has the main thread call `act` with the interpreter's lock when it next runs code of Python. With too many others that
/// wait it is not called.
pub(crate) fn call_later(act: extern "C" fn(*mut c_void) -> c_int) {
    // SAFETY: it may be called at any time, from any thread; the function is this module's, which is never unloaded.
    unsafe { pyo3::ffi::Py_AddPendingCall(Some(act), ptr::null_mut()) };
}
