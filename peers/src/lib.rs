//! Code that the bare copiers share: opening both files.

use std::fs::File;
use std::io;
use std::path::PathBuf;

/// The buffer that is fastest on most filesystems.
pub const BUFFER_BYTES: usize = 128 << 10;

/// The files named by the first two arguments that are no flags: source and new destination.
///
/// # Errors
/// If they are not named or cannot be opened.
pub fn open_both(arguments: impl Iterator<Item = std::ffi::OsString>) -> io::Result<(File, File)> {
    let (source, destination) = both_paths(arguments)?;
    Ok((File::open(source)?, File::create_new(destination)?))
}

/// The paths themselves.
///
/// # Errors
/// If they are not named.
pub fn both_paths(
    mut arguments: impl Iterator<Item = std::ffi::OsString>,
) -> io::Result<(PathBuf, PathBuf)> {
    match (arguments.next(), arguments.next()) {
        (Some(source), Some(destination)) => Ok((source.into(), destination.into())),
        _ => Err(io::Error::other("name a source and a new destination")),
    }
}
