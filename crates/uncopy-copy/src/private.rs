//! Directories of one's own in a directory of somebody else's, who may rename them at any time. They are
//! known by their descriptor, and nobody else acts in them: mode 0700.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::stale::{self, Kind, Noted, Noting};
use uncopy_core::Errno;
use uncopy_os::file::{self, Stat};
use uncopy_os::{Sys, directory, name};

/// So often another directory may take the name before it is opened.
const ATTEMPTS: usize = 8;

/// A new directory.
#[derive(Debug)]
pub(crate) struct Private {
    pub(crate) fd: OwnedFd,
    pub(crate) name: OsString,
    pub(crate) stat: Stat,
    /// It is the caller's and closed to others. Else the filesystem has no owners, or its server
    /// decides who is one.
    pub(crate) is_own: bool,
}

/// Makes an empty directory under a temporary name, for what is to be called `destination`.
///
/// What is opened under the name is held against what was made: between the two whoever owns `parent` can
/// put something else there, another directory of the caller's too. One that is empty serves as well.
/// `ESTALE`: they did, each time. Its name is noted before it is there, and which directory it is as soon as
/// that is known; it is locked, so that other runs see that it is no leftover.
pub(crate) fn make<'a>(
    parent: BorrowedFd<'_>,
    destination: &OsStr,
    kind: Kind,
    noting: Noting<'a>,
) -> Sys<(Private, Noted<'a>)> {
    for _ in 0..ATTEMPTS {
        let name = stale::temporary_name(destination, kind)?;
        let noted = noting.intend(&name);
        match directory::make(parent, &name, 0o700) {
            Err(Errno::EEXIST) => continue,
            made => made?,
        }
        let opened = directory::open_child(parent, &name).and_then(|fd| {
            let locked = file::try_lock(&fd);
            let stat = file::stat(&fd)?;
            let is_empty = directory::is_empty(&fd)?;
            directory::rewind_to(&fd, 0)?;
            Ok((locked, is_empty, fd, stat))
        });
        let opened = match opened {
            // Another run removes it as a leftover, or is about to.
            Ok((locked, _, _, stat)) if locked == Err(Errno::EAGAIN) || stat.links == 0 => {
                remove(parent, &name)?;
                continue;
            }
            // Another one, with something in it.
            Ok((_, false, ..)) => continue,
            // Any other answer: a filesystem without locks.
            Ok((_, true, fd, stat)) => Ok((is_own(&stat), fd, stat)),
            Err(errno) => Err(errno),
        };
        match opened {
            Ok((is_own, fd, stat)) if is_own || !gives_ownership(parent, destination) => {
                let noted = noting.became(noted, &name, &stat);
                return Ok((Private { fd, name, stat, is_own }, noted));
            }
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR) => remove(parent, &name)?,
            Err(errno) => {
                let _ = remove(parent, &name);
                return Err(errno);
            }
        }
    }
    Err(Errno::ESTALE)
}

/// Removes an empty directory, or nothing, whatever has the name by now: it may have been renamed, and
/// something else have taken its name.
pub(crate) fn remove(parent: impl AsFd, name: &OsStr) -> Sys<()> {
    match try_to_remove(parent, name) {
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ENOTEMPTY | Errno::EEXIST) => Ok(()),
        other => other,
    }
}

/// Removes a directory that is open. An error: it still has its name. One that was renamed nobody finds
/// again.
pub(crate) fn take_back(parent: impl AsFd, name: &OsStr, made: &Stat) -> Sys<()> {
    let Err(errno) = try_to_remove(&parent, name) else { return Ok(()) };
    match directory::stat_name(&parent, name) {
        Ok(found) if !found.is_same_file(made) => Ok(()),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(()),
        _ => Err(errno),
    }
}

fn try_to_remove(parent: impl AsFd, name: &OsStr) -> Sys<()> {
    // Once more, since nobody else would come back for it.
    directory::remove(&parent, name).or_else(|_| directory::remove(&parent, name))
}

/// Only the caller can act in it. An ACL gives nobody more than the group's bits (acl(5), mask).
fn is_own(stat: &Stat) -> bool {
    stat.uid == file::effective_uid() && stat.permissions() & 0o077 == 0
}

/// Whether what the caller makes in a directory is the caller's.
fn gives_ownership(parent: BorrowedFd<'_>, destination: &OsStr) -> bool {
    let made = name::create_unnamed(parent, 0o600).or_else(|_| {
        let name = stale::temporary_name(destination, Kind::File)?;
        let file = name::create_new(parent, &name, 0o600)?;
        name::unlink(parent, &name).map(|()| file)
    });
    made.and_then(file::stat).is_ok_and(|stat| is_own(&stat))
}
