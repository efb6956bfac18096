//! See [`crate::follow`]: links are followed as the system follows them.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use crate::error::{Errno, Error, Result};

pub(crate) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| failed("open", path, &error))
}

pub(crate) fn append(path: &Path) -> Result<File> {
    let mut options = File::options();
    super::for_owner_alone(&mut options);
    let opened = options.read(true).append(true).create(true).open(path);
    opened.map_err(|error| failed("open", path, &error))
}

pub(crate) fn metadata(path: &Path) -> Result<Metadata> {
    std::fs::metadata(path).map_err(|error| failed("examine", path, &error))
}

fn failed(operation: &'static str, path: &Path, error: &io::Error) -> Error {
    Error::system(operation, path, Errno::from_raw(error.raw_os_error().unwrap_or(0)))
}
