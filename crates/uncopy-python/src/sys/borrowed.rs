//! Memory of Python objects that is borrowed while the library or the kernel reads it.

use std::io::IoSlice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMemoryView, PySequence, PyString, PyTuple};
use uncopy::send::StableBytes;

/// Bytes of an object with a buffer. While this exists the object keeps them: it can be neither freed nor resized
/// (`BufferError` in Python). Objects that may be written to can still be changed by their program, as while
/// `socket.send` or `zlib` read them without the interpreter's lock.
pub(crate) struct Borrowed(PyUntypedBuffer);

impl Borrowed {
    /// Borrows from `object`.
    ///
    /// # Errors
    /// `TypeError` if it has no buffer; `BufferError` if its bytes do not lie one after the other.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Borrowed> {
        let buffer = match PyUntypedBuffer::get(object) {
            Err(error) if error.is_instance_of::<PyBufferError>(object.py()) => {
                PyUntypedBuffer::get(&of_one_item(object, error)?)?
            }
            got => got?,
        };
        if buffer.is_c_contiguous() || buffer.is_fortran_contiguous() {
            return Ok(Borrowed(buffer));
        }
        Err(PyBufferError::new_err(format!(
            "the bytes of this {} with {} dimensions do not lie one after the other; make a contiguous copy first, as \
             by bytes() or numpy.ascontiguousarray()",
            object.get_type().name()?,
            buffer.dimensions(),
        )))
    }

    /// Borrows from one object, or from each of a list, tuple or other sequence.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(crate) fn of_each(objects: &Bound<'_, PyAny>) -> PyResult<Vec<Borrowed>> {
        let each = || objects.try_iter()?.map(|object| Borrowed::of(&object?)).collect();
        if objects.is_instance_of::<PyList>() || objects.is_instance_of::<PyTuple>() {
            return each();
        }
        // A string is a sequence of strings, and a buffer with gaps is a sequence of numbers.
        let may_be_many = |error: &PyErr| {
            error.is_instance_of::<PyTypeError>(objects.py())
                && !objects.is_instance_of::<PyString>()
                && objects.cast::<PySequence>().is_ok()
        };
        match Borrowed::of(objects) {
            Ok(borrowed) => Ok(vec![borrowed]),
            Err(error) if may_be_many(&error) => each(),
            Err(error) => Err(error),
        }
    }

    /// Borrows memory to write to, which nobody else borrows through this type.
    ///
    /// # Errors
    /// As [`of`](Self::of), and `TypeError` if the object is read-only.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Borrowed> {
        let borrowed = Borrowed::of(object)?;
        if borrowed.0.readonly() {
            return Err(PyTypeError::new_err("a read-only buffer cannot be read into"));
        }
        Ok(borrowed)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the exporter keeps `len_bytes` contiguous bytes at `buf_ptr` until the buffer is released, when this is
        // dropped. A program that writes to them at the same time changes what is copied or sent, and nothing else: the
        // bytes are plain memory that is passed to the kernel or copied, and nothing is concluded from them.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }

    /// Returns the bytes of a buffer that [`writable`](Self::writable) made.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.0.len_bytes() == 0 || self.0.readonly() {
            return &mut [];
        }
        // SAFETY: as in `bytes`; the exporter lets them be written to, and `&mut self` is the only borrow of this value.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

/// Returns the bytes of an object without dimensions, whose buffer has no shape, such as `numpy.array(5)`. `error` is raised
/// for other objects.
fn of_one_item<'py>(object: &Bound<'py, PyAny>, error: PyErr) -> PyResult<Bound<'py, PyAny>> {
    let view = PyMemoryView::from(object)?;
    match view.getattr("ndim")?.extract::<usize>()? {
        0 => view.call_method1("cast", ("B",)),
        _ => Err(error),
    }
}

/// Returns the regions that a gathered write takes.
pub(crate) fn regions(buffers: &[Borrowed]) -> Vec<IoSlice<'_>> {
    buffers.iter().map(|buffer| IoSlice::new(buffer.bytes())).collect()
}

// SAFETY: address and length are the exporter's, which it keeps until the buffer is released, wherever this value is
// moved. Objects that can be written to are not changed by this library; if their own program changes them, the kernel
// sends the changed bytes, from pages that it holds itself.
unsafe impl StableBytes for Borrowed {
    fn bytes(&self) -> &[u8] {
        Borrowed::bytes(self)
    }
}
