//! Puts a finished file in place where a guard is asked: nothing is replaced but what it expects.

use std::ffi::{OsStr, OsString};
use std::mem;
use std::os::fd::OwnedFd;

use super::{Commit, Place, Staging};
use crate::destination::Destination;
use crate::guard::{Guarded, NotNamed, Replacing, not_free, take_free_name};
use crate::stale::Noted;
use uncopy_core::Result;
use uncopy_os::name;

impl<'a> Staging<'a> {
    /// Wraps a file with this name that several jobs write to.
    pub(crate) fn of_parts(
        destination: &'a Destination<'a>,
        fd: OwnedFd,
        temporary: &OsStr,
    ) -> Staging<'a> {
        let place = Place::Temporary(temporary.to_owned(), Noted::NONE);
        Staging::new(destination, fd, place)
    }

    /// Leaves a temporary name that it still has.
    pub(crate) fn keep(mut self) {
        self.place = Place::Final;
    }

    /// Puts the finished file in place while the guard allows it.
    pub(super) fn commit_guarded(&mut self, guarded: &Guarded<'_>) -> Result<Commit> {
        let path = self.destination.given;
        guarded
            .give_name(|| self.commit_expected(guarded))
            .map(|()| Commit::Done)
            .map_err(|not_named| not_named.error("put in place", path))
    }

    fn commit_expected(&mut self, guarded: &Guarded<'_>) -> Result<(), NotNamed> {
        let temporary = match mem::replace(&mut self.place, Place::Final) {
            Place::Final | Place::Private => return Ok(()),
            Place::Unnamed => None,
            Place::NamedLate(name) => name.into_inner().map(|name| (name, Noted::NONE)),
            Place::Temporary(name, noted) => Some((name, noted)),
        };
        let (directory, name) = (self.destination.directory(), self.destination.name());
        let (found, temporary) = match (guarded.look(directory, name), temporary) {
            (Ok(None), None) if !self.is_flushed_when_named() => {
                return name::link_unnamed(&self.fd, directory, name).map_err(not_free);
            }
            (Ok(found), Some(temporary)) => (Ok(found), temporary),
            (Ok(found), None) => (Ok(found), self.name_temporarily()?),
            (Err(refused), None) => return Err(refused),
            (Err(refused), Some(temporary)) => (Err(refused), temporary),
        };
        let named = found.and_then(|found| {
            let temporary = &*temporary.0;
            let replacing = Replacing { from: directory, temporary, directory, name };
            match found {
                Some(found) => replacing.replace(&found),
                None => take_free_name(replacing).map_err(not_free),
            }
        });
        self.keep_temporary(temporary.0, temporary.1, named)
    }

    /// Has a file that did not get its name removed on drop.
    fn keep_temporary(
        &mut self,
        temporary: OsString,
        noted: Noted<'a>,
        named: Result<(), NotNamed>,
    ) -> Result<(), NotNamed> {
        match named {
            Ok(()) => drop(noted),
            Err(_) => self.place = Place::Temporary(temporary, noted),
        }
        named
    }
}
