//! Tells the first interpreter of a process from others.

use pyo3::prelude::*;

/// Whether this is the first interpreter of the process.
pub(crate) fn is_first(_: Python<'_>) -> bool {
    // SAFETY: the thread is attached to an interpreter, as the argument shows, so that there is a current one
    // (`PyInterpreterState_Get` in the manual of the C interface).
    let current = unsafe { pyo3::ffi::PyInterpreterState_Get() };
    // SAFETY: it is the current interpreter, which exists while the thread is attached to it.
    unsafe { pyo3::ffi::PyInterpreterState_GetID(current) == 0 }
}
