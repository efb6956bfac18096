//! Channels between threads and processes, and the memory and descriptors that their messages carry.

use std::ops::Deref;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyTuple};
use rustix::io::Errno;
use uncopy::channel::{
    self, Deadline, Handle, MAX_HANDLES, MAX_REGIONS, Object, Part, Signals, Status, Vmo,
};

use crate::ending::without_lock;
use crate::status::{self, Limit};
use crate::sys::borrowed::{Borrowed, regions};
use crate::sys::descriptor::{detach, duplicate};
use crate::sys::lent::Lent;

/// Longest wait without a look for signals.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Bytes that are sealed between two looks for signals: some 25 ms.
const SEALED_AT_ONCE: usize = 32 << 20;

/// One end of a channel: messages of bytes, with memory, descriptors and ends of channels, to a thread or a process.
///
/// A message is written and read as a whole. Ends can be used by several threads; in a process that was forked from the
/// one that made them they refuse.
#[pyclass(frozen, module = "uncopy", name = "Channel")]
pub(crate) struct Channel(Mutex<Option<Arc<channel::Channel>>>);

impl Channel {
    fn new(end: channel::Channel) -> Channel {
        Channel(Mutex::new(Some(Arc::new(end))))
    }

    fn end(&self) -> PyResult<Arc<channel::Channel>> {
        let end = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        end.clone().ok_or_else(|| PyValueError::new_err("the channel is closed"))
    }

    /// Takes the end out, to be sent.
    fn take(&self) -> PyResult<channel::Channel> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = slot.take();
        let end = end.ok_or_else(|| PyValueError::new_err("the channel is closed"))?;
        Arc::try_unwrap(end).map_err(|end| {
            *slot = Some(end);
            PyValueError::new_err(
                "the channel that is to be sent is in use, by another thread or by this write",
            )
        })
    }

    fn put_back(&self, end: channel::Channel) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(end));
    }
}

