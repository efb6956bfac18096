//! What is no regular file and no directory, and further names of a file: made under a temporary
//! name where something is replaced, and at once where nothing is there.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, OFlags};

use super::ask::Asked;
use super::decide::Decision;
use super::directory::identity;
use super::links::First;
use super::worker::{Place, Worker};
use crate::copy::job::{Action, EntryKind, Outcome};
use crate::copy::stale::{self, Noted};
use crate::copy::{Existing, Preserve, metadata};
use crate::error::{Errno, Error, Result};
use crate::sys::file::Stat;
use crate::sys::{Sys, directory, file, name};

impl Worker<'_, '_> {
    /// Makes a symbolic link that leads where the source's does.
    pub(super) fn make_symlink(&mut self, place: &Place<'_>) {
        let read = directory::read_link(&place.open.source, place.name)
            .map_err(|errno| Error::system("read the link", place.source(), errno));
        let made = read.and_then(|target| {
            let to = &*place.open.destination;
            self.make_entry(place, EntryKind::Symlink, |name| {
                directory::make_link(&target, to, name)
            })
        });
        self.finish_made(place, EntryKind::Symlink, made);
    }

    /// Makes a FIFO, socket or device file like the source's.
    pub(super) fn make_special(&mut self, place: &Place<'_>) {
        if !self.job.options.specials {
            let reason = "it is no file, directory or link (--specials makes it anew)";
            return self.finish(place, EntryKind::Special, Outcome::Skipped { reason });
        }
        let found = directory::stat_name(&place.open.source, place.name)
            .map_err(|errno| Error::system("examine", place.source(), errno));
        let made = found.and_then(|stat| {
            let kind = stat.file_type();
            if matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink) {
                return Err(super::enter::changed_kind(place, kind));
            }
            let to = &*place.open.destination;
            let mode = stat.permissions() & 0o777;
            self.make_entry(place, EntryKind::Special, |name| {
                directory::make_special(to, name, kind, mode, stat.special)
            })
        });
        self.finish_made(place, EntryKind::Special, made);
    }

    fn finish_made(&mut self, place: &Place<'_>, kind: EntryKind, made: Result<Outcome>) {
        match made {
            Ok(outcome) => self.finish(place, kind, outcome),
            Err(error) => self.fail(place, kind, error),
        }
    }

    /// Makes an entry by `make`, gives it the source's metadata, and puts it in place.
    fn make_entry(
        &self,
        place: &Place<'_>,
        kind: EntryKind,
        make: impl Fn(&OsStr) -> Sys<()>,
    ) -> Result<Outcome> {
        let fail = |errno| Error::destination("make", place.destination(), errno);
        let stat = directory::stat_name(&place.open.source, place.name)
            .map_err(|errno| Error::system("examine", place.source(), errno))?;
        if let Asked::Done(outcome) = self.ask(place, kind, stat.modified)? {
            return Ok(outcome);
        }
        if place.directory.entered.is_unseen() {
            make(place.target).map_err(fail)?;
            return Ok(Outcome::Made { notes: self.give_by_name(place, place.target, &stat) });
        }
        let temporary = Temporary::new(place, make).map_err(fail)?;
        let notes = self.give_by_name(place, &temporary.name, &stat);
        let existing = self.job.copy_options(&place.directory.entered).existing;
        match temporary.put_in_place(existing).map_err(fail)? {
            true => Ok(Outcome::Made { notes }),
            false => Ok(Outcome::Skipped { reason: "the destination exists" }),
        }
    }

    /// Owner, ACL, mode, attributes and times of what is no regular file; a link has neither ACL nor
    /// mode, and no `user.*` attributes (`xattr(7)`).
    fn give_by_name(&self, place: &Place<'_>, name: &OsStr, source: &Stat) -> Vec<String> {
        let preserve = self.job.options.copy.preserve;
        let to = &*place.open.destination;
        let mut notes = Vec::new();
        let mut note = |what: &str, errno: Errno| {
            notes.push(format!("{what} could not be kept ({errno})"));
        };
        if preserve.ownership
            && let Err(errno) = directory::set_owner(to, name, Some(source.uid), Some(source.gid))
        {
            note("owner and group", errno);
        }
        let is_link = source.file_type() == FileType::Symlink;
        let given = match is_link {
            true => Preserve { mode: false, acl: false, ..preserve },
            false => preserve,
        };
        let mut kept = Vec::new();
        if given.mode || given.acl || given.xattr {
            match give_to_handle(place, name, source, given) {
                Ok(notes) => kept = notes,
                Err(errno) if is_link => note("extended attributes", errno),
                Err(errno) => note("mode and ACL", errno),
            }
        }
        if preserve.timestamps
            && let Err(errno) = directory::set_times(to, name, source.accessed, source.modified)
        {
            note("the times", errno);
        }
        notes.extend(kept);
        notes
    }

    /// Makes the destination's name another one of the file at `first`.
    pub(super) fn make_hard_link(&self, place: &Place<'_>, first: &First) -> Result<Linking> {
        let stat = directory::stat_name(&place.open.source, place.name)
            .map_err(|errno| Error::system("examine", place.source(), errno))?;
        let (found, decision) = match self.ask(place, EntryKind::File, stat.modified)? {
            Asked::Go { found, decision } => (found, decision),
            Asked::Done(Outcome::Planned { .. }) => {
                let action = Action::Link;
                return Ok(Linking::Done(Outcome::Planned { action, mechanism: None }));
            }
            Asked::Done(outcome) => return Ok(Linking::Done(outcome)),
        };
        let fail =
            |errno| Error::destination("find the first name again", first.destination(), errno);
        let root = first.root.open_destination()?;
        let above: Vec<&OsStr> = first.path.parent().into_iter().flat_map(Path::iter).collect();
        let from = directory::open_beneath(&*root, &above, true).map_err(fail)?;
        let name = first.path.file_name().unwrap_or_default();
        let to = &*place.open.destination;
        let fail = |errno| Error::destination("link", place.destination(), errno);
        let linked = || Linking::Done(Outcome::Linked { to: first.destination() });
        let make = |new: &OsStr| directory::hard_link(&from, name, to, new);
        if decision == Decision::Make {
            match make(place.target) {
                Ok(()) => return Ok(linked()),
                Err(errno) if cannot_link(errno) => return Ok(Linking::Refused(errno)),
                Err(Errno::EEXIST) if !place.directory.entered.fresh => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
        let copy = directory::stat_name(&from, name).map_err(fail)?;
        if found.is_some_and(|found| identity(&found.stat) == identity(&copy)) {
            return Ok(linked());
        }
        let temporary = match Temporary::new(place, make) {
            Err(errno) if cannot_link(errno) => return Ok(Linking::Refused(errno)),
            other => other.map_err(fail)?,
        };
        let existing = self.job.copy_options(&place.directory.entered).existing;
        match temporary.put_in_place(existing).map_err(fail)? {
            true => Ok(linked()),
            false => Ok(Linking::Done(Outcome::Skipped { reason: "the destination exists" })),
        }
    }
}

/// What came of a further name of a file.
pub(super) enum Linking {
    Done(Outcome),
    /// The filesystem cannot link, and a copy has to do.
    Refused(Errno),
}

/// What the record of that copy says.
pub(super) fn copied_for(errno: Errno) -> String {
    format!("a file of its own: the filesystem refused a hard link to the copy ({errno})")
}

/// Too many links, none at all on this filesystem, another filesystem below the same tree, or a
/// file that one may not link to (`link(2)`).
fn cannot_link(errno: Errno) -> bool {
    matches!(errno, Errno::EMLINK | Errno::EPERM | Errno::EXDEV | Errno::EOPNOTSUPP)
}

/// ACL, attributes and mode; what of it could not be given.
fn give_to_handle(
    place: &Place<'_>,
    name: &OsStr,
    source: &Stat,
    preserve: Preserve,
) -> Sys<Vec<String>> {
    // Either may have been replaced by something with more rights.
    let open = |directory: &OwnedFd, name: &OsStr| {
        let handle = name::open_existing(directory, name, OFlags::PATH)?;
        match file::stat(&handle)?.file_type() == source.file_type() {
            true => Ok(handle),
            false => Err(Errno::ESTALE),
        }
    };
    let handle = open(&place.open.destination, name)?;
    let from = open(&place.open.source, place.name)?;
    let mut notes = metadata::apply_to_handle(handle.as_fd(), from.as_fd(), preserve);
    if preserve.mode
        && let Err(errno) = directory::set_permissions_of_handle(&handle, source.permissions())
    {
        notes.push(format!("the mode could not be kept ({errno})"));
    }
    Ok(notes)
}

/// An entry under a temporary name, which is removed unless it is put in place.
struct Temporary<'a> {
    place: &'a Place<'a>,
    name: OsString,
    noted: Noted<'a>,
}

