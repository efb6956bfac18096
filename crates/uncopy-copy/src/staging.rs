//! Writes a file under a temporary name or without one and then renames it into place, so that the
//! destination's name never refers to half a file.

mod free_aside;
mod guarded;

use std::cell::{Cell, OnceCell};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;

use super::creation_defaults::DirectoryDefaults;
use super::destination::Destination;
use super::guard::Guarded;
use super::mechanism::{Refused, Side};
use super::observer::Observer;
use super::options::{Backup, Existing};
use super::parts::{Parts, Unfinished};
use super::stale::{Kind, Noted, Noting, Sweeper, Unproven};
use super::{backup, flush, outlet, stale};
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_core::{Leftovers, MetadataPart, Note};
use uncopy_os::file::{SETUID_SETGID, Stat};
use uncopy_os::{Sys, file, name};

/// The file that is being written.
pub(crate) struct Staging<'a> {
    destination: &'a Destination<'a>,
    fd: OwnedFd,
    place: Place<'a>,
    /// Record in which its temporary name is noted.
    noting: Option<Noting<'a>>,
    /// Names that look like leftovers of earlier copies to the destination.
    unproven: Vec<Unproven>,
    /// Whether an existing entry must not be replaced.
    keep_existing: bool,
    /// Further name that a replaced entry keeps.
    backup: Option<&'a Backup>,
    /// Whether the name is known to be free: an entry found under it anyway is another one of this
    /// copy.
    is_unseen: bool,
    /// Removes the leftovers of earlier runs, unless the caller does.
    sweeper: Option<&'a dyn Sweeper>,
    /// Whether another run can resume this large file.
    parts: Option<Mutex<Box<dyn Parts + 'a>>>,
    /// Defaults of new files in its directory, and the mode that the file was created with.
    directory_defaults: Option<(DirectoryDefaults<'a>, u32)>,
    /// Mode that it gets when it has its final name.
    last_mode: Cell<Option<u32>>,
    /// Guard that is asked before it gets its final name.
    guarded: Option<&'a Guarded<'a>>,
    /// Whether its name is to survive a power cut.
    durable: bool,
    /// Whether the filesystem logs how many names a file has, once that was looked up.
    logs_links: OnceCell<bool>,
}

/// Place where a file of a tree is written first.
pub(crate) enum Placing<'a> {
    /// Without a name where the filesystem supports that, else under a temporary one.
    Aside {
        sweeper: Option<&'a dyn Sweeper>,
        is_unseen: bool,
        directory_defaults: Option<DirectoryDefaults<'a>>,
        noting: Noting<'a>,
    },
    /// Under its final name.
    Private { directory_defaults: DirectoryDefaults<'a> },
    /// Under a temporary name from the beginning, so that another run can find it.
    Kept {
        parts: Box<dyn Parts + 'a>,
        begun: Option<Unfinished>,
        is_unseen: bool,
        sweeper: Option<&'a dyn Sweeper>,
        /// The name comes with the first bytes.
        named_late: bool,
    },
}

/// Name under which the file being written can be found.
enum Place<'a> {
    /// None: it vanishes with its descriptor (`O_TMPFILE`).
    Unnamed,
    /// A temporary one beside the destination, removed on drop.
    Temporary(OsString, Noted<'a>),
    /// None until the first bytes are in it, then a temporary one, removed on drop.
    NamedLate(OnceCell<OsString>),
    /// The destination's own, in a directory that other processes do not use yet; removed on drop.
    Private,
    /// The destination's own: either in place already, or opened to be written in place.
    Final,
}

/// How [`Staging::commit`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commit {
    Done,
    /// Another process created an entry of that name, which must not be replaced.
    Skipped,
}