/// Waits until `attempt` does not answer that the queue is empty or full.
fn wait_for<T: Send>(
    py: Python<'_>,
    end: &channel::Channel,
    signals: Signals,
    timeout: Option<f64>,
    mut attempt: impl FnMut() -> Result<T, Status> + Send,
) -> PyResult<Result<T, Status>> {
    // One that is too far away for the clock is none.
    let until = timeout.map(seconds).transpose()?;
    let until = until.and_then(|wait| Instant::now().checked_add(wait));
    loop {
        match without_lock(py, &mut attempt) {
            Err(Status::ShouldWait) => {}
            done => return Ok(done),
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match left {
            Some(Duration::ZERO) if timeout == Some(0.0) => return Ok(Err(Status::ShouldWait)),
            Some(Duration::ZERO) => return Ok(Err(Status::TimedOut)),
            _ => {}
        }
        let wait = left.unwrap_or(BETWEEN_LOOKS).min(BETWEEN_LOOKS);
        let waited = without_lock(py, || {
            end.wait_one(signals | Signals::PEER_CLOSED, Deadline::after(wait)).map(drop)
        });
        match waited {
            Ok(()) | Err(Status::TimedOut) => py.check_signals()?,
            Err(status) => return Ok(Err(status)),
        }
    }
}

pub(crate) fn seconds(timeout: f64) -> PyResult<Duration> {
    // More than an age of the world is as good as no end.
    if timeout >= Duration::MAX.as_secs_f64() {
        return Ok(Duration::MAX);
    }
    Duration::try_from_secs_f64(timeout)
        .map_err(|_| PyValueError::new_err("timeout must be a number of seconds from 0 on"))
}

#[pymethods]
impl Channel {
    /// Make a channel, and return both of its ends.
    #[staticmethod]
    fn pair() -> (Channel, Channel) {
        let (near, far) = channel::Channel::pair();
        (Channel::new(near), Channel::new(far))
    }

    /// Take over a connected socket (AF_UNIX, SOCK_SEQPACKET) as an end: an object with `fileno()` and `detach()`, which is
    /// closed. What is refused stays open.
    #[staticmethod]
    fn from_socket(socket: &Bound<'_, PyAny>) -> PyResult<Channel> {
        if !socket.hasattr("detach")? {
            return Err(PyTypeError::new_err(
                "a socket is needed: an object with fileno() and detach()",
            ));
        }
        let duplicate = duplicate(socket)?;
        if rustix::net::getpeername(&duplicate) == Err(Errno::NOTCONN) {
            let words = "the socket is not connected; connect it before a Channel takes it over";
            return Err(PyOSError::new_err((Errno::NOTCONN.raw_os_error(), words)));
        }
        match channel::Channel::from_fd(duplicate) {
            Ok(end) => {
                drop(detach(socket)?);
                Ok(Channel::new(end))
            }
            Err((_, Status::WrongType)) => Err(PyTypeError::new_err(
                "a socket of AF_UNIX and SOCK_SEQPACKET is needed, which is connected",
            )),
            Err((_, status)) => Err(status::of_reading(status)),
        }
    }

    /// Take the end that this program was started with, by `spawn` or by the library's function of that name. Its number is
    /// then no longer in `os.environ`, so that programs that are started later do not look for it.
    #[staticmethod]
    fn inherited(py: Python<'_>) -> PyResult<Channel> {
        let end = channel::Channel::inherited().map_err(status::of_reading)?;
        let names = py.import("os")?.getattr("environ")?;
        names.call_method1("pop", (channel::FD_VARIABLE, py.None()))?;
        Ok(Channel::new(end))
    }

    /// Write a message: the bytes of an object with a buffer, or of each of a list, and handles.
    ///
    /// The bytes are gathered; nobody has to join them first. A handle is a `Channel`, which moves along and is closed
    /// here, a `Memory`, or anything with a descriptor (a number or `fileno()`), which is duplicated. Waits while the
    /// queue is full, for `timeout` seconds at most; 0 raises `BlockingIOError` instead. After an error nothing was sent.
    /// A message has at most 65,536 bytes, 64 handles and 8,192 buffers.
    ///
    /// The channels among the handles are closed here, whether the message was sent or an error is raised, whatever the
    /// error is. They stay open only if all that was missing was room: after `BlockingIOError`, `TimeoutError`, and what a
    /// signal handler raises during the wait.
    #[pyo3(signature = (data, handles = None, *, timeout = None))]
    fn write(
        &self,
        data: &Bound<'_, PyAny>,
        handles: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let py = data.py();
        // Before the handles, so that an end that is to be sent into itself is in use.
        let end = self.end();
        let mut sent = SentHandles::default();
        let mut list = match handles {
            Some(handles) => sent.collect(handles)?,
            None => Vec::new(),
        };
        let end = end?;
        let buffers = Borrowed::of_each(data)?;
        timeout.map(seconds).transpose()?;
        let written = wait_for(py, &end, Signals::WRITABLE, timeout, || {
            end.try_write(&regions(&buffers), &mut list)
        });
        if matches!(written, Err(_) | Ok(Err(Status::ShouldWait | Status::TimedOut))) {
            sent.restore(list);
        }
        written?.map_err(|status| match status {
            // More handles were not collected.
            Status::OutOfRange if buffers.len() > MAX_REGIONS => status::beyond(Limit::Buffers),
            Status::OutOfRange => status::beyond(Limit::Bytes),
            other => status::of_writing(other),
        })
    }

    /// Read the next message, and wait for it `timeout` seconds at most; 0 raises `BlockingIOError` if there is none.
    ///
    /// Raises `EOFError` when the other end is closed and all was read, and `TimeoutError`.
    #[pyo3(signature = (*, timeout = None))]
    fn read(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Message> {
        let end = self.end()?;
        let read = wait_for(py, &end, Signals::READABLE, timeout, || end.read())?;
        Message::new(py, read.map_err(status::of_reading)?)
    }

    /// Read the next message into a writable buffer, and return the number of its bytes. Its handles are closed.
    ///
    /// A message that does not fit raises `BufferError`, and stays in the queue.
    #[pyo3(signature = (buffer, *, timeout = None))]
    fn read_into(&self, buffer: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<usize> {
        let end = self.end()?;
        let mut borrowed = Borrowed::writable(buffer)?;
        let mut handles: [Option<Handle>; 64] = [const { None }; 64];
        let read = wait_for(buffer.py(), &end, Signals::READABLE, timeout, || {
            end.read_into(borrowed.bytes_mut(), &mut handles)
        })?;
        Ok(read.map_err(status::of_reading)?.bytes)
    }

    /// Close the end. Threads that wait in it stop with an error; what was written before can still be read.
    fn close(&self) {
        let end = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(end) = end {
            end.revoke();
        }
    }

    /// Whether the end was closed or sent.
    #[getter]
    fn closed(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyAny>) {
        self.close();
    }

    fn __repr__(&self) -> &'static str {
        if self.closed() { "<uncopy.Channel closed>" } else { "<uncopy.Channel>" }
    }
}

/// Handles of a message that is written, and the objects that channels were taken out of.
#[derive(Default)]
struct SentHandles {
    /// Position in the list, and the object.
    channels: Vec<(usize, Py<Channel>)>,
}

impl SentHandles {
    /// Takes the handles out of their objects, those that come after one that is refused too. Of an iterable that may have no
    /// end no more are taken than show that there are too many.
    fn collect(&mut self, objects: &Bound<'_, PyAny>) -> PyResult<Vec<Handle>> {
        let py = objects.py();
        let has_end = objects.is_instance_of::<PyList>() || objects.is_instance_of::<PyTuple>();
        let mut handles = Vec::new();
        let mut failed = None;
        for (count, object) in objects.try_iter()?.enumerate() {
            let object = object?;
            if let Err(raised) = py.check_signals() {
                failed.get_or_insert(raised);
            }
            if count < MAX_HANDLES {
                match self.handle(handles.len(), &object) {
                    Ok(handle) => handles.push(handle),
                    // Those behind it are taken as well.
                    Err(error) => {
                        failed.get_or_insert(error);
                    }
                }
                continue;
            }
            failed.get_or_insert_with(|| status::beyond(Limit::Handles));
            if let Ok(channel) = object.cast::<Channel>() {
                channel.get().close();
            }
            if !has_end {
                break;
            }
        }
        match failed {
            None => Ok(handles),
            Some(error) => Err(error),
        }
    }

    fn handle(&mut self, at: usize, object: &Bound<'_, PyAny>) -> PyResult<Handle> {
        if let Ok(channel) = object.cast::<Channel>() {
            let end = channel.get().take().inspect_err(|_| channel.get().close())?;
            self.channels.push((at, channel.clone().unbind()));
            return Ok(end.into());
        }
        if let Ok(memory) = object.cast::<Memory>() {
            return memory.get().0.duplicate(None).map(Handle::from).map_err(status::of_writing);
        }
        Ok(channel::Descriptor::from(duplicate(object)?).into())
    }

    /// Gives the ends of channels back that were not sent.
    fn restore(&mut self, handles: Vec<Handle>) {
        let mut channels = self.channels.drain(..).peekable();
        for (at, handle) in handles.into_iter().enumerate() {
            if let Some((_, object)) = channels.next_if(|(position, _)| *position == at)
                && let Ok(end) = channel::Channel::try_from(handle)
            {
                object.get().put_back(end);
            }
        }
    }
}

/// A message that was read: its bytes, lent, and its handles.
#[pyclass(frozen, weakref, module = "uncopy")]
pub(crate) struct Message {
    data: Py<PyMemoryView>,
    handles: Py<PyList>,
}

struct MessageBytes(Part);

impl AsRef<[u8]> for MessageBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.deref()
    }
}

