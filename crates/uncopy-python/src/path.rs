//! Paths as Python has them: text with surrogates for bytes that are not UTF-8, bytes, or an object that stands for one.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};

/// A path of the caller: its bytes, and the text or bytes that the caller has for it.
pub(crate) struct PathArgument {
    pub(crate) path: PathBuf,
    pub(crate) object: Py<PyAny>,
}

impl PathArgument {
    /// Converts text, bytes, or an object with `__fspath__`.
    ///
    /// # Errors
    /// `TypeError` for any other object, `ValueError` for a zero byte.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<PathArgument> {
        if let Ok(text) = object.cast_exact::<PyString>() {
            return PathArgument::with(encoded(text)?, object);
        }
        static FSPATH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let object = FSPATH.import(object.py(), "os", "fspath")?.call1((object,))?;
        let bytes = match object.cast::<PyBytes>() {
            Ok(bytes) => bytes.as_bytes().to_vec(),
            Err(_) => encoded(object.cast::<PyString>()?)?,
        };
        PathArgument::with(bytes, &object)
    }

    /// Returns a path below this one, as bytes if this one is.
    pub(crate) fn below<'py>(&self, py: Python<'py>, path: &Path) -> PyResult<Bound<'py, PyAny>> {
        match self.object.bind(py).is_instance_of::<PyBytes>() {
            true => Ok(PyBytes::new(py, path.as_os_str().as_bytes()).into_any()),
            false => text(py, path),
        }
    }

    fn with(bytes: Vec<u8>, object: &Bound<'_, PyAny>) -> PyResult<PathArgument> {
        if bytes.contains(&0) {
            return Err(PyValueError::new_err("embedded null byte"));
        }
        let path = PathBuf::from(OsString::from_vec(bytes));
        Ok(PathArgument { path, object: object.clone().unbind() })
    }
}

/// Returns the bytes of a path that is text, in the encoding of the filesystem.
fn encoded(text: &Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    match text.to_str() {
        // The same in every encoding that a filesystem has.
        Ok(plain) if plain.is_ascii() => Ok(plain.as_bytes().to_vec()),
        _ => {
            static FSENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let bytes = FSENCODE.import(text.py(), "os", "fsencode")?.call1((text,))?;
            Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec())
        }
    }
}

/// Returns the text of a path in the encoding of the filesystem, with surrogates for bytes that are not in it.
pub(crate) fn text<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, PyAny>> {
    match path.to_str() {
        // The same in every encoding that a filesystem has.
        Some(plain) if plain.is_ascii() => Ok(PyString::new(py, plain).into_any()),
        _ => {
            static FSDECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let bytes = PyBytes::new(py, path.as_os_str().as_bytes());
            FSDECODE.import(py, "os", "fsdecode")?.call1((bytes,))
        }
    }
}
