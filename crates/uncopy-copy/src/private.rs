//! Private directories inside directories of other users, who may rename them at any time. They are
//! identified by descriptor, and only the owner can act in them: mode 0700.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::stale::{self, Kind, Noted, Noting};
use uncopy_core::Errno;
use uncopy_os::file::{self, Stat};
use uncopy_os::{Sys, directory, name};

/// Maximum number of attempts: another directory may take the name before it is opened.
const ATTEMPTS: usize = 8;

/// New private directory.
#[derive(Debug)]
pub(crate) struct Private {
    pub(crate) fd: OwnedFd,
    pub(crate) name: OsString,
    pub(crate) stat: Stat,
    /// Whether it belongs to the caller and is closed to others. If not, the filesystem has no owners,
    /// or its server decides about them.
    pub(crate) is_own: bool,
}

/// Creates an empty directory under a temporary name, for an entry that will be called `destination`.
///
/// The opened directory is compared with the created one: in between, the owner of `parent` can put
/// something else there, including another directory of the caller. An empty one serves as well.
/// `ESTALE`: that happened at every attempt. The name is recorded before it exists, and the directory's
/// identity as soon as it is known; the directory is locked, so that other runs see that it is in use.
pub(crate) fn make<'a>(
    parent: BorrowedFd<'_>,
    destination: &OsStr,
    kind: Kind,
    noting: Noting<'a>,
) -> Sys<(Private, Noted<'a>)> {
    stale::check_directory(parent)?;
    for _ in 0..ATTEMPTS {
        let name = stale::temporary_name(destination, kind)?;
        let noted = noting.intend(&name);
        match directory::make(parent, &name, 0o700) {
            Err(Errno::EEXIST) => continue,
            made => made?,
        }
        let opened = open_made(parent, &name).and_then(|fd| {
            let locked = file::try_lock(&fd);
            let stat = file::stat(&fd)?;
            let is_empty = directory::is_empty(&fd)?;
            directory::rewind_to(&fd, 0)?;
            let is_narrow = stat.permissions() & 0o700 != 0o700 && is_own(&stat) && is_empty;
            if is_narrow && name::umask().is_some_and(|umask| umask & 0o700 != 0) {
                // Nothing could be made in it.
                file::set_permissions(&fd, 0o700)?;
            }
            Ok((locked, is_empty, fd, stat))
        });
        let opened = match opened {
            // Another run is removing it as a leftover.
            Ok((locked, _, _, stat)) if locked == Err(Errno::EAGAIN) || stat.links == 0 => {
                remove(parent, &name)?;
                continue;
            }
            // Another directory, with contents.
            Ok((_, false, ..)) => continue,
            // All other answers: a filesystem without locks.
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

/// Opens a directory that was just created. The umask may keep its owner from reading it, which is put right for an empty
/// directory of the caller.
fn open_made(parent: BorrowedFd<'_>, name: &OsStr) -> Sys<OwnedFd> {
    let refused = match directory::open_child(parent, name) {
        Err(Errno::EACCES) if name::umask().is_some_and(|umask| umask & 0o400 != 0) => {
            Errno::EACCES
        }
        opened => return opened,
    };
    let handle = directory::open_child_path(parent, name)?;
    let made = file::stat(&handle)?;
    if !is_own(&made) || made.permissions() & 0o400 != 0 {
        return Err(refused);
    }
    directory::set_permissions_of_handle(&handle, 0o700)?;
    let opened = directory::open_child(parent, name).and_then(|fd| {
        let is_same = file::stat(&fd)?.is_same_file(&made);
        let is_empty = is_same && directory::is_empty(&fd)?;
        directory::rewind_to(&fd, 0)?;
        if is_empty { Ok(fd) } else { Err(Errno::ENOTEMPTY) }
    });
    if opened.is_err() {
        // Somebody put another directory of the caller there.
        let _ = directory::set_permissions_of_handle(&handle, made.permissions());
    }
    opened
}

/// Removes an empty directory, or nothing: it may have been renamed, and something else may have its
/// name.
pub(crate) fn remove(parent: impl AsFd, name: &OsStr) -> Sys<()> {
    match try_to_remove(parent, name) {
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ENOTEMPTY | Errno::EEXIST) => Ok(()),
        other => other,
    }
}

/// Removes an open directory. An error: it still has its name. One that was renamed cannot be found
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
    // Tried twice: no later code removes it.
    directory::remove(&parent, name).or_else(|_| directory::remove(&parent, name))
}

/// Whether only the caller can act in it. An ACL grants no more than the group's bits (acl(5),
/// mask).
fn is_own(stat: &Stat) -> bool {
    stat.uid == file::effective_uid() && stat.permissions() & 0o077 == 0
}

/// Whether files that the caller creates in a directory belong to the caller.
fn gives_ownership(parent: BorrowedFd<'_>, destination: &OsStr) -> bool {
    let made = name::create_unnamed(parent, 0o600).or_else(|_| {
        let name = stale::temporary_name(destination, Kind::File)?;
        let file = name::create_new(parent, &name, 0o600)?;
        name::unlink(parent, &name).map(|()| file)
    });
    made.and_then(file::stat).is_ok_and(|stat| is_own(&stat))
}
