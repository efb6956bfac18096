//! Errors of the library as exceptions. Which exception stands for which is in `python/uncopy/_errors.py`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use uncopy::{Errno, Error, Reason};

use crate::advice::sentence;
use crate::path::{PathArgument, text};

/// Makes the exception for the error of a copy.
pub(crate) fn of_copy(
    py: Python<'_>,
    error: &Error,
    source: &PathArgument,
    destination: &PathArgument,
) -> PyErr {
    let (source, destination) = (source.object.clone_ref(py), destination.object.clone_ref(py));
    match exception(py, error, source, destination) {
        Ok(exception) => PyErr::from_value(exception),
        Err(failed) => failed,
    }
}

/// Makes the exception for an error of a socket.
pub(crate) fn of_socket(py: Python<'_>, error: &Error) -> PyErr {
    match exception(py, error, py.None(), py.None()) {
        Ok(exception) => PyErr::from_value(exception),
        Err(failed) => failed,
    }
}

/// Makes an exception for an error, with the names of source and destination.
///
/// # Errors
/// Those of the Python half.
pub(crate) fn exception<'py>(
    py: Python<'py>,
    error: &Error,
    source: Py<PyAny>,
    destination: Py<PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.import(py, "uncopy._errors", "exception")?;
    let errno = error.errno();
    let facts = (
        kind(error.reason()),
        code(error.reason()),
        errno.map(Errno::raw),
        errno.map(Errno::message),
        sentence(error),
        text(py, error.subject())?,
        source,
        destination,
    );
    make.call1(facts)
}

/// Returns the sentence for a call of Python's that failed on `path`, which it was to make or to open.
///
/// # Errors
/// Those of the path.
#[pyfunction]
pub(crate) fn sentence_of_call(
    path: &Bound<'_, PyAny>,
    makes: bool,
    errno: i32,
) -> PyResult<String> {
    let (operation, path) = (if makes { "make" } else { "open" }, PathArgument::of(path)?);
    Ok(sentence(&Error::system(operation, path.path, Errno::from_raw(errno))))
}

/// Names the reason, for the Python half.
fn kind(reason: &Reason) -> &'static str {
    match reason {
        Reason::System { .. } | Reason::Network { .. } | Reason::ForeignLink { .. } => "system",
        Reason::SameFile { .. } => "same_file",
        Reason::NotRegular { .. } => "not_regular",
        Reason::SourceChanged { .. } => "source_changed",
        Reason::VerificationFailed { .. } => "verification_failed",
        Reason::NoMechanism { .. } => "no_mechanism",
        Reason::Options(_) | Reason::NotHere { .. } => "options",
        Reason::Forked => "forked",
        Reason::Cancelled => "cancelled",
        Reason::Refused(_) => "refused",
        _ => "other",
    }
}

/// Returns what distinguishes reasons of one kind: the code of a refusal, the type of a file.
fn code(reason: &Reason) -> &'static str {
    match reason {
        Reason::Refused(objection) => objection.code(),
        Reason::NotRegular { kind } => kind.code(),
        _ => "",
    }
}
