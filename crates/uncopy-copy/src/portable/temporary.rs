//! Writes a temporary file in the destination's directory until it gets the destination's name.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use super::decide::{self, AfterPlacing};
use super::names::{directory_of, temporary_path};
use super::{backup, native};
use crate::for_owner_alone;
use crate::options::Backup;
use uncopy_core::other_system;
use uncopy_core::{Error, MetadataPart, Note, Objection, Reason, Result};
use uncopy_os::native::{CopyCalls, Placing};

/// How a file gets its name.
pub(super) struct Ending<'a> {
    /// Whether it replaces a file that has the name.
    pub(super) replaces: bool,
    /// How such a file is kept.
    pub(super) backup: Option<&'a Backup>,
    /// Metadata that it gets when it has the name.
    pub(super) last: Last<'a>,
    /// Whether the name is to be on the device.
    pub(super) is_durable: bool,
}

/// Metadata that a file gets when it has its name.
#[derive(Default)]
pub(super) struct Last<'a> {
    /// File whose access control list it gets.
    pub(super) acl_of: Option<&'a File>,
    /// Permissions that it gets after that.
    pub(super) permissions: Option<Permissions>,
}

/// A file that is gone when this is dropped, unless it was put in place.
pub(super) struct Temporary<'a> {
    calls: &'a dyn CopyCalls,
    /// For whom it is made.
    destination: &'a Path,
    /// How it is made, which says who may open it.
    new: OpenOptions,
    file: Option<File>,
    path: PathBuf,
    is_placed: bool,
    /// Whether another run goes on with it if it is not put in place.
    stays: bool,
}

