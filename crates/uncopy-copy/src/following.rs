//! See [`crate::follow`].

use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, OFlags};

use uncopy_core::{Errno, Error, Result};
use uncopy_os::follow;

pub(crate) fn open(path: &Path) -> Result<File> {
    let opened = follow::open(path, OFlags::RDONLY);
    opened.map(File::from).map_err(|stopped| stopped.error("open", path))
}

pub(crate) fn append(path: &Path) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
    let opened = follow::open_at(CWD, path.as_os_str(), flags, 0o600);
    opened.map(File::from).map_err(|stopped| stopped.error("open", path))
}

/// Returns device and inode of a file.
pub(crate) fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    Some((metadata.dev(), metadata.ino()))
}

pub(crate) fn metadata(path: &Path) -> Result<Metadata> {
    let fail = |error: std::io::Error| {
        Error::system("examine", path, Errno::from_raw(error.raw_os_error().unwrap_or(0)))
    };
    // A slash at its end would have a link before it followed.
    let is_directory = path.as_os_str().as_bytes().ends_with(b"/");
    let found = path.components().as_path().symlink_metadata().map_err(fail)?;
    if !found.is_symlink() && (found.is_dir() || !is_directory) {
        return Ok(found);
    }
    let opened = follow::open(path, OFlags::PATH);
    let opened = opened.map_err(|stopped| stopped.error("examine", path))?;
    File::from(opened).metadata().map_err(fail)
}
