//! Flushes of whole filesystems, which Python's standard library has no function for.

use std::fs::File;
use std::io;

use pyo3::prelude::*;

use crate::ending::without_lock;
use crate::path::PathArgument;

/// Flushes the filesystem on which `path` lies (`syncfs(2)`).
#[pyfunction]
pub(crate) fn flush_filesystem(path: &Bound<'_, PyAny>) -> PyResult<()> {
    let PathArgument { path: place, object } = PathArgument::of(path)?;
    let flushed = without_lock(path.py(), || {
        let directory = File::open(place)?;
        rustix::fs::syncfs(directory).map_err(io::Error::from)
    });
    flushed.map_err(|error| {
        let error = PyErr::from(error);
        // It has the number already.
        let _ = error.value(path.py()).setattr("filename", object);
        error
    })
}