impl<'a> Temporary<'a> {
    fn new(place: &'a Place<'a>, make: impl Fn(&OsStr) -> Sys<()>) -> Sys<Temporary<'a>> {
        let register = place.directory.register();
        register.prepare();
        let name = loop {
            let name = stale::temporary_name(place.target, stale::Kind::File)?;
            match make(&name) {
                Err(Errno::EEXIST) => {}
                other => break other.map(|()| name)?,
            }
        };
        let path = || place.directory.path_from_root();
        let noted = directory::stat_name(&*place.open.destination, &name)
            .map_or(Noted::NONE, |stat| register.note(path, &name, &stat));
        Ok(Temporary { place, name, noted })
    }

    /// `false`: the name was taken meanwhile, and is to be left alone. A rename from one name of a
    /// file to another does nothing (`rename(2)`), and what is left is removed.
    fn put_in_place(self, existing: Existing) -> Sys<bool> {
        let to = &*self.place.open.destination;
        let renamed = match existing {
            Existing::Keep => name::rename_new(to, &self.name, self.place.target),
            _ => name::rename(to, &self.name, self.place.target),
        };
        match renamed {
            Err(Errno::EEXIST) if existing == Existing::Keep => Ok(false),
            other => other.map(|()| true),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        match name::unlink(&*self.place.open.destination, &self.name) {
            Ok(()) | Err(Errno::ENOENT) => {}
            // Left for the next run to remove.
            Err(_) => std::mem::replace(&mut self.noted, Noted::NONE).leave(),
        }
    }
}
