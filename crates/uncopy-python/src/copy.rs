//! Copying one file.

use std::fs;
use std::os::unix::fs::FileTypeExt;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use uncopy::copy::{CopyContext, CopyOptions, copy_file_in};
use uncopy::{Error, Objection, Reason};

use crate::ending::without_lock;
use crate::failure;
use crate::interrupt::Watch;
use crate::options::{check_callback, copy_options, flag};
use crate::path::PathArgument;
use crate::receipt::Receipt;

/// Permission bits that `open` in Python gives a new file, whatever those of the source are.
const MODE_OF_NEW: u32 = 0o666;

/// Copies the file `src` to `dst`, following symbolic links.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "a call of the Python half has them one by one")]
pub(crate) fn copy_file(
    src: &Bound<'_, PyAny>,
    dst: &Bound<'_, PyAny>,
    kept: &str,
    in_place: &Bound<'_, PyAny>,
    require: Option<&Bound<'_, PyAny>>,
    durable: &Bound<'_, PyAny>,
    verify: Option<&Bound<'_, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Receipt> {
    let py = src.py();
    let (source, destination) = (PathArgument::of(src)?, PathArgument::of(dst)?);
    let mut options = copy_options(kept, require, durable, verify)?;
    options = options.in_place(flag("in_place", in_place)?);
    check_callback(progress.as_ref().map(|callback| callback.bind(py)))?;
    let context = CopyContext::new().new_mode(MODE_OF_NEW).frees_aside(true).sweeps_seldom(true);
    let mut watch = Watch::new(progress);
    loop {
        let copied = without_lock(py, || {
            copy_file_in(&source.path, &destination.path, &options, &context, &mut watch)
        });
        if let Some(raised) = watch.raised.take() {
            return Err(raised);
        }
        match copied {
            Ok(outcome) => {
                let receipt = outcome.receipt();
                let receipt =
                    receipt.ok_or_else(|| PyRuntimeError::new_err("nothing was copied"))?;
                let object = destination.object.clone_ref(py);
                return Ok(Receipt::of_file(&source, &destination, object, receipt));
            }
            Err(error) => match otherwise(&error, &options, [&source, &destination]) {
                Some(others) => options = others,
                None => return Err(failure::of_copy(py, &error, &source, &destination)),
            },
        }
    }
}

/// Returns other options for what `shutil` does and the first ones refuse: writing into a file that cannot be replaced,
/// and the bytes of devices. Those of a FIFO are not wanted: nobody may be at its other end.
fn otherwise(
    error: &Error,
    options: &CopyOptions,
    names: [&PathArgument; 2],
) -> Option<CopyOptions> {
    match error.reason() {
        Reason::Refused(
            Objection::MountPoint
            | Objection::MountedMeanwhile
            | Objection::ReplacingForbidden { .. }
            | Objection::MakingForbidden { .. },
        ) if !options.in_place => Some(options.clone().in_place(true)),
        Reason::NotRegular { kind }
            if kind.is_device() && !options.copy_contents && !names.into_iter().any(is_fifo) =>
        {
            Some(options.clone().copy_contents(true))
        }
        _ => None,
    }
}

fn is_fifo(name: &PathArgument) -> bool {
    fs::metadata(&name.path).is_ok_and(|found| found.file_type().is_fifo())
}
