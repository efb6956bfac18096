//! Statuses of channels as exceptions of Python.

use pyo3::exceptions::{
    PyBlockingIOError, PyBrokenPipeError, PyBufferError, PyEOFError, PyMemoryError, PyOSError,
    PyPermissionError, PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use uncopy::Errno;
use uncopy::channel::{MAX_BYTES, MAX_HANDLES, MAX_REGIONS, Status};

/// Limit of a message.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    Bytes,
    Handles,
    Buffers,
}

/// Makes the exception for a message that is beyond a limit.
pub(crate) fn beyond(limit: Limit) -> PyErr {
    const { assert!(MAX_BYTES == 65_536 && MAX_HANDLES == 64 && MAX_REGIONS == 8192) };
    PyValueError::new_err(match limit {
        Limit::Bytes => {
            "a message has at most 65,536 bytes; split it, or seal the bytes (uncopy.seal) and send the memory"
        }
        Limit::Handles => "a message has at most 64 handles; split it",
        Limit::Buffers => "a message has at most 8,192 buffers; split it, or join some of them",
    })
}

/// Makes the exception for an error of reading or mapping.
pub(crate) fn of_reading(status: Status) -> PyErr {
    match status {
        Status::PeerClosed => PyEOFError::new_err(format!(
            "{status}; an end counts as closed, too, whose process sends what is no message of a channel"
        )),
        other => of(other),
    }
}

/// Makes the exception for an error of writing.
pub(crate) fn of_writing(status: Status) -> PyErr {
    match status {
        Status::PeerClosed => PyBrokenPipeError::new_err((Errno::EPIPE.raw(), status.to_string())),
        other => of(other),
    }
}

fn of(status: Status) -> PyErr {
    let words = status.to_string();
    match status {
        Status::ShouldWait => PyBlockingIOError::new_err((Errno::EAGAIN.raw(), words)),
        Status::TimedOut => PyTimeoutError::new_err((Errno::ETIMEDOUT.raw(), words)),
        Status::NoMemory => PyMemoryError::new_err(words),
        Status::AccessDenied => PyPermissionError::new_err((Errno::EACCES.raw(), words)),
        Status::BufferTooSmall { .. } | Status::Memory(_) => PyBufferError::new_err(words),
        // No other state of a channel of this package forbids anything.
        Status::BadState => PyRuntimeError::new_err(
            "the channel belongs to the process that forked this one; make a new one in this process",
        ),
        Status::WrongType => PyTypeError::new_err(words),
        Status::DescriptorLimit { .. } | Status::NoResources => {
            PyOSError::new_err((Errno::EMFILE.raw(), words))
        }
        Status::NotFound => PyOSError::new_err((Errno::ENOENT.raw(), words)),
        Status::Io(errno) => PyOSError::new_err((errno.raw(), words)),
        _ => PyValueError::new_err(words),
    }
}
