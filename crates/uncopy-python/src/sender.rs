//! Sends over TCP and UDP that lend the memory of Python objects to the kernel.

use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use uncopy::send::{self, InetSocket, Mode, Payload, SenderOptions, SharedSender};
use uncopy::{Errno, Error, Reason};

use crate::channel::seconds;
use crate::ending::{with_lock, without_lock};
use crate::failure;
use crate::sys::borrowed::Borrowed;
use crate::sys::descriptor::{adopt, detach, duplicate};

/// Sender over a connected socket of Python's `socket` module, TCP or UDP, which it takes over: the object is closed then,
/// and the program must have no other descriptor of the socket (`dup`, a child).
///
/// Each send has two events: `send` returns when the kernel has taken the bytes, and a `Release` says when it no longer
/// reads them. Until then the object that was sent keeps its memory: a `bytearray` cannot be resized (`BufferError`), and
/// what is written to it may be sent.
///
/// Several threads may use it at the same time: one receives while another sends.
#[pyclass(frozen, module = "uncopy", name = "Sender")]
pub(crate) struct Sender {
    sender: SharedSender<Borrowed>,
    /// Longest wait for bytes that arrive where none is given: that of the socket.
    receive_timeout: Option<Duration>,
    /// Threads whose signal handlers may run while they send.
    looking: Mutex<Vec<ThreadId>>,
}

impl Sender {
    /// Refuses what a signal handler cannot do with a sender whose send it has interrupted: it would wait for itself.
    fn check_not_in_handler(&self) -> PyResult<()> {
        if lock(&self.looking).contains(&thread::current().id()) {
            return Err(PyRuntimeError::new_err(
                "a send of this thread waits for room; raise an exception in the signal handler to end it",
            ));
        }
        Ok(())
    }

    /// Looks for signals while a send waits. Returns what a handler raised.
    fn look(&self) -> PyResult<()> {
        let this = thread::current().id();
        lock(&self.looking).push(this);
        let looked = look();
        lock(&self.looking).retain(|thread| *thread != this);
        looked
    }

    /// Makes the exception for an error: that of a closed object, unless the system refused a call.
    fn exception(&self, py: Python<'_>, error: &Error) -> PyErr {
        match error.reason() {
            Reason::Refused(_) if self.sender.is_closed() => closed(),
            _ => failure::of_socket(py, error),
        }
    }

    /// Waits without the interpreter's lock, and looks for signals meanwhile.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        look: impl Fn() -> PyResult<()> + Send,
        act: impl FnOnce(&mut dyn FnMut() -> ControlFlow<()>) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let mut raised = None;
        let mut observer = observer(&mut raised, look);
        let done = without_lock(py, || act(&mut observer));
        drop(observer);
        match (raised, done) {
            (Some(raised), _) => Err(raised),
            (None, done) => done.map_err(|error| self.exception(py, &error)),
        }
    }
}

fn look() -> PyResult<()> {
    with_lock(|py| py.check_signals())
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
    /// `mode` is "auto" (lend where that is cheaper), "zerocopy" or "copy". A send waits for room `timeout` seconds at most, or
    /// as long as was set on the socket (`settimeout`). A socket that is refused stays open.
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
        let (timeout, own) = (timeout.map(seconds).transpose()?, check(socket)?);
        let options = SenderOptions::new().mode(mode).send_timeout(timeout.or(own));
        match adopt(detach(socket)?) {
            Ok(socket) => Ok(Sender {
                sender: SharedSender::new(send::Sender::new(socket, &options)),
                receive_timeout: own,
                looking: Mutex::default(),
            }),
            Err((_, error)) => Err(failure::of_socket(py, &error)),
        }
    }

    /// Send the bytes of an object with a buffer, or of each of a list, as one message. Return the number of the send, which
    /// its release has too. Ctrl-C ends a send that waits for room; the peer may read a part of it then. Sends of several
    /// threads are made one after the other.
    fn send(&self, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.check_not_in_handler()?;
        let payload = Payload::Many(Borrowed::of_each(data)?);
        self.wait(
            data.py(),
            || self.look(),
            |observer| {
                let sent = self.sender.send(payload, observer);
                sent.result.map(|_| sent.id.get())
            },
        )
    }

    /// Return the next release, or None if nothing was released within `timeout` seconds (None: for ever), or nothing is
    /// outstanding.
    #[pyo3(signature = (*, timeout = None))]
    fn release(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Release>> {
        let timeout = timeout.map(seconds).transpose()?;
        self.wait(py, look, |observer| {
            Ok(self.sender.wait_release(timeout, observer)?.map(Release::from))
        })
    }

    /// Number of sends that are not released.
    #[getter]
    fn outstanding(&self, py: Python<'_>) -> PyResult<usize> {
        let outstanding = without_lock(py, || self.sender.outstanding());
        outstanding.map(|found| found.sends).map_err(|error| self.exception(py, &error))
    }

    /// Receive into a writable buffer, also while another thread sends. Return the number of bytes: 0 at the end of a stream,
    /// and for an empty buffer. Raise `TimeoutError` after `timeout` seconds, or after those that were set on the socket.
    #[pyo3(signature = (buffer, *, timeout = None))]
    fn receive_into(&self, buffer: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<usize> {
        let mut borrowed = Borrowed::writable(buffer)?;
        let timeout = timeout.map(seconds).transpose()?.or(self.receive_timeout);
        let received = self.wait(buffer.py(), look, |observer| {
            self.sender.receive(borrowed.bytes_mut(), timeout, observer)
        })?;
        received.ok_or_else(|| PyTimeoutError::new_err("nothing was received"))
    }

    /// End the stream after what was sent, and wait for all releases; abort the connection after `timeout` seconds. Return
    /// the releases that were not taken. A send of another thread is waited for as well. Ctrl-C ends the wait, and the stream
    /// goes on to its end as when the sender is dropped; while another thread sends, it aborts the connection.
    #[pyo3(signature = (*, timeout = None))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<Release>> {
        let timeout = timeout.map(seconds).transpose()?;
        self.check_not_in_handler()?;
        self.wait(py, look, |observer| {
            let (releases, _) = self.sender.close(timeout, observer)?;
            Ok(releases.into_iter().map(Release::from).collect())
        })
    }

    /// Abort the connection: what was not sent is dropped, and the kernel releases the buffers soon. They stay lent until
    /// their releases are taken, or until `close`. What other threads wait for raises `ConnectionAbortedError`.
    fn abort(&self, py: Python<'_>) {
        without_lock(py, || self.sender.abort());
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py, Some(60.0)).map(drop)
    }
}

/// Refuses sockets that cannot be taken over, or whose owner goes on using them, before anything is taken out. Returns the
/// timeout of the socket; `None`: none is set, or it is nonblocking.
fn check(socket: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
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
    let found = InetSocket::transport_of(duplicate(socket)?);
    found.map_err(|error| failure::of_socket(py, &error))?;
    // Sockets that listen have no peer either.
    if let Err(error) = socket.call_method0("getpeername") {
        let is_unconnected = error.is_instance_of::<PyOSError>(py)
            && error.value(py).getattr("errno")?.extract::<i32>()? == Errno::ENOTCONN.raw();
        return Err(match is_unconnected {
            true => PyOSError::new_err((
                Errno::ENOTCONN.raw(),
                "the socket is not connected; connect it before a Sender takes it over",
            )),
            false => error,
        });
    }
    let timeout: Option<f64> = socket.call_method0("gettimeout")?.extract()?;
    timeout.filter(|timeout| *timeout > 0.0).map(seconds).transpose()
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
