//! Common parts of the bare copiers: opens both files.

use std::fs::File;
use std::io;
use std::path::PathBuf;

/// Size of the buffer; the fastest on most filesystems.
pub const BUFFER_BYTES: usize = 128 << 10;

/// Opens the files named by the first two arguments that are not flags: source and new destination.
///
/// # Errors
/// If an argument is missing, or a file cannot be opened.
pub fn open_both(arguments: impl Iterator<Item = std::ffi::OsString>) -> io::Result<(File, File)> {
    let (source, destination) = both_paths(arguments)?;
    Ok((File::open(source)?, File::create_new(destination)?))
}

/// Returns the two paths.
///
/// # Errors
/// If an argument is missing.
pub fn both_paths(
    mut arguments: impl Iterator<Item = std::ffi::OsString>,
) -> io::Result<(PathBuf, PathBuf)> {
    match (arguments.next(), arguments.next()) {
        (Some(source), Some(destination)) => Ok((source.into(), destination.into())),
        _ => Err(io::Error::other("name a source and a new destination")),
    }
}
