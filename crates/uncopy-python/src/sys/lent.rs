//! Memory of the library that is lent to Python objects, read-only.

use std::ffi::c_int;
use std::ptr;

use pyo3::exceptions::PyOverflowError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// Owner of bytes that keep their address and contents while it exists.
type Owner = Box<dyn AsRef<[u8]> + Send + Sync>;

/// Memory that is lent to `memoryview`, NumPy and others; it is given back when the last of them is gone.
#[pyclass(frozen, module = "uncopy._native")]
pub(crate) struct Lent {
    // Never changed or taken out: what is exported points into it.
    owner: Owner,
}

impl Lent {
    /// Lends the bytes of `owner` as a read-only `memoryview`.
    ///
    /// # Errors
    /// Those of the interpreter.
    pub(crate) fn view<'py>(py: Python<'py>, owner: Owner) -> PyResult<Bound<'py, PyMemoryView>> {
        let lent = Bound::new(py, Lent { owner })?;
        PyMemoryView::from(lent.as_any())
    }
}

#[pymethods]
impl Lent {
    /// # Safety
    /// The interpreter calls it, with a view to be filled in.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().owner.as_ref().as_ref();
        let length = isize::try_from(bytes.len());
        let length = length.map_err(|_| PyOverflowError::new_err("too long for a buffer"))?;
        let start = if bytes.is_empty() { ptr::null_mut() } else { bytes.as_ptr().cast_mut() };
        const READ_ONLY: c_int = 1;
        // SAFETY: the view is the interpreter's. It gets a new reference to this object, whose owner is frozen, so the
        // bytes stay where they are, unchanged, until the view is released. A request for writing is refused.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start.cast(), length, READ_ONLY, flags)
        };
        match filled {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