impl Message {
    fn new(py: Python<'_>, message: channel::MessageBuf) -> PyResult<Message> {
        let (bytes, handles) = message.into_parts();
        let objects = PyList::empty(py);
        for handle in handles {
            objects.append(received(py, handle)?)?;
        }
        let data = Lent::view(py, Box::new(MessageBytes(bytes)))?;
        Ok(Message { data: data.unbind(), handles: objects.unbind() })
    }
}

#[pymethods]
impl Message {
    /// Shows the garbage collector the list, to which the program may add.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.data)?;
        visit.call(&self.handles)
    }

    /// The bytes, as a read-only `memoryview` of the buffer that they were received in.
    #[getter]
    fn data(&self, py: Python<'_>) -> Py<PyMemoryView> {
        self.data.clone_ref(py)
    }

    /// The handles: `Channel`, `Memory`, `Descriptor` and `OtherHandle` objects, which the receiver owns.
    #[getter]
    fn handles(&self, py: Python<'_>) -> Py<PyList> {
        self.handles.clone_ref(py)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.data.bind(py).len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.data.bind(py).call_method0("tobytes")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (bytes, handles) = (self.__len__(py)?, self.handles.bind(py).len());
        Ok(format!("<uncopy.Message {bytes} bytes, {handles} handles>"))
    }
}

fn received(py: Python<'_>, handle: Handle) -> PyResult<Py<PyAny>> {
    match handle {
        Handle::Channel(end) => Channel::new(end).into_py_any(py),
        Handle::Vmo(memory) => Memory(memory).into_py_any(py),
        Handle::Descriptor(fd) => Descriptor::new(fd.into()).into_py_any(py),
        other => OtherHandle(Mutex::new(Some(other))).into_py_any(py),
    }
}

/// A handle of a kind that only C and Rust use, as a message brought it. It is closed with the object.
#[pyclass(frozen, module = "uncopy")]
pub(crate) struct OtherHandle(Mutex<Option<Handle>>);

