//! Gives a directory the metadata of its source, when all jobs that made entries in it are done.

use std::os::fd::AsFd;
use std::path::Path;

use crate::CopyOptions;
use crate::creation_defaults::Umask;
use crate::guarded_source::GuardedSource;
use crate::metadata::{self, Made};
use uncopy_core::{Error, Note, Result};
use uncopy_os::file;

/// Gives an open directory of the destination the metadata of one of the source, and flushes it if that is asked for.
/// `is_new`: a job made it. Returns what could not be given.
///
/// # Errors
/// The directory cannot be examined or flushed, or does not get an owner or mode that the options name.
pub fn finish_directory(
    source: &GuardedSource,
    destination: impl AsFd,
    path: &Path,
    is_new: bool,
    options: &CopyOptions,
) -> Result<Vec<Note>> {
    let destination = destination.as_fd();
    let stat = source.examine().map_err(|errno| Error::system("examine", path, errno))?;
    let umask = Umask::default();
    // Whoever made it gave it a mode of its own, so that it could be filled.
    let made = if is_new { Made::Private(&umask) } else { Made::Found };
    let attributes = source.attributes(options.preserve);
    let notes =
        metadata::apply_to_directory(destination, (&attributes, &stat), made, options.given())
            .map_err(|lacks| lacks.error(path))?;
    if options.durable {
        file::sync(destination).map_err(|e| Error::destination("flush", path, e))?;
    }
    Ok(notes)
}
