//! Defines the guard of a job: what its caller expects of each entry of source and destination, and whether the job may
//! still give names.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::CopyOptions;
use crate::options::Preserve;
use uncopy_core::{Errno, Error, Objection, Reason};
use uncopy_os::file::{self, SETUID_SETGID, Stat};
use uncopy_os::{Sys, directory, name};

/// Answers of the caller about the entries of a job, which are paths from the root of the source. Asked by all workers.
pub trait Guard: Sync {
    /// Returns what of an entry of the source is not as expected: its size, for example.
    fn source_difference(&self, entry: &Path, found: &Stat) -> Option<&'static str>;

    /// Whether this is what the caller expects under the name of the copy; `None`: the name is free.
    fn expects(&self, entry: &Path, found: Option<&Stat>) -> bool;

    /// Returns the length that a file of the source is expected to have, so that small ones can be asked for together.
    fn expected_size(&self, _entry: &Path) -> Option<u64> {
        None
    }

    /// Returns the other names of the file that this entry is a name of: an earlier attempt may have copied it under one of
    /// them, and a further copy would take its names apart.
    fn other_names(&self, _entry: &Path) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the user that files which this job makes belong to, where the filesystem may say another one than that of
    /// the process. `None`: that one.
    fn maker(&self) -> Option<u32> {
        None
    }

    /// Gives a name by `act`, and has everybody wait meanwhile who may withdraw the right to do so.
    ///
    /// # Errors
    /// The right was withdrawn, and nothing was done.
    fn give_name(&self, act: &mut dyn FnMut()) -> Result<(), Objection>;
}

/// An entry, and the guard that is asked about it.
pub(crate) struct Guarded<'a> {
    guard: &'a dyn Guard,
    entry: PathBuf,
}

/// Why a name was not given.
#[derive(Debug)]
pub(crate) enum NotNamed {
    System(Errno),
    Refused(Objection),
}

impl NotNamed {
    /// Makes the error of an operation on a path of the destination.
    pub(crate) fn error(self, operation: &'static str, path: impl AsRef<Path>) -> Error {
        match self {
            NotNamed::System(errno) => Error::destination(operation, path, errno),
            NotNamed::Refused(why) => Error::new(operation, path, Reason::Refused(why)),
        }
    }
}

impl From<Errno> for NotNamed {
    fn from(errno: Errno) -> NotNamed {
        NotNamed::System(errno)
    }
}