#[pymethods]
impl OtherHandle {
    /// "event", "event_pair", "fifo", "socket" or "other"; None if it is closed.
    #[getter]
    fn kind(&self) -> Option<&'static str> {
        let handle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match handle.as_ref()? {
            Handle::Event(_) => "event",
            Handle::EventPair(_) => "event_pair",
            Handle::Fifo(_) => "fifo",
            Handle::Socket(_) => "socket",
            _ => "other",
        })
    }

    /// Close the handle.
    fn close(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn __repr__(&self) -> String {
        format!("<uncopy.OtherHandle {}>", self.kind().unwrap_or("closed"))
    }
}

/// Make a channel, and return an end and the socket of the other one, for a program that is started with it. It never has the
/// number of a standard stream.
#[pyfunction]
pub(crate) fn pair_for_program() -> PyResult<(Channel, Descriptor)> {
    let (near, far) = channel::Channel::pair();
    let socket = far.into_fd().map_err(status::of_writing)?;
    let socket = rustix::io::fcntl_dupfd_cloexec(&socket, 3)
        .map_err(|errno| PyOSError::new_err((errno.raw_os_error(), errno.to_string())))?;
    Ok((Channel::new(near), Descriptor::new(socket)))
}

/// A file descriptor that came in a message. It is closed with the object unless it is detached.
#[pyclass(frozen, module = "uncopy")]
pub(crate) struct Descriptor(Mutex<Option<OwnedFd>>);

impl Descriptor {
    fn new(fd: OwnedFd) -> Descriptor {
        Descriptor(Mutex::new(Some(fd)))
    }
}

#[pymethods]
impl Descriptor {
    /// The number; it stays this object's.
    fn fileno(&self) -> PyResult<RawFd> {
        use std::os::fd::AsRawFd;
        let fd = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fd.as_ref().map(AsRawFd::as_raw_fd).ok_or_else(closed)
    }

    /// Give the number away, as to `open()` or `socket.socket(fileno=…)`: the caller closes it.
    fn detach(&self) -> PyResult<RawFd> {
        let fd = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        fd.map(OwnedFd::into_raw_fd).ok_or_else(closed)
    }

    /// Close the descriptor.
    fn close(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn __repr__(&self) -> String {
        match self.fileno() {
            Ok(number) => format!("<uncopy.Descriptor {number}>"),
            Err(_) => "<uncopy.Descriptor closed>".to_owned(),
        }
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the descriptor is closed")
}

/// Memory that messages carry to other processes without a copy. Sealed memory cannot be changed by anybody any more.
#[pyclass(frozen, module = "uncopy")]
pub(crate) struct Memory(Vmo);

#[pymethods]
impl Memory {
    /// Length in bytes: a multiple of the page size. Bytes that were not given are zeros.
    #[getter]
    fn size(&self) -> u64 {
        self.0.size()
    }

    /// Map sealed memory, and return a read-only `memoryview` of it, which NumPy and others take without a copy.
    ///
    /// Memory that is not sealed raises `BufferError`, because its sender could change it at any time.
    fn map<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        let bytes = without_lock(py, || self.0.map()).map_err(status::of_reading)?;
        Lent::view(py, Box::new(bytes))
    }

    /// Copy bytes out, from memory that is sealed or not.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        size: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if offset.checked_add(size as u64).is_none_or(|end| end > self.0.size()) {
            return Err(PyValueError::new_err("there are not so many bytes"));
        }
        PyBytes::new_with(py, size, |bytes| {
            without_lock(py, || self.0.read(bytes, offset)).map_err(status::of_reading)
        })
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.0.size())?)
    }

    fn __repr__(&self) -> String {
        format!("<uncopy.Memory {} bytes>", self.0.size())
    }
}

/// Copy the bytes of an object with a buffer, or of each of a list, into new sealed memory: the last copy on the way to
/// any number of processes. Its length is rounded up to whole pages; send the length along where it matters.
#[pyfunction]
pub(crate) fn seal(data: &Bound<'_, PyAny>) -> PyResult<Memory> {
    let (py, buffers) = (data.py(), Borrowed::of_each(data)?);
    let size = buffers.iter().map(|buffer| buffer.bytes().len() as u64).sum();
    let memory = without_lock(py, || Vmo::new(size)).map_err(status::of_writing)?;
    let mut at = 0;
    for piece in buffers.iter().flat_map(|buffer| buffer.bytes().chunks(SEALED_AT_ONCE)) {
        if at > 0 {
            py.check_signals()?;
        }
        without_lock(py, || memory.write(piece, at)).map_err(status::of_writing)?;
        at += piece.len() as u64;
    }
    without_lock(py, || memory.seal()).map_err(status::of_writing)?;
    Ok(Memory(memory))
}
