//! Opens regular files and nothing else: a FIFO would be waited for, and a device may act when it is opened.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, OFlags};

use crate::UnitError;
use crate::error::FileRole;
use uncopy_core::Error;
use uncopy_os::{file, follow};

/// Opens a file to read it.
///
/// # Errors
/// It cannot be opened, or is no regular file.
pub(crate) fn open(path: &Path, role: FileRole) -> Result<File, UnitError> {
    let found = follow::stat(path).map_err(|stopped| stopped.error("open", path))?;
    if found.file_type() != FileType::RegularFile {
        return Err(UnitError::NotRegular { file: path.to_owned(), role });
    }
    // Something else may have its name by now.
    let opened = follow::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY);
    check(opened.map_err(|stopped| stopped.error("open", path))?, path, role)
}

/// Checks that what was opened is a regular file.
///
/// # Errors
/// It is none, or cannot be examined.
pub(crate) fn check(opened: OwnedFd, path: &Path, role: FileRole) -> Result<File, UnitError> {
    match file::stat(&opened) {
        Ok(found) if found.file_type() == FileType::RegularFile => Ok(File::from(opened)),
        Ok(_) => Err(UnitError::NotRegular { file: path.to_owned(), role }),
        Err(errno) => Err(Error::system("examine", path, errno).into()),
    }
}