impl<'a> Staging<'a> {
    /// Creates a new file in the destination's directory with these permissions (umask and default
    /// ACL apply).
    ///
    /// Pass 0600 where an existing file is replaced. A file that needs a temporary name gets that
    /// mode in any case.
    pub(crate) fn aside(
        destination: &'a Destination<'a>,
        mode: u32,
        existing: Existing,
        noting: Noting<'a>,
    ) -> Result<Staging<'a>> {
        let fail = |errno| cannot_create(destination, errno);
        if let Some(fd) = create_unnamed(destination, mode).map_err(fail)? {
            let mut staging = Staging::new(destination, fd, Place::Unnamed);
            staging.noting = Some(noting);
            return Ok(staging.keeping(existing));
        }
        noting.register.prepare();
        let (fd, temporary, stat) = create_temporary(destination).map_err(fail)?;
        let noted = noting.note(&temporary, &stat);
        let place = Place::Temporary(temporary, noted);
        Ok(Staging::new(destination, fd, place).keeping(existing))
    }

    fn new(destination: &'a Destination<'a>, fd: OwnedFd, place: Place<'a>) -> Staging<'a> {
        Staging {
            destination,
            fd,
            place,
            noting: None,
            unproven: Vec::new(),
            keep_existing: false,
            backup: None,
            is_unseen: false,
            sweeper: None,
            parts: None,
            directory_defaults: None,
            last_mode: Cell::new(None),
            guarded: None,
            durable: false,
            logs_links: OnceCell::new(),
        }
    }

    /// Opens a file that another run can resume: the one that an earlier run began, or a new one
    /// with a temporary name and mode 0600.
    pub(crate) fn kept(
        destination: &'a Destination<'a>,
        mut parts: Box<dyn Parts + 'a>,
        begun: Option<Unfinished>,
        existing: Existing,
        named_late: bool,
    ) -> Result<Staging<'a>> {
        let fail = |errno| cannot_create(destination, errno);
        let unnamed = match &begun {
            None if named_late => create_unnamed(destination, 0o600).map_err(fail)?,
            _ => None,
        };
        let (fd, place) = match (begun, unnamed) {
            (None, Some(fd)) => (fd, Place::NamedLate(OnceCell::new())),
            (begun, _) => {
                let begun = begun.map_or_else(|| create_kept(destination, &mut *parts), Ok);
                let (fd, temporary) = begun.map_err(fail)?;
                (fd, Place::Temporary(temporary, Noted::NONE))
            }
        };
        let mut staging = Staging::new(destination, fd, place).keeping(existing);
        staging.parts = Some(Mutex::new(parts));
        Ok(staging)
    }

    /// Sets whether the name is known to be free.
    pub(crate) fn unseen(mut self, is_unseen: bool) -> Staging<'a> {
        self.is_unseen = is_unseen;
        self
    }

    /// Sets what removes the leftovers of earlier runs in the directory; `None`: the caller does.
    pub(crate) fn swept_by(mut self, sweeper: Option<&'a dyn Sweeper>) -> Staging<'a> {
        self.sweeper = sweeper;
        self
    }

    /// Notes that the file was created with `mode` in a directory with these defaults; a file with a
    /// temporary name was created with 0600.
    pub(crate) fn among(
        mut self,
        directory_defaults: Option<DirectoryDefaults<'a>>,
        mode: u32,
    ) -> Staging<'a> {
        let defaults = directory_defaults.filter(|_| !self.is_temporary_name());
        self.directory_defaults = defaults.map(|defaults| (defaults, mode));
        self
    }

    pub(crate) fn directory_defaults(&self) -> Option<(DirectoryDefaults<'a>, u32)> {
        self.directory_defaults
    }

    /// Sets how an entry that is replaced is kept.
    pub(crate) fn with_backup(mut self, backup: Option<&'a Backup>) -> Staging<'a> {
        self.backup = backup;
        self
    }

    /// Whether a guard is asked before it gets its final name.
    pub(crate) fn is_guarded(&self) -> bool {
        self.guarded.is_some()
    }

    /// Sets the guard that is asked before it gets its final name.
    pub(crate) fn guarded_by(mut self, guarded: Option<&'a Guarded<'a>>) -> Staging<'a> {
        self.guarded = guarded;
        self
    }

    /// Sets whether its name is to survive a power cut, as far as the file itself decides: the directory is flushed by
    /// the caller.
    pub(crate) fn durable(mut self, durable: bool) -> Staging<'a> {
        self.durable = durable;
        self
    }

    fn keeping(mut self, existing: Existing) -> Staging<'a> {
        self.keep_existing = existing == Existing::Keep;
        self
    }

    /// Creates a new file under the destination's own name, in a directory that gets its final name
    /// only when its contents are complete.
    pub(crate) fn private(destination: &'a Destination<'a>, mode: u32) -> Result<Staging<'a>> {
        let fd = name::create_new(destination.directory(), destination.name(), mode).map_err(
            |errno| match errno {
                Errno::EEXIST => {
                    Error::new("make", destination.given, Reason::Refused(Objection::NameTaken))
                }
                errno => cannot_create(destination, errno),
            },
        )?;
        Ok(Staging::new(destination, fd, Place::Private))
    }

    /// Wraps a new file that already has the destination's own name in such a directory.
    pub(crate) fn adopt_private(destination: &'a Destination<'a>, fd: OwnedFd) -> Staging<'a> {
        Staging::new(destination, fd, Place::Private)
    }

    /// Opens the existing destination itself, which for [`Destination::is_stream`] may be of any
    /// kind.
    pub(crate) fn in_place(
        destination: &'a Destination<'a>,
        observer: &mut dyn Observer,
    ) -> Result<Staging<'a>> {
        let fd = if destination.is_stream() {
            outlet::open_for_writing(destination, observer)?
        } else {
            // Opened for reading too: verification reads it, and FICLONE requires it on some
            // kernels.
            let open =
                |flags| name::open_blocking(destination.directory(), destination.name(), flags);
            open(OFlags::RDWR)
                .or_else(|errno| match errno {
                    Errno::EACCES => open(OFlags::WRONLY),
                    errno => Err(errno),
                })
                .map_err(|e| Error::destination("open for writing", destination.given, e))?
        };
        let is_expected = destination
            .found
            .as_ref()
            .is_some_and(|found| file::stat(&fd).is_ok_and(|stat| stat.is_same_file(&found.stat)));
        if !is_expected {
            let reason = Reason::Refused(Objection::FileReplaced);
            return Err(Error::new("write to", destination.given, reason));
        }
        Ok(Staging::new(destination, fd, Place::Final))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn destination(&self) -> &'a Destination<'a> {
        self.destination
    }

    /// Whether it was created with a temporary name and therefore with mode 0600, regardless of the
    /// requested mode.
    pub(crate) fn is_temporary_name(&self) -> bool {
        matches!(self.place, Place::Temporary(..) | Place::NamedLate(..))
    }

    /// Returns the temporary name, if the file has one now.
    fn temporary_name(&self) -> Option<&OsString> {
        match &self.place {
            Place::Temporary(name, _) => Some(name),
            Place::NamedLate(name) => name.get(),
            Place::Unnamed | Place::Private | Place::Final => None,
        }
    }

    /// Sets this mode, without setuid and setgid while the file has a temporary name: a kill would
    /// leave such a file behind.
    pub(crate) fn set_permissions(&self, mode: u32) -> Sys<()> {
        let is_held_back = match self.place {
            Place::Unnamed => self.destination.found.is_some() && !self.keep_existing,
            Place::Temporary(..) | Place::NamedLate(..) => true,
            Place::Private | Place::Final => false,
        };
        if !is_held_back || mode & SETUID_SETGID == 0 {
            return file::set_permissions(&self.fd, mode);
        }
        self.last_mode.set(Some(mode));
        file::set_permissions(&self.fd, mode & !SETUID_SETGID)
    }

    /// Gives the file the metadata that it may have only under its final name. Returns what could
    /// not be given.
    pub(crate) fn give_last(&self, durable: bool) -> Result<Option<Note>> {
        let Some(mode) = self.last_mode.take() else { return Ok(None) };
        if let Err(errno) = file::set_permissions(&self.fd, mode) {
            return Ok(Some(Note::NotKept { what: MetadataPart::SetuidAndSetgid, errno }));
        }
        if durable {
            file::sync(&self.fd)
                .map_err(|errno| Error::destination("flush", self.destination.given, errno))?;
        }
        Ok(None)
    }

    /// Whether another run can resume the file.
    pub(crate) fn is_kept(&self) -> bool {
        self.parts.is_some()
    }

    /// Returns the offset at which copying starts: behind the bytes that an earlier run copied and
    /// this one has verified. `on_progress` receives the offset. The rest is cut off.
    pub(crate) fn verified(&self, mut on_progress: impl FnMut(u64) -> Result<()>) -> Result<u64> {
        let Some(parts) = &self.parts else { return Ok(0) };
        let fail = |errno| Error::destination("read back", self.destination.given, errno);
        let end = lock(parts).verify(self.fd(), &fail, &mut on_progress)?;
        file::truncate(&self.fd, end).map_err(fail)?;
        Ok(end)
    }

    /// Notes that the bytes up to `offset` are copied. A resumable file is flushed and noted from
    /// time to time.
    pub(crate) fn reached(&self, source: BorrowedFd<'_>, offset: u64) -> Result<()> {
        let (Some(parts), Some(name)) = (&self.parts, self.temporary_name()) else {
            return Ok(());
        };
        lock(parts).reached(source, (self.fd(), name), offset).map_err(|Refused { errno, side }| {
            match side {
                Side::Source => {
                    Error::system("read what was copied to", self.destination.given, errno)
                }
                _ => Error::destination("flush a part of", self.destination.given, errno),
            }
        })
    }

    /// Notes that a mechanism has moved bytes: a resumable file that has no name yet gets one.
    pub(crate) fn has_bytes(&self) -> Result<()> {
        if let (Some(parts), Place::NamedLate(name)) = (&self.parts, &self.place)
            && name.get().is_none()
        {
            let named = link_kept(&self.fd, self.destination, &mut **lock(parts))
                .map_err(|errno| cannot_create(self.destination, errno))?;
            name.get_or_init(|| named);
        }
        Ok(())
    }

    /// Leaves the unfinished file to another run, if that can resume it.
    pub(crate) fn leave(mut self) {
        let (Some(parts), Some(name)) = (&self.parts, self.temporary_name()) else { return };
        let mut parts = lock(parts);
        let _ = parts.flush((self.fd.as_fd(), name));
        let is_noted = parts.is_noted();
        drop(parts);
        if is_noted {
            self.place = Place::Final;
        }
    }

    /// Puts the finished file in place. Afterwards the name refers to the new file or, on failure,
    /// to what it referred to before.
    pub(crate) fn commit(&mut self) -> Result<Commit> {
        let destination = self.destination;
        if let (Some(parts), Some(name)) = (&self.parts, self.temporary_name()) {
            // If it cannot be noted, the job stops, and this file is whole all the same.
            let _ = lock(parts).end((self.fd.as_fd(), name));
        }
        if let Some(guarded) = self.guarded {
            return self.commit_guarded(guarded);
        }
        let result = match std::mem::replace(&mut self.place, Place::Final) {
            Place::Final | Place::Private => Ok(Commit::Done),
            Place::Unnamed => self.commit_unnamed(),
            Place::Temporary(temporary, noted) => self.commit_temporary(temporary, noted),
            Place::NamedLate(name) => match name.into_inner() {
                Some(temporary) => self.commit_temporary(temporary, Noted::NONE),
                None => self.commit_unnamed(),
            },
        };
        result.map_err(|errno| match errno {
            Errno::EEXIST if self.is_unseen => {
                Error::new("make", destination.given, Reason::Refused(Objection::NameTaken))
            }
            Errno::EBUSY => Error::new(
                "replace",
                destination.given,
                Reason::Refused(Objection::MountedMeanwhile),
            ),
            // In a sticky directory another user's file cannot be replaced by a rename, though it
            // may be writable.
            Errno::EPERM | Errno::EACCES if in_place_would_do(destination) => Error::new(
                "replace",
                destination.given,
                Reason::Refused(Objection::ReplacingForbidden { errno }),
            ),
            errno => Error::destination("put in place", destination.given, errno),
        })
    }

    fn commit_unnamed(&mut self) -> Sys<Commit> {
        let (directory, name) = (self.destination.directory(), self.destination.name());
        let is_flushed_again = self.is_flushed_when_named();
        if (self.destination.found.is_none() || self.keep_existing) && !is_flushed_again {
            match name::link_unnamed(&self.fd, directory, name) {
                Ok(()) => return Ok(Commit::Done),
                Err(Errno::EEXIST) if self.keep_existing => return Ok(Commit::Skipped),
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        if self.destination.found.is_none() {
            // Another entry may have that name.
            let mode = file::stat(&self.fd)?.permissions();
            if mode & SETUID_SETGID != 0 {
                self.last_mode.set(Some(mode));
                file::set_permissions(&self.fd, mode & !SETUID_SETGID)?;
            }
        }
        // linkat(2) never replaces a name: a temporary one first, then a rename over the old file.
        let (temporary, noted) = self.name_temporarily()?;
        self.commit_temporary(temporary, noted)
    }

    /// Whether the file, which has no name, is flushed by [`Staging::commit`] when it has a temporary one: its inode on the
    /// device says that it has none, and without a journal that says otherwise `fsck` removes its name after a power cut.
    pub(crate) fn is_flushed_last(&self) -> bool {
        matches!(self.place, Place::Unnamed) && self.is_flushed_when_named()
    }

    /// The same of a file that is getting its name.
    fn is_flushed_when_named(&self) -> bool {
        self.durable && !*self.logs_links.get_or_init(|| flush::logs_links(&self.fd))
    }

    /// Gives an unlinked file a temporary name. The lock shows other runs that it is not a leftover.
    fn name_temporarily(&self) -> Sys<(OsString, Noted<'a>)> {
        let (directory, name) = (self.destination.directory(), self.destination.name());
        stale::check_directory(directory)?;
        let _ = file::try_lock(&self.fd);
        let noting = self.noting.filter(|noting| noting.brief);
        let stat = noting.map(|_| file::stat(&self.fd)).transpose()?;
        loop {
            let temporary = stale::temporary_name(name, Kind::File)?;
            let noted = match (&noting, &stat) {
                (Some(noting), Some(stat)) => noting.note(&temporary, stat),
                _ => Noted::NONE,
            };
            match name::link_unnamed(&self.fd, directory, &temporary) {
                Err(Errno::EEXIST) => continue,
                Err(errno) => return Err(errno),
                Ok(()) if self.is_flushed_when_named() => {}
                Ok(()) => return Ok((temporary, noted)),
            }
            return match file::sync(&self.fd) {
                Ok(()) => Ok((temporary, noted)),
                Err(errno) => {
                    let _ = name::unlink(directory, &temporary);
                    Err(errno)
                }
            };
        }
    }

    fn commit_temporary(&mut self, temporary: OsString, noted: Noted<'a>) -> Sys<Commit> {
        let (directory, name) = (self.destination.directory(), self.destination.name());
        let renamed = if self.keep_existing || self.is_unseen {
            name::rename_new(directory, &temporary, name)
        } else {
            let kept = self.backup.map_or(Ok(()), |backup| backup::keep(directory, name, backup));
            kept.and_then(|()| name::rename(directory, &temporary, name))
        };
        if let Err(errno) = renamed {
            // Removed on drop.
            self.place = Place::Temporary(temporary, noted);
            return match errno {
                Errno::EEXIST if self.keep_existing => Ok(Commit::Skipped),
                errno => Err(errno),
            };
        }
        drop(noted);
        if let Some(sweeper) = self.sweeper.filter(|_| !self.is_unseen) {
            self.unproven = sweeper.remove_leftovers(directory, name);
        }
        Ok(Commit::Done)
    }

    /// Returns names that look like leftovers of the destination and are kept.
    pub(crate) fn leftovers(&self) -> Leftovers {
        let mut leftovers = Leftovers::default();
        for unproven in &self.unproven {
            leftovers.add(self.destination.path().with_file_name(&unproven.name));
        }
        leftovers
    }

    /// Notes a temporary name that was meant to be short-lived and was therefore not noted, but is
    /// kept.
    fn note_late(&self, name: &OsStr, noted: Noted<'a>) -> Noted<'a> {
        match (self.noting, file::stat(&self.fd)) {
            (Some(noting), Ok(stat)) if !noted.is_noted() => noting.note(name, &stat),
            _ => noted,
        }
    }

    /// The directory, for [`Staging::sync_directory`]; an `O_PATH` handle cannot be flushed.
    pub(crate) fn open_directory(&self) -> Result<OwnedFd> {
        let destination = self.destination;
        name::open_directory_for_reading(destination.directory())
            .map_err(|e| Error::destination("open the directory of", destination.given, e))
    }

    /// Flushes the directory, so that the name survives a power cut.
    pub(crate) fn sync_directory(&self, directory: &OwnedFd) -> Result<()> {
        file::sync(directory)
            .map_err(|e| Error::destination("flush the directory of", self.destination.given, e))
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        let (name, noted) = match std::mem::replace(&mut self.place, Place::Final) {
            Place::Temporary(temporary, noted) => (temporary, noted),
            Place::Private => (self.destination.name().to_owned(), Noted::NONE),
            Place::NamedLate(name) => match name.into_inner() {
                Some(temporary) => (temporary, Noted::NONE),
                None => return,
            },
            Place::Unnamed | Place::Final => return,
        };
        match name::unlink(self.destination.directory(), &name) {
            Ok(()) | Err(Errno::ENOENT) => {}
            // Left for the next run to remove.
            Err(_) => self.note_late(&name, noted).leave(),
        }
    }
}

fn lock<T>(parts: &Mutex<T>) -> MutexGuard<'_, T> {
    parts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates an unlinked file (`O_TMPFILE`), if the filesystem supports that.
fn create_unnamed(destination: &Destination<'_>, mode: u32) -> Sys<Option<OwnedFd>> {
    if !name::can_link_unnamed() {
        return Ok(None);
    }
    match name::create_unnamed(destination.directory(), mode) {
        // No such operation in this filesystem, or in this kernel (open(2)).
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT) => Ok(None),
        other => other.map(Some),
    }
}

/// Creates a locked file with a temporary name and mode 0600 for a caller that notes it: before it
/// is linked if the filesystem supports unlinked files, else afterwards.
fn create_kept(destination: &Destination<'_>, parts: &mut dyn Parts) -> Sys<(OwnedFd, OsString)> {
    let Some(fd) = create_unnamed(destination, 0o600)? else {
        let (fd, temporary, stat) = create_temporary(destination)?;
        return match parts.begin(&temporary, &stat) {
            Ok(()) => Ok((fd, temporary)),
            Err(errno) => {
                let _ = name::unlink(destination.directory(), &temporary);
                Err(errno)
            }
        };
    };
    link_kept(&fd, destination, parts).map(|temporary| (fd, temporary))
}

/// Notes an unlinked file, and gives it a temporary name. Returns the name.
fn link_kept(fd: &OwnedFd, destination: &Destination<'_>, parts: &mut dyn Parts) -> Sys<OsString> {
    stale::check_directory(destination.directory())?;
    let _ = file::try_lock(fd);
    let stat = file::stat(fd)?;
    loop {
        let temporary = stale::temporary_name(destination.name(), Kind::File)?;
        parts.begin(&temporary, &stat)?;
        match name::link_unnamed(fd, destination.directory(), &temporary) {
            Err(Errno::EEXIST) => {}
            other => return other.map(|()| temporary),
        }
    }
}

/// Creates a locked file with a temporary name and mode 0600.
fn create_temporary(destination: &Destination<'_>) -> Sys<(OwnedFd, OsString, Stat)> {
    stale::check_directory(destination.directory())?;
    loop {
        let temporary = stale::temporary_name(destination.name(), Kind::File)?;
        let fd = match name::create_new(destination.directory(), &temporary, 0o600) {
            Ok(fd) => fd,
            Err(Errno::EEXIST) => continue,
            Err(errno) => return Err(errno),
        };
        let locked = file::try_lock(&fd);
        match file::stat(&fd) {
            // Another process removed it in between.
            Ok(stat) if stat.links == 0 => {}
            // Another run is checking whether it is a leftover, and would take this file for one
            // too.
            Ok(_) if locked == Err(Errno::EAGAIN) => {
                name::unlink(destination.directory(), &temporary)?;
            }
            // Any other answer: a filesystem without locks.
            Ok(stat) => return Ok((fd, temporary, stat)),
            Err(errno) => {
                let _ = name::unlink(destination.directory(), &temporary);
                return Err(errno);
            }
        }
    }
}

fn cannot_create(destination: &Destination<'_>, errno: Errno) -> Error {
    let forbidden = matches!(errno, Errno::EACCES | Errno::EPERM | Errno::EROFS);
    if forbidden && in_place_would_do(destination) {
        let reason = Reason::Refused(Objection::MakingForbidden { errno });
        return Error::new("replace", destination.given, reason).met_at_destination(errno);
    }
    Error::destination("create", destination.given, errno)
}

/// Checks that a file that can be written into exists under the name. Its mode alone does not say so: it may be
/// append-only (`ioctl_iflags(2)`).
fn in_place_would_do(destination: &Destination<'_>) -> bool {
    let open = || name::open_existing(destination.directory(), destination.name(), OFlags::WRONLY);
    destination.found.is_some() && open().is_ok()
}
