//! Descriptors that come from Python objects.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use uncopy::Error;
use uncopy::send::InetSocket;

/// Duplicates the descriptor of a number or of an object with `fileno()`.
///
/// # Errors
/// Those of `os.dup`; `ValueError` if the object is closed; `TypeError` for objects that have none.
pub(crate) fn duplicate(object: &Bound<'_, PyAny>) -> PyResult<OwnedFd> {
    static DUP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let number: RawFd = match object.extract() {
        Ok(number) => number,
        Err(_) => match fileno(object)?.call0()?.extract()? {
            ..0 => return Err(PyValueError::new_err("it is closed")),
            number => number,
        },
    };
    let new = DUP.import(object.py(), "os", "dup")?.call1((number,))?;
    owned(new.extract()?)
}

fn fileno<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object.getattr("fileno").map_err(|_| {
        PyTypeError::new_err(format!(
            "an object of the class {} has no descriptor: neither a number nor fileno()",
            object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string()),
        ))
    })
}

/// Takes the descriptor out of an object with `detach()`, such as a socket, which is closed for its program then.
///
/// # Errors
/// Those of `detach()`; `ValueError` if the object is closed.
pub(crate) fn detach(object: &Bound<'_, PyAny>) -> PyResult<OwnedFd> {
    owned(object.call_method0("detach")?.extract()?)
}

fn owned(number: RawFd) -> PyResult<OwnedFd> {
    if number < 0 {
        return Err(PyValueError::new_err("it is closed"));
    }
    // SAFETY: the number has just been made by `dup`, or given up by its only owner, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Takes over a socket of Python's standard library.
///
/// # Errors
/// The socket is neither TCP nor UDP; the descriptor comes back.
#[allow(clippy::result_large_err, reason = "the descriptor comes back")]
pub(crate) fn adopt(socket: OwnedFd) -> Result<InetSocket, (OwnedFd, Error)> {
    // SAFETY: the Python object has given the descriptor up, and `Sender` asks its caller for one that was not duplicated.
    // If that is not so and somebody else sends with MSG_ZEROCOPY on the socket, buffers are released early. The kernel
    // holds their pages itself, so memory stays valid; the peer may read bytes that were changed meanwhile.
    unsafe { InetSocket::adopt(socket) }
}
