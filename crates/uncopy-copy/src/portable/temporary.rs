//! Writes a temporary file in the destination's directory until it gets the destination's name.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use uncopy_core::other_system;
use uncopy_core::{Error, Result};

/// A file that is gone when this is dropped, unless it was put in place.
pub(super) struct Temporary<'a> {
    /// For whom it is made.
    destination: &'a Path,
    file: Option<File>,
    path: Option<PathBuf>,
}

impl<'a> Temporary<'a> {
    /// Makes one; `permit` says who may open it.
    pub(super) fn create(
        destination: &'a Path,
        permit: impl Fn(&mut OpenOptions),
    ) -> Result<Temporary<'a>> {
        let mut number = 0u64;
        loop {
            let name = format!(".uncopy-{}-{number}.tmp", std::process::id());
            let path = destination.with_file_name(name);
            let mut new = File::options();
            permit(&mut new);
            match new.write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => {
                    let parent = destination.parent().filter(|path| !path.as_os_str().is_empty());
                    let parent = parent.unwrap_or(Path::new("."));
                    return Err(failed("make a file in", parent, error));
                }
                Ok(file) => {
                    return Ok(Temporary { destination, file: Some(file), path: Some(path) });
                }
            }
        }
    }

    /// The open file.
    pub(super) fn file(&self) -> Result<&File> {
        self.file.as_ref().ok_or_else(|| {
            failed("write to", self.destination, io::Error::other("it is closed already"))
        })
    }

    /// Gives it its name, in one step. Returns `false` if the name is taken and `is_kept` is set.
    pub(super) fn put_in_place(mut self, destination: &Path, is_kept: bool) -> Result<bool> {
        // Not every system renames a file that is open.
        self.file = None;
        let Some(path) = &self.path else { return Ok(true) };
        if is_kept {
            // The one call of the standard library that never replaces; its first name then goes.
            return match fs::hard_link(path, destination) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(failed("link into place", destination, error)),
            };
        }
        fs::rename(path, destination)
            .map_err(|error| failed("put in place", destination, error))?;
        self.path = None;
        Ok(true)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        self.file = None;
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

fn failed(operation: &'static str, subject: &Path, error: io::Error) -> Error {
    other_system::refused_by_destination(operation, subject, error)
}
