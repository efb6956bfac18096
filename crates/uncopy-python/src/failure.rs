//! Errors of the library as exceptions. Which exception stands for which is in `python/uncopy/_errors.py`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use uncopy::{Errno, Error, NextStep, Reason};

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

/// Returns the sentence, with a next step that the functions here have.
fn sentence(error: &Error) -> String {
    let (operation, subject) = (error.operation(), error.subject().display());
    let next = error.next_step().map(|step| match step {
        NextStep::AcceptChange => "copy again when nobody writes to it",
        NextStep::FlushSource | NextStep::CopyUnwritten => {
            "copy again when nobody writes to the source, and check the device if they still differ; this copy was \
             not put in place"
        }
        NextStep::CopyContents => "read or write its bytes yourself",
        NextStep::CopyAsTree => "name a file, or copy it with copytree",
        NextStep::AllowMore => "require less",
        step => step.text(),
    });
    let next = next.map_or_else(String::new, |next| format!("; {next}"));
    format!("cannot {operation} {subject}: {}{next}", error.reason())
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
