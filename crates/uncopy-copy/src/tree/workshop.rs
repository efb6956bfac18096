//! Makes links and special files in a private directory if the process can change files of other
//! users.
//!
//! `symlinkat(2)` and `mknodat(2)` return no descriptor, so owner, mode, attributes and times are
//! set by name, and the owner of the directory can rename another file over that name. In a private
//! directory a name cannot be replaced; each entry is renamed out of it when it is complete.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::directory::{Directory, Open};
use super::place::Place;
use crate::private::{self, Private};
use crate::remove;
use crate::stale::Kind;
use uncopy_core::Errno;
use uncopy_os::Sys;

/// A private directory in a directory of the destination; it is removed when nothing more is made
/// in it.
#[derive(Debug)]
pub(super) struct Workshop {
    /// Its parent directory.
    directory: Arc<Directory>,
    parent: Arc<OwnedFd>,
    made: Private,
    /// Its slot in the record of the tree.
    slot: Option<usize>,
}

impl Workshop {
    /// Makes one in the directory of an entry.
    pub(super) fn make(place: &Place<'_>) -> Sys<Workshop> {
        let parent = Arc::clone(&place.open.destination);
        let path = || place.directory.path_from_root();
        let noting = place.directory.noting(&path);
        let (made, noted) = private::make(parent.as_fd(), place.target, Kind::File, noting)?;
        let (directory, slot) = (Arc::clone(place.directory), noted.into_slot());
        Ok(Workshop { directory, parent, made, slot })
    }

    /// Makes one in a directory, for no entry.
    pub(super) fn in_directory(directory: &Arc<Directory>, open: &Arc<Open>) -> Sys<Workshop> {
        Workshop::make(&Place::new(directory, open, OsStr::new("")))
    }

    /// Returns the directory itself, even if other users may act in it.
    pub(super) fn opened(&self) -> &OwnedFd {
        &self.made.fd
    }

    /// Removes it with its contents.
    pub(super) fn empty(&self) -> Sys<()> {
        remove::held(&*self.parent, &self.made.name, &self.made.fd)
    }

    /// Whether it serves the entries of this directory.
    pub(super) fn is_for(&self, place: &Place<'_>) -> bool {
        Arc::ptr_eq(&self.directory, place.directory)
    }

    /// Returns the directory to make entries in; `None`: the filesystem cannot make it private.
    pub(super) fn directory(&self) -> Option<&OwnedFd> {
        self.made.is_own.then_some(&self.made.fd)
    }

    /// Removes it. If it stays, returns its parent directory and its name with the error.
    pub(super) fn close(mut self) -> Result<(), (Arc<Directory>, OsString, Errno)> {
        let name = std::mem::take(&mut self.made.name);
        self.take_back(&name).map_err(|errno| (Arc::clone(&self.directory), name, errno))
    }

    /// Removes it, or keeps its record for another run.
    fn take_back(&self, name: &OsStr) -> Sys<()> {
        let register = self.directory.register();
        let gone = private::take_back(&*self.parent, name, &self.made.stat);
        match gone {
            Ok(()) => register.free(self.slot),
            Err(_) => register.keep(),
        }
        gone
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        if !self.made.name.is_empty() {
            // Another error is reported.
            let _ = self.take_back(&self.made.name);
        }
    }
}
