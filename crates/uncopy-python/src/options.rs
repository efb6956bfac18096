//! Options of a copy, by the names that Python callers give.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use uncopy::copy::{CopyOptions, Digest, Preserve, Require, Verify};

/// Metadata that a copy gets, as the functions of `shutil` differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// None, as `copyfile`.
    Nothing,
    /// Permission bits, as `copy`.
    Mode,
    /// Permission bits, times, extended attributes and ACL, and not the owner, as `copy2`.
    Stat,
}

impl Kept {
    /// Reads the name that the Python half gives.
    pub(crate) fn of(name: &str) -> PyResult<Kept> {
        match name {
            "nothing" => Ok(Kept::Nothing),
            "mode" => Ok(Kept::Mode),
            "stat" => Ok(Kept::Stat),
            _ => Err(PyValueError::new_err(format!("unknown metadata {name:?}"))),
        }
    }

    fn preserve(self) -> Preserve {
        match self {
            Kept::Nothing => Preserve::default(),
            Kept::Mode => Preserve::default().mode(true),
            Kept::Stat => Preserve::default().mode(true).timestamps(true).xattr(true).acl(true),
        }
    }
}

/// Makes the options of a copy.
///
/// # Errors
/// `ValueError` and `TypeError` for what no option means.
pub(crate) fn copy_options(
    kept: &str,
    require: Option<&Bound<'_, PyAny>>,
    durable: &Bound<'_, PyAny>,
    verify: Option<&Bound<'_, PyAny>>,
) -> PyResult<CopyOptions> {
    let options = CopyOptions::new().preserve(Kept::of(kept)?.preserve());
    let options = options.durable(flag("durable", durable)?);
    let options = options.require(require.map_or(Ok(Require::Nothing), requirement)?);
    Ok(match verify.map(digest).transpose()?.flatten() {
        Some(digest) => options.verify(Verify::from(digest)),
        None => options,
    })
}

/// Refuses options that mean nothing, where no function that takes them is called.
#[pyfunction]
#[pyo3(signature = (require, durable, verify, progress, in_place = None))]
pub(crate) fn check_options(
    require: Option<&Bound<'_, PyAny>>,
    durable: &Bound<'_, PyAny>,
    verify: Option<&Bound<'_, PyAny>>,
    progress: Option<&Bound<'_, PyAny>>,
    in_place: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    copy_options("nothing", require, durable, verify)?;
    in_place.map(|given| flag("in_place", given)).transpose()?;
    check_callback(progress)
}

/// Reads an option that is true or false. Those of `shutil` are any object, and are read by their truth before they get here.
pub(crate) fn flag(name: &str, given: &Bound<'_, PyAny>) -> PyResult<bool> {
    given.extract().map_err(|_| PyTypeError::new_err(format!("{name} must be True or False")))
}

/// Refuses a `progress` that cannot be called, before anything is made.
pub(crate) fn check_callback(progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    match progress {
        Some(callback) if !callback.is_callable() => {
            Err(PyTypeError::new_err("progress must be a function, or None"))
        }
        _ => Ok(()),
    }
}

fn requirement(given: &Bound<'_, PyAny>) -> PyResult<Require> {
    let Ok(name) = given.cast::<PyString>() else {
        return Err(PyTypeError::new_err("require must be the name of a condition, or None"));
    };
    let name = name.to_str()?;
    Require::ALL.into_iter().find(|require| require.name() == name).ok_or_else(|| {
        let names = Require::ALL.map(Require::name).join(", ");
        PyValueError::new_err(format!("require={name:?} is not one of: {names}"))
    })
}

/// Reads `verify`: a digest's name, or whether to verify by the default one.
fn digest(verify: &Bound<'_, PyAny>) -> PyResult<Option<Digest>> {
    if let Ok(wanted) = verify.cast::<PyBool>() {
        return Ok(wanted.is_true().then(Digest::default));
    }
    let Ok(name) = verify.cast::<PyString>() else {
        return Err(PyTypeError::new_err("verify must be a bool or the name of a digest"));
    };
    match name.to_str()? {
        "blake3" => Ok(Some(Digest::Blake3)),
        "sha256" => Ok(Some(Digest::Sha256)),
        "xxh3" => Ok(Some(Digest::Xxh3)),
        other => Err(PyValueError::new_err(format!(
            "verify={other:?} is not one of: blake3, sha256, xxh3"
        ))),
    }
}
