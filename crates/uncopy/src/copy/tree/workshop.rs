//! Where links and special files are made by whoever can change files of others.
//!
//! `symlinkat(2)` and `mknodat(2)` give no descriptor: owner, mode, attributes and times of what they make
//! are given by name, and whoever owns the directory can rename another file over that name. In a
//! directory that nobody else acts in, a name stays what it is; what is made there is renamed out when
//! all is done.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::directory::Identity;
use super::worker::Place;
use crate::copy::private::{self, Private};
use crate::copy::stale::Kind;
use crate::error::Errno;
use crate::sys::{Sys, directory};

/// A directory of one's own in one of the destination's; it goes when nothing more is made there.
#[derive(Debug)]
pub(super) struct Workshop {
    place: Identity,
    parent: Arc<OwnedFd>,
    made: Private,
}

impl Workshop {
    /// Makes one in the directory of an entry.
    pub(super) fn make(place: &Place<'_>) -> Sys<Workshop> {
        let parent = Arc::clone(&place.open.destination);
        let made = private::make(parent.as_fd(), place.target, Kind::File)?;
        let workshop = Workshop { place: place.directory.entered.destination, parent, made };
        match directory::is_empty(&workshop.made.fd)? {
            true => Ok(workshop),
            // Another one of the caller's took its name.
            false => Err(Errno::ESTALE),
        }
    }

    /// It serves the entries of this directory.
    pub(super) fn is_for(&self, place: &Place<'_>) -> bool {
        self.place == place.directory.entered.destination
    }

    /// Where to make things; `None`: the filesystem keeps nobody out.
    pub(super) fn directory(&self) -> Option<&OwnedFd> {
        self.made.is_own.then_some(&self.made.fd)
    }

    /// Removes it. Returns its name with the error if it stays.
    pub(super) fn close(mut self) -> Result<(), (OsString, Errno)> {
        let name = std::mem::take(&mut self.made.name);
        private::remove(&*self.parent, &name).map_err(|errno| (name, errno))
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        if !self.made.name.is_empty() {
            // Another error is told.
            let _ = private::remove(&*self.parent, &self.made.name);
        }
    }
}
