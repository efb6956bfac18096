//! Sends over TCP and UDP that lend the memory of Python objects to the kernel.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use uncopy::Error;
use uncopy::send::{self, Mode, Payload, SenderOptions};

use crate::channel::seconds;
use crate::failure;
use crate::sys::borrowed::Borrowed;
use crate::sys::descriptor::{adopt, detach};

/// Longest wait without a look for signals.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Sender over a connected socket of Python's `socket` module, TCP or UDP, which it takes over: the object is closed then,
/// and the program must have no other descriptor of the socket (`dup`, a child).
///
/// Each send has two events: `send` returns when the kernel has taken the bytes, and a `Release` says when it no longer
/// reads them. Until then the object that was sent keeps its memory: a `bytearray` cannot be resized (`BufferError`), and
/// what is written to it may be sent.
#[pyclass(frozen, module = "uncopy", name = "Sender")]
pub(crate) struct Sender {
    slot: Mutex<Option<send::Sender<Borrowed>>>,
    /// Thread whose send waits for room, and whose signal handlers may run meanwhile.
    waiting: Mutex<Option<ThreadId>>,
}

impl Sender {
    /// Calls the library without the interpreter's lock: another thread may be sending, and needs it to go on.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut send::Sender<Borrowed>) -> T + Send,
    ) -> PyResult<T> {
        self.check_not_in_handler()?;
        let done = py.detach(|| {
            let mut slot = lock(&self.slot);
            slot.as_mut().map(act)
        });
        done.ok_or_else(closed)
    }

    /// Refuses what a signal handler does with the sender whose send it has interrupted: the send holds it.
    fn check_not_in_handler(&self) -> PyResult<()> {
        match *lock(&self.waiting) {
            Some(thread) if thread == thread::current().id() => Err(PyRuntimeError::new_err(
                "a send of this thread waits for room; raise an exception in the signal handler to end it",
            )),
            _ => Ok(()),
        }
    }

    /// Looks for signals while a send waits for room. Returns what a handler raised.
    fn look(&self) -> PyResult<()> {
        *lock(&self.waiting) = Some(thread::current().id());
        let looked = Python::attach(|py| py.check_signals());
        *lock(&self.waiting) = None;
        looked
    }

    /// Repeats `attempt`, which waits for as long as it is given, until it has a result; looks for signals in between.
    fn repeat<T: Send>(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        mut attempt: impl FnMut(&mut send::Sender<Borrowed>, Duration) -> Result<Option<T>, Error>
        + Send,
    ) -> PyResult<Option<T>> {
        let until = timeout.map(seconds).transpose()?.map(|wait| Instant::now() + wait);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let wait = left.unwrap_or(BETWEEN_LOOKS).min(BETWEEN_LOOKS);
            let done = self.with(py, |sender| attempt(sender, wait))?;
            match done.map_err(|error| failure::of_socket(py, &error))? {
                Some(value) => return Ok(Some(value)),
                None if left.is_some_and(|left| left <= BETWEEN_LOOKS) => return Ok(None),
                None => py.check_signals()?,
            }
        }
    }
}

/// Locks, also after a panic elsewhere.
fn lock<T>(slot: &Mutex<T>) -> MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an observer of `look`, which keeps what was raised in `raised`.
fn observer(
    raised: &mut Option<PyErr>,
    look: impl Fn() -> PyResult<()>,
) -> impl FnMut() -> ControlFlow<()> {
    move || match look() {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            *raised = Some(error);
            ControlFlow::Break(())
        }
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the sender is closed")
}

#[pymethods]
impl Sender {
    /// `mode` is "auto" (lend where that is cheaper), "zerocopy" or "copy". A send waits for room `timeout` seconds at most.
    #[new]
    #[pyo3(signature = (socket, *, mode = "auto", timeout = None))]
    fn new(socket: &Bound<'_, PyAny>, mode: &str, timeout: Option<f64>) -> PyResult<Sender> {
        let py = socket.py();
        let mode = match mode {
            "auto" => Mode::Auto,
            "zerocopy" => Mode::Zerocopy,
            "copy" => Mode::Copy,
            _ => return Err(PyValueError::new_err("mode is not one of: auto, zerocopy, copy")),
        };
        let options =
            SenderOptions::new().mode(mode).send_timeout(timeout.map(seconds).transpose()?);
        check(socket)?;
        match adopt(detach(socket)?) {
            Ok(socket) => {
                let slot = Mutex::new(Some(send::Sender::new(socket, &options)));
                Ok(Sender { slot, waiting: Mutex::new(None) })
            }
            Err((_, error)) => Err(failure::of_socket(py, &error)),
        }
    }

