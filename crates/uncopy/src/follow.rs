//! Files that a user names, opened as copies open them.
//!
//! On Linux a symbolic link at the end of a path is followed as if `fs.protected_symlinks` were 1
//! (proc_sys_fs(5)), whatever it is: where it lies in a sticky directory that everybody may write to, only
//! if it belongs to the effective user or to the directory's owner. Links before the last component are
//! resolved without that question. Elsewhere the system's own rules hold.

use std::fs::{File, Metadata};
use std::path::Path;

use crate::error::{Errno, Error, Result};

/// Opens a file to read it.
///
/// # Errors
/// Those of `open(2)`, and [`Reason::ForeignLink`](crate::Reason::ForeignLink).
pub fn open(path: impl AsRef<Path>) -> Result<File> {
    of_system::open(path.as_ref())
}

/// Opens a file to read it and to add to its end. One that is not there is made, for its owner alone.
///
/// # Errors
/// As [`open`].
pub fn append(path: impl AsRef<Path>) -> Result<File> {
    of_system::append(path.as_ref())
}

/// Facts about what a path leads to.
///
/// # Errors
/// As [`open`].
pub fn metadata(path: impl AsRef<Path>) -> Result<Metadata> {
    of_system::metadata(path.as_ref())
}

fn failed<'a>(operation: &'static str, path: &'a Path) -> impl Fn(std::io::Error) -> Error + 'a {
    let errno = |error: &std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
    move |error| Error::system(operation, path, errno(&error))
}

#[cfg(target_os = "linux")]
mod of_system {
    use std::os::unix::ffi::OsStrExt;

    use rustix::fs::{CWD, OFlags};

    use super::{File, Metadata, Path, Result, failed};
    use crate::sys::follow;

    pub(super) fn open(path: &Path) -> Result<File> {
        let opened = follow::open(path, OFlags::RDONLY);
        opened.map(File::from).map_err(|stopped| stopped.error("open", path))
    }

    pub(super) fn append(path: &Path) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        let opened = follow::open_at(CWD, path.as_os_str(), flags, 0o600);
        opened.map(File::from).map_err(|stopped| stopped.error("open", path))
    }

    pub(super) fn metadata(path: &Path) -> Result<Metadata> {
        let is_directory = path.as_os_str().as_bytes().ends_with(b"/");
        // A slash at its end would have a link before it followed.
        let name = path.components().as_path();
        let found = name.symlink_metadata().map_err(failed("examine", path))?;
        if !found.is_symlink() && (found.is_dir() || !is_directory) {
            return Ok(found);
        }
        let opened = follow::open(path, OFlags::PATH);
        let opened = opened.map_err(|stopped| stopped.error("examine", path))?;
        File::from(opened).metadata().map_err(failed("examine", path))
    }
}

#[cfg(not(target_os = "linux"))]
mod of_system {
    use super::{File, Metadata, Path, Result, failed};

    pub(super) fn open(path: &Path) -> Result<File> {
        File::open(path).map_err(failed("open", path))
    }

    pub(super) fn append(path: &Path) -> Result<File> {
        let mut options = File::options();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.read(true).append(true).create(true).open(path).map_err(failed("open", path))
    }

    pub(super) fn metadata(path: &Path) -> Result<Metadata> {
        std::fs::metadata(path).map_err(failed("examine", path))
    }
}