impl<'a> Guarded<'a> {
    pub(crate) fn new(guard: &'a dyn Guard, entry: PathBuf) -> Guarded<'a> {
        Guarded { guard, entry }
    }

    /// Checks that an entry of the source is the expected one.
    pub(crate) fn check_source(&self, found: &Stat) -> Result<(), Objection> {
        match self.guard.source_difference(&self.entry, found) {
            None => Ok(()),
            Some(what) => Err(Objection::SourceSincePlan { what: what.to_owned() }),
        }
    }

    /// Returns the other names of the file, and the guard of each.
    pub(crate) fn others(&self) -> impl Iterator<Item = (PathBuf, Guarded<'a>)> {
        let other = |name: PathBuf| (name.clone(), Guarded::new(self.guard, name));
        self.guard.other_names(&self.entry).into_iter().map(other)
    }

    /// Whether this is expected under the name of the copy.
    pub(crate) fn expects(&self, found: Option<&Stat>) -> bool {
        self.guard.expects(&self.entry, found)
    }

    /// Whether files of this user may be ones that this job made.
    pub(crate) fn makes_files_of(&self, user: u32) -> bool {
        user == file::effective_uid() || self.guard.maker() == Some(user)
    }

    /// Gives a name by `act`, unless the guard has withdrawn the right to do so.
    pub(crate) fn give_name<T>(
        &self,
        act: impl FnOnce() -> Result<T, NotNamed>,
    ) -> Result<T, NotNamed> {
        let (mut act, mut given) = (Some(act), None);
        self.guard
            .give_name(&mut || given = act.take().map(|act| act()))
            .map_err(NotNamed::Refused)?;
        given.unwrap_or(Err(NotNamed::Refused(Objection::Overtaken)))
    }

    /// Looks at the entry that has the name of the copy.
    ///
    /// # Errors
    /// It is not the expected one.
    pub(crate) fn look(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Result<Option<Stat>, NotNamed> {
        let found = match directory::stat_name(directory, name) {
            Err(Errno::ENOENT) => None,
            found => Some(found?),
        };
        match self.expects(found.as_ref()) {
            true => Ok(found),
            false => Err(NotNamed::Refused(Objection::DestinationSincePlan)),
        }
    }
}

/// A finished entry under a temporary name, which is to replace another one.
#[derive(Clone, Copy)]
pub(crate) struct Replacing<'a> {
    pub(crate) from: BorrowedFd<'a>,
    pub(crate) temporary: &'a OsStr,
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
}

impl Replacing<'_> {
    /// Replaces the entry that was just found, and no other: the two names are exchanged, and exchanged back if what
    /// had the name is another entry, or has changed. Where the filesystem cannot exchange names, one that
    /// took the name since the last look is lost.
    pub(crate) fn replace(self, found: &Stat) -> Result<(), NotNamed> {
        let Replacing { from, temporary, directory, name } = self;
        let refused = NotNamed::Refused(Objection::DestinationSincePlan);
        match name::exchange(from, temporary, directory, name) {
            Ok(()) => {}
            Err(Errno::ENOENT) => return Err(refused),
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EPERM) => {
                let is_it = |now: &Stat| is_untouched(found, now) && now.changed == found.changed;
                return match directory::stat_name(directory, name) {
                    Ok(now) if is_it(&now) => {
                        Ok(name::rename_out(from, temporary, directory, name)?)
                    }
                    Ok(_) | Err(Errno::ENOENT) => Err(refused),
                    Err(errno) => Err(errno.into()),
                };
            }
            Err(errno) => return Err(errno.into()),
        }
        let displaced = directory::stat_name(from, temporary);
        match displaced {
            Ok(displaced) if is_untouched(found, &displaced) => Ok(name::unlink(from, temporary)?),
            displaced => {
                name::exchange(from, temporary, directory, name)?;
                displaced.map_err(NotNamed::from).and(Err(refused))
            }
        }
    }
}

/// Whether a file is the same as before, but for its time of change, which a rename sets.
fn is_untouched(before: &Stat, now: &Stat) -> bool {
    let what = |s: &Stat| (s.mode, s.uid, s.gid, s.size, s.modified);
    before.is_same_file(now) && what(before) == what(now)
}

/// Returns the user that a copy is given to. `None`: it stays that of whoever makes it.
#[must_use]
pub fn wanted_user(options: &CopyOptions, source: &Stat) -> Option<u32> {
    let asked = options.owner.unwrap_or_default().user;
    asked.or(options.preserve.ownership.then_some(source.uid))
}

/// Gives a copy that an earlier attempt made the bits that it may have only under its name, if that attempt ended before:
/// set-user-ID and set-group-ID.
pub fn give_last_bits(copy: impl AsFd, found: &Stat, source: &Stat, preserve: Preserve) -> Sys<()> {
    let (wanted, now) = (source.permissions(), found.permissions());
    let lacks_them = preserve.mode
        && found.file_type() == source.file_type()
        && wanted & SETUID_SETGID != 0
        && now == wanted & !SETUID_SETGID
        && (found.uid, found.gid) == (source.uid, source.gid);
    match lacks_them {
        true => directory::set_permissions_of_handle(copy, wanted),
        false => Ok(()),
    }
}

/// Gives a new entry that has a temporary name its own, which must be free.
pub(crate) fn take_free_name(replacing: Replacing<'_>) -> Sys<()> {
    let Replacing { from, temporary, directory, name } = replacing;
    name::rename_out_new(from, temporary, directory, name)
}

/// Returns the reason why a name that must be free cannot be given.
pub(crate) fn not_free(errno: Errno) -> NotNamed {
    match errno {
        Errno::EEXIST => NotNamed::Refused(Objection::DestinationSincePlan),
        errno => NotNamed::System(errno),
    }
}