impl<'a> Temporary<'a> {
    /// Makes one; `permit` says who may open it.
    pub(super) fn create(
        calls: &'a dyn CopyCalls,
        destination: &'a Path,
        permit: impl Fn(&mut OpenOptions),
    ) -> Result<Temporary<'a>> {
        let mut new = File::options();
        permit(&mut new);
        new.read(true).write(true).create_new(true);
        let mut number = 0u64;
        loop {
            let path = temporary_path(destination, number);
            match calls.create(&new, &path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => {
                    return Err(failed("make a file in", directory_of(destination), error));
                }
                Ok(file) => {
                    let file = Some(file);
                    return Ok(Temporary::of(calls, destination, new, file, path));
                }
            }
        }
    }

    fn of(
        calls: &'a dyn CopyCalls,
        destination: &'a Path,
        new: OpenOptions,
        file: Option<File>,
        path: PathBuf,
    ) -> Temporary<'a> {
        Temporary { calls, destination, new, file, path, is_placed: false, stays: false }
    }

    /// Takes over one that an earlier run left.
    pub(super) fn left(
        calls: &'a dyn CopyCalls,
        destination: &'a Path,
        path: PathBuf,
        file: File,
    ) -> Temporary<'a> {
        let mut new = File::options();
        for_owner_alone(new.read(true).write(true).create_new(true));
        Temporary::of(calls, destination, new, Some(file), path)
    }

    /// Has the file stay where it is if it is not put in place.
    pub(super) fn stays_after_errors(&mut self, stays: bool) {
        self.stays = stays;
    }

    /// Path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file that exists, to be written where it is; `given` is its path for people.
    pub(super) fn existing(
        calls: &'a dyn CopyCalls,
        destination: &'a Path,
        given: &Path,
        found: &std::fs::Metadata,
    ) -> Result<Temporary<'a>> {
        let fail = |error| failed("open for writing", given, error);
        let file = calls.open_existing(destination).map_err(fail)?;
        let now = file.metadata().map_err(fail)?;
        if native::identity(&now) != native::identity(found) {
            let reason = Reason::Refused(Objection::FileReplaced);
            return Err(Error::new("write to", given, reason));
        }
        let (new, path) = (File::options(), destination.to_owned());
        let mut found = Temporary::of(calls, destination, new, Some(file), path);
        found.is_placed = true;
        Ok(found)
    }

    /// Whether it was there before.
    pub(super) fn is_in_place(&self) -> bool {
        self.is_placed
    }

    /// The open file.
    pub(super) fn file(&self) -> Result<&File> {
        self.file.as_ref().ok_or_else(|| {
            failed("write to", self.destination, io::Error::other("it is closed already"))
        })
    }

    /// Has a call make the file anew, which only makes new names. Its permissions stay as they were.
    pub(super) fn make_by(
        &mut self,
        make: impl FnOnce(&Path) -> io::Result<u64>,
    ) -> io::Result<u64> {
        let permissions = match &self.file {
            Some(file) => file.metadata()?.permissions(),
            None => return Err(io::Error::other("it is closed already")),
        };
        self.file = None;
        self.calls.remove(&self.path)?;
        let bytes = make(&self.path)?;
        let file = self.calls.open_made(&self.path)?;
        file.set_permissions(permissions)?;
        self.file = Some(file);
        Ok(bytes)
    }

    /// Makes the file empty again after a mechanism failed.
    pub(super) fn start_over(&mut self) -> Result<()> {
        let fail = |error| failed("make a file in", directory_of(self.destination), error);
        match self.file.take() {
            Some(file) => {
                self.calls.set_length(&file, 0).map_err(fail)?;
                self.file = Some(file);
            }
            None => {
                // A call that failed may have left a part.
                match self.calls.remove(&self.path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(fail(error));
                    }
                    _ => self.file = Some(self.calls.create(&self.new, &self.path).map_err(fail)?),
                }
            }
        }
        Ok(())
    }

    /// Gives it its name, in one step. Returns `None` if the name is taken and not to be replaced, and otherwise what it
    /// could not be given.
    pub(super) fn put_in_place(mut self, ending: Ending<'_>) -> Result<Option<Vec<Note>>> {
        let Ending { replaces, backup, last, is_durable } = ending;
        if !self.is_placed && !self.give_name(replaces, backup)? {
            return Ok(None);
        }
        let (mut notes, file) = (Vec::new(), self.file()?);
        let mut give = |what, given: io::Result<()>| {
            let note = given.map_err(|error| Note::NotKeptElsewhere { what, error: error.into() });
            notes.extend(note.err());
        };
        let Last { acl_of, permissions } = last;
        let is_changed = acl_of.is_some() || permissions.is_some();
        if let Some(from) = acl_of {
            give(MetadataPart::Acl, self.calls.copy_acl(from, file));
        }
        if let Some(permissions) = permissions {
            let what =
                if acl_of.is_some() { MetadataPart::Mode } else { MetadataPart::SetuidAndSetgid };
            give(what, self.calls.set_permissions(file, permissions));
        }
        if is_durable && is_changed {
            let flushed = self.calls.flush(file);
            flushed.map_err(|error| failed("flush", self.destination, error))?;
        }
        if is_durable {
            let directory = directory_of(self.destination);
            let flushed = self.calls.flush_name(self.file()?, directory);
            flushed.map_err(|error| failed("flush", directory, error))?;
        }
        Ok(Some(notes))
    }

    /// Returns `false` if the name is taken and not to be replaced.
    fn give_name(&mut self, replaces: bool, backup: Option<&Backup>) -> Result<bool> {
        let system = self.calls.system();
        if let Some(backup) = backup.filter(|_| replaces) {
            let kept = backup::keep(self.calls, self.destination, backup);
            kept.map_err(|error| failed("keep a backup of", self.destination, error))?;
        }
        let mut ended = Err(io::ErrorKind::Unsupported.into());
        for placing in decide::placings(system, replaces) {
            let file = self.file()?;
            let (from, to) = (&self.path, self.destination);
            ended = self.calls.place(*placing, file, from, to, replaces);
            let Err(error) = &ended else {
                // A further name was made, and the first one goes.
                self.is_placed = *placing != Placing::Link;
                break;
            };
            match decide::after_placing(system, *placing, replaces, error) {
                AfterPlacing::Taken => return Ok(false),
                AfterPlacing::Next => {}
                AfterPlacing::Final => break,
            }
        }
        let operation = if replaces { "put in place" } else { "link into place" };
        ended.map_err(|error| failed(operation, self.destination, error)).map(|()| true)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        self.file = None;
        if !self.is_placed && !self.stays {
            let _ = self.calls.remove(&self.path);
        }
    }
}

fn failed(operation: &'static str, subject: &Path, error: io::Error) -> Error {
    other_system::refused_by_destination(operation, subject, error)
}
