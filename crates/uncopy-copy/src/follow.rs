//! Opens files that a user names, in the same way as copies open them.
//!
//! On Linux a symbolic link at the end of a path is followed as if `fs.protected_symlinks` were 1
//! (proc_sys_fs(5)), whatever it is: where it lies in a sticky directory that everybody may write to, only
//! if it belongs to the effective user or to the directory's owner. That holds for `link/.` too. Links before the last
//! component are resolved without that question. Elsewhere the system's own rules hold.

use std::fs::{File, Metadata};
use std::path::Path;

use crate::following;
use uncopy_core::Result;

/// Opens a file to read it.
///
/// # Errors
/// Those of `open(2)`, and [`Reason::ForeignLink`](uncopy_core::Reason::ForeignLink).
pub fn open(path: impl AsRef<Path>) -> Result<File> {
    following::open(path.as_ref())
}

/// Opens a file to read it and to add to its end. One that is not there is made, for its owner alone.
///
/// # Errors
/// As [`open`].
pub fn append(path: impl AsRef<Path>) -> Result<File> {
    following::append(path.as_ref())
}

/// Facts about what a path leads to.
///
/// # Errors
/// As [`open`].
pub fn metadata(path: impl AsRef<Path>) -> Result<Metadata> {
    following::metadata(path.as_ref())
}
