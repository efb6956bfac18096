//! Memory of Python objects that is borrowed while the library or the kernel reads it.

use std::ffi::c_char;
use std::io::IoSlice;
use std::ptr::NonNull;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySequence, PyString, PyTuple};
use uncopy::send::StableBytes;

/// Bytes of an object with a buffer. While this exists the object keeps them: it can be neither freed nor resized
/// (`BufferError` in Python). Objects that may be written to can still be changed by their program, as while
/// `socket.send` or `zlib` read them without the interpreter's lock.
pub(crate) struct Borrowed(View);

impl Borrowed {
    /// Borrows from `object`.
    ///
    /// # Errors
    /// `TypeError` if it has no buffer; `BufferError` if its bytes do not lie one after the other.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Borrowed> {
        let view = View::of(object)?;
        if view.is_contiguous() {
            return Ok(Borrowed(view));
        }
        Err(PyBufferError::new_err(format!(
            "the bytes of this {} with {} dimensions do not lie one after the other; make a contiguous copy first, as \
             by bytes() or numpy.ascontiguousarray()",
            object.get_type().name()?,
            view.fields().ndim,
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
        if borrowed.0.fields().readonly != 0 {
            return Err(PyTypeError::new_err("a read-only buffer cannot be read into"));
        }
        Ok(borrowed)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let (start, length) = self.0.region();
        if length == 0 {
            return &[];
        }
        // SAFETY: the exporter keeps `length` contiguous bytes at `start` until the view is released, when this is
        // dropped. A program that writes to them at the same time changes what is copied or sent, and nothing else: the
        // bytes are plain memory that is passed to the kernel or copied, and nothing is concluded from them.
        unsafe { std::slice::from_raw_parts(start, length) }
    }

    /// Returns the bytes of a buffer that [`writable`](Self::writable) made.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, length) = self.0.region();
        if length == 0 || self.0.fields().readonly != 0 {
            return &mut [];
        }
        // SAFETY: as in `bytes`; the exporter lets them be written to, and `&mut self` is the only borrow of this value.
        unsafe { std::slice::from_raw_parts_mut(start, length) }
    }
}

/// A view of the memory of an object, as the interpreter fills it in. It keeps its address: exporters may point into it.
struct View(NonNull<ffi::Py_buffer>);

// SAFETY: the fields are not changed until the view is released, for which the interpreter is attached to whatever thread
// that is; the memory that they name belongs to no thread.
unsafe impl Send for View {}
// SAFETY: as above; a shared view is only read.
unsafe impl Sync for View {}

impl View {
    /// Gets a view of `object`, which may be read-only and of any layout. Shape and strides may be missing: the bytes of
    /// those without strides lie one after the other (PEP 3118), as in arrays of `ctypes`.
    fn of(object: &Bound<'_, PyAny>) -> PyResult<View> {
        let mut room = Box::<ffi::Py_buffer>::new_uninit();
        // SAFETY: the object lives, and there is room for the view.
        let got = unsafe {
            ffi::PyObject_GetBuffer(object.as_ptr(), room.as_mut_ptr(), ffi::PyBUF_FULL_RO)
        };
        if got != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: it was filled in.
        let view = unsafe { room.assume_init() };
        Ok(View(NonNull::from(Box::leak(view))))
    }

    fn fields(&self) -> &ffi::Py_buffer {
        // SAFETY: the view was made by `of`, and lives until this is dropped.
        unsafe { self.0.as_ref() }
    }

    /// Whether the bytes lie one after the other, in the order of C or of Fortran.
    fn is_contiguous(&self) -> bool {
        const ANY_ORDER: c_char = b'A' as c_char;
        // SAFETY: the view is one that the interpreter has filled in.
        unsafe { ffi::PyBuffer_IsContiguous(self.0.as_ptr(), ANY_ORDER) == 1 }
    }

    /// Returns address and length.
    fn region(&self) -> (*mut u8, usize) {
        let fields = self.fields();
        (fields.buf.cast(), usize::try_from(fields.len).unwrap_or(0))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // Once the interpreter has ended nobody can release it.
        Python::try_attach(|_| {
            // SAFETY: the interpreter is attached, and the view is released once.
            unsafe { ffi::PyBuffer_Release(self.0.as_ptr()) };
            // SAFETY: the memory of the view was a box, and nobody reads it any more.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        });
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