    /// Send the bytes of an object with a buffer, or of each of a list, as one message. Return the number of the send, which
    /// its release has too. Ctrl-C ends a send that waits for room; the peer may read a part of it then.
    fn send(&self, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let py = data.py();
        let payload = Payload::Many(Borrowed::of_each(data)?);
        let mut raised = None;
        let mut observer = observer(&mut raised, || self.look());
        let sent = self.with(py, |sender| sender.send_observed(payload, &mut observer))?;
        drop(observer);
        match (raised, sent.result) {
            (Some(raised), _) => Err(raised),
            (None, Ok(_)) => Ok(sent.id.get()),
            (None, Err(error)) => Err(failure::of_socket(py, &error)),
        }
    }

    /// Return the next release, or None if nothing was released within `timeout` seconds (None: for ever), or nothing is
    /// outstanding.
    #[pyo3(signature = (*, timeout = None))]
    fn release(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Release>> {
        let waited = self.repeat(py, timeout, |sender, wait| {
            let release = sender.wait_release(Some(wait))?;
            let is_last = sender.outstanding().sends == 0 && sender.released() == 0;
            Ok(match release {
                Some(release) => Some(Some(Release::from(release))),
                None => is_last.then_some(None),
            })
        })?;
        Ok(waited.flatten())
    }

    /// Number of sends that are not released.
    #[getter]
    fn outstanding(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |sender| sender.outstanding().sends)
    }

    /// Receive into a writable buffer. Return the number of bytes: 0 at the end of a stream; raise `TimeoutError`.
    #[pyo3(signature = (buffer, *, timeout = None))]
    fn receive_into(&self, buffer: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<usize> {
        let mut borrowed = Borrowed::writable(buffer)?;
        let received = self.repeat(buffer.py(), timeout, |sender, wait| {
            sender.socket().receive_within(borrowed.bytes_mut(), wait)
        })?;
        received.ok_or_else(|| pyo3::exceptions::PyTimeoutError::new_err("nothing was received"))
    }

    /// End the stream after what was sent, and wait for all releases; abort the connection after `timeout` seconds. Return
    /// the releases that were not taken. Ctrl-C ends the wait, and the stream goes on to its end as when the sender is dropped.
    #[pyo3(signature = (*, timeout = None))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<Release>> {
        let timeout = timeout.map(seconds).transpose()?;
        self.check_not_in_handler()?;
        let mut raised = None;
        let mut observer = observer(&mut raised, || Python::attach(|py| py.check_signals()));
        let closed = py.detach(|| {
            let sender = lock(&self.slot).take();
            sender.map(|sender| match sender.close_observed(timeout, &mut observer) {
                Ok((releases, _)) => Ok(releases.into_iter().map(Release::from).collect()),
                Err(not_closed) => Err(not_closed.error),
            })
        });
        drop(observer);
        match (raised, closed) {
            (Some(raised), _) => Err(raised),
            (None, Some(Ok(releases))) => Ok(releases),
            (None, Some(Err(error))) => Err(failure::of_socket(py, &error)),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// Abort the connection: what was not sent is dropped, and the kernel releases the buffers soon.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, send::Sender::abort)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py, Some(60.0)).map(drop)
    }
}

/// Refuses sockets whose owner goes on using them, before anything is taken out.
fn check(socket: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = socket.py();
    if !socket.is_instance(&py.import("socket")?.getattr("socket")?)? {
        return Err(PyTypeError::new_err(
            "a socket of the module socket is needed; one of asyncio belongs to its event loop",
        ));
    }
    if socket.getattr("fileno")?.call0()?.extract::<i32>()? < 0 {
        return Err(PyValueError::new_err("the socket is closed"));
    }
    let loaded = py.import("sys")?.getattr("modules")?;
    if loaded.contains("ssl")?
        && socket.is_instance(&loaded.get_item("ssl")?.getattr("SSLSocket")?)?
    {
        return Err(PyTypeError::new_err(
            "a TLS socket encrypts what it sends, and cannot lend it",
        ));
    }
    Ok(())
}

/// Second event of a send: the kernel does not read the memory any more.
#[pyclass(frozen, module = "uncopy", get_all)]
pub(crate) struct Release {
    /// Number of the send.
    id: u64,
    /// Fate of the bytes: "not_copied", "copied", "unsent" or "unknown".
    fate: &'static str,
    /// Bytes that the kernel took.
    bytes: usize,
}

impl From<send::Release<Borrowed>> for Release {
    fn from(release: send::Release<Borrowed>) -> Release {
        let send::Release { id, payload, fate, bytes, .. } = release;
        // Gives the memory back to its object.
        drop(payload);
        Release { id: id.get(), fate: fate.name(), bytes }
    }
}

#[pymethods]
impl Release {
    fn __repr__(&self) -> String {
        format!("<uncopy.Release {}: {} bytes, {}>", self.id, self.bytes, self.fate)
    }
}
