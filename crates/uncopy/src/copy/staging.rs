//! Write aside, then put in place: the destination's name never stands for half a file.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::OFlags;

use super::born::Siblings;
use super::destination::Destination;
use super::mechanism::{Refused, Side};
use super::observer::Observer;
use super::options::Existing;
use super::partial::{Begun, Keep, Partial};
use super::stale::Kind;
use super::{stale, stream};
use crate::error::{Errno, Error, Reason, Result};
use crate::sys::{Sys, file, name};

/// The file that is being written.
pub(crate) struct Staging<'a> {
    destination: &'a Destination<'a>,
    fd: OwnedFd,
    place: Place,
    /// Another name must not be replaced.
    keep_existing: bool,
    /// Nobody has the name: an entry that has it all the same is another one of this copy.
    is_unseen: bool,
    /// Somebody else removes what earlier runs left.
    is_swept: bool,
    /// A large file that another run can go on with.
    partial: Option<Mutex<Partial<'a>>>,
    /// The other new files of its directory, and the mode that it was created with.
    siblings: Option<(Siblings<'a>, u32)>,
}

/// Where a file is written first, in a tree.
pub(crate) enum Placing<'a> {
    /// Aside, without a name where that can be had.
    Aside { is_swept: bool, siblings: Siblings<'a> },
    /// Under its own name.
    Private { siblings: Siblings<'a> },
    /// Under a temporary name from the beginning, so that another run finds it.
    Kept { keep: Box<dyn Keep + 'a>, begun: Option<Begun>, is_unseen: bool, is_swept: bool },
}

/// What a new directory has two entries for.
pub(crate) const TAKEN: &str = "another entry of this copy has this name already (the filesystem \
    does not tell upper from lower case, or the source changed); copy one of them under another \
    name";

/// Under which name the file being written can be found.
enum Place {
    /// None: it vanishes with its descriptor (`O_TMPFILE`).
    Unnamed,
    /// A temporary one beside the destination, removed on drop.
    Temporary(OsString),
    /// The destination's own, in a directory that nobody looks into yet; removed on drop.
    Private,
    /// The destination's own: either in place already, or opened to be written in place.
    Final,
}

/// How [`Staging::commit`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commit {
    Done,
    /// The name was taken meanwhile, and is to be left alone.
    Skipped,
}

impl<'a> Staging<'a> {
    /// A new file beside the destination with these permissions (umask and default ACL apply).
    ///
    /// Where something is to be replaced ask for 0600. What needs a name for it has that mode in any
    /// case.
    pub(crate) fn aside(
        destination: &'a Destination<'a>,
        mode: u32,
        existing: Existing,
    ) -> Result<Staging<'a>> {
        let fail = |errno| cannot_create(destination, errno);
        if can_link_unnamed() {
            match name::create_unnamed(destination.directory(), mode) {
                Ok(fd) => {
                    let staging = Staging::new(destination, fd, Place::Unnamed);
                    return Ok(staging.keeping(existing));
                }
                // No such operation in this filesystem, or in this kernel (open(2)).
                Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT) => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
        let (fd, temporary) = create_temporary(destination).map_err(fail)?;
        let place = Place::Temporary(temporary);
        Ok(Staging::new(destination, fd, place).keeping(existing))
    }

    fn new(destination: &'a Destination<'a>, fd: OwnedFd, place: Place) -> Staging<'a> {
        Staging {
            destination,
            fd,
            place,
            keep_existing: false,
            is_unseen: false,
            is_swept: false,
            partial: None,
            siblings: None,
        }
    }

    /// A file that another run can go on with: what an earlier one began, or a new one with a
    /// temporary name and mode 0600.
    pub(crate) fn kept(
        destination: &'a Destination<'a>,
        partial: Partial<'a>,
        begun: Option<Begun>,
        (existing, is_unseen): (Existing, bool),
    ) -> Result<Staging<'a>> {
        let mut partial = partial;
        let (fd, temporary) = match begun {
            Some(Begun { file, name, chunks }) => {
                partial.expect(chunks);
                (file, name)
            }
            None => create_temporary(destination).map_err(|e| cannot_create(destination, e))?,
        };
        let place = Place::Temporary(temporary);
        let mut staging = Staging::new(destination, fd, place).keeping(existing);
        staging.is_unseen = is_unseen;
        staging.partial = Some(Mutex::new(partial));
        Ok(staging)
    }

    /// The caller removes what earlier runs left in the directory, if this says so.
    pub(crate) fn swept(mut self, is_swept: bool) -> Staging<'a> {
        self.is_swept = is_swept;
        self
    }

    /// It was created with `mode` as one of these, if that says what it is like now.
    pub(crate) fn among(mut self, siblings: Siblings<'a>, mode: u32) -> Staging<'a> {
        self.siblings = (!self.is_temporary_name()).then_some((siblings, mode));
        self
    }

    pub(crate) fn siblings(&self) -> Option<(Siblings<'a>, u32)> {
        self.siblings
    }

    fn keeping(mut self, existing: Existing) -> Staging<'a> {
        self.keep_existing = existing == Existing::Keep;
        self
    }

    /// A new file under the destination's own name, in a directory that appears under its own name
    /// only when all that belongs in it is there.
    pub(crate) fn private(destination: &'a Destination<'a>, mode: u32) -> Result<Staging<'a>> {
        let fd = name::create_new(destination.directory(), destination.name(), mode).map_err(
            |errno| match errno {
                Errno::EEXIST => {
                    Error::new("make", destination.given, Reason::Refused(TAKEN.into()))
                }
                errno => cannot_create(destination, errno),
            },
        )?;
        Ok(Staging::new(destination, fd, Place::Private))
    }

    /// The existing destination itself, or for [`Destination::is_stream`] whatever it is.
    pub(crate) fn in_place(
        destination: &'a Destination<'a>,
        observer: &mut dyn Observer,
    ) -> Result<Staging<'a>> {
        let fd = if destination.is_stream() {
            stream::open_for_writing(destination, observer)?
        } else {
            // For reading as well: verification reads it, and FICLONE wants it on some kernels.
            file::open(destination.path(), OFlags::RDWR)
                .or_else(|errno| match errno {
                    Errno::EACCES => file::open(destination.path(), OFlags::WRONLY),
                    errno => Err(errno),
                })
                .map_err(|e| Error::destination("open for writing", destination.given, e))?
        };
        let is_expected = destination
            .found
            .as_ref()
            .is_some_and(|found| file::stat(&fd).is_ok_and(|stat| stat.is_same_file(&found.stat)));
        if !is_expected {
            let text = "another file took its name meanwhile; copy again".to_owned();
            return Err(Error::new("write to", destination.given, Reason::Refused(text)));
        }
        Ok(Staging::new(destination, fd, Place::Final))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn destination(&self) -> &'a Destination<'a> {
        self.destination
    }

    /// Created with a temporary name and therefore with mode 0600, whatever was asked for.
    pub(crate) fn is_temporary_name(&self) -> bool {
        matches!(self.place, Place::Temporary(_))
    }

    /// The file is one that another run can go on with.
    pub(crate) fn is_kept(&self) -> bool {
        self.partial.is_some()
    }

    /// Where the bytes begin that are still to be copied: behind what an earlier run copied and this
    /// one has verified. `goes_on` is told how far that is. What lies behind it is cut off.
    pub(crate) fn verified(&self, goes_on: impl FnMut(u64) -> Result<()>) -> Result<u64> {
        let Some(partial) = &self.partial else { return Ok(0) };
        let fail = |errno| Error::destination("read back", self.destination.given, errno);
        let end = lock(partial).verify(self.fd(), fail, goes_on)?;
        file::truncate(&self.fd, end).map_err(fail)?;
        Ok(end)
    }

    /// The bytes up to `offset` are copied: from time to time they are flushed and noted, if the file
    /// is one that another run can go on with.
    pub(crate) fn reached(&self, source: BorrowedFd<'_>, offset: u64) -> Result<()> {
        let (Some(partial), Place::Temporary(name)) = (&self.partial, &self.place) else {
            return Ok(());
        };
        lock(partial).reached(source, (self.fd(), name), offset).map_err(
            |Refused { errno, side }| match side {
                Side::Source => {
                    Error::system("read what was copied to", self.destination.given, errno)
                }
                _ => Error::destination("flush a part of", self.destination.given, errno),
            },
        )
    }

    /// Leaves the unfinished file to another run, if that can go on with it.
    pub(crate) fn leave(mut self) {
        let (Some(partial), Place::Temporary(name)) = (&self.partial, &self.place) else {
            return;
        };
        let mut partial = lock(partial);
        let _ = partial.flush((self.fd.as_fd(), name));
        let is_noted = partial.is_noted();
        drop(partial);
        if is_noted {
            self.place = Place::Final;
        }
    }

    /// Puts the finished file in place. Afterwards the name is the new file, or as it was.
    pub(crate) fn commit(&mut self) -> Result<Commit> {
        let destination = self.destination;
        let result = match std::mem::replace(&mut self.place, Place::Final) {
            Place::Final | Place::Private => Ok(Commit::Done),
            Place::Unnamed => self.commit_unnamed(),
            Place::Temporary(temporary) => self.commit_temporary(temporary),
        };
        result.map_err(|errno| match errno {
            Errno::EEXIST if self.is_unseen => {
                Error::new("make", destination.given, Reason::Refused(TAKEN.into()))
            }
            Errno::EBUSY => Error::new(
                "replace",
                destination.given,
                Reason::Refused(
                    "something is mounted on it (EBUSY); --in-place writes into it instead".into(),
                ),
            ),
            // A sticky directory lets nobody rename over another's file, who may yet write to it.
            Errno::EPERM | Errno::EACCES if in_place_would_do(destination) => Error::new(
                "replace",
                destination.given,
                Reason::Refused(format!(
                    "its directory does not allow it ({errno}); --in-place writes into it instead"
                )),
            ),
            errno => Error::destination("put in place", destination.given, errno),
        })
    }

    fn commit_unnamed(&mut self) -> Sys<Commit> {
        let (directory, name) = (self.destination.directory(), self.destination.name());
        if self.destination.found.is_none() || self.keep_existing {
            match name::link_unnamed(&self.fd, directory, name) {
                Ok(()) => return Ok(Commit::Done),
                Err(Errno::EEXIST) if self.keep_existing => return Ok(Commit::Skipped),
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        // linkat(2) never replaces a name: a temporary one first, then a rename over the old file.
        // The lock tells other runs that the temporary name is not a leftover.
        let _ = file::try_lock(&self.fd);
        let temporary = loop {
            let temporary = stale::temporary_name(name, Kind::File)?;
            match name::link_unnamed(&self.fd, directory, &temporary) {
                Err(Errno::EEXIST) => {}
                other => break other.map(|()| temporary)?,
            }
        };
        self.commit_temporary(temporary)
    }

    fn commit_temporary(&mut self, temporary: OsString) -> Sys<Commit> {
        let (directory, name) = (self.destination.directory(), self.destination.name());
        let renamed = if self.keep_existing || self.is_unseen {
            name::rename_new(directory, &temporary, name)
        } else {
            name::rename(directory, &temporary, name)
        };
        if let Err(errno) = renamed {
            // Removed on drop.
            self.place = Place::Temporary(temporary);
            return match errno {
                Errno::EEXIST if self.keep_existing => Ok(Commit::Skipped),
                errno => Err(errno),
            };
        }
        if !self.is_unseen && !self.is_swept {
            stale::remove_leftovers(directory, name, Kind::File);
        }
        Ok(Commit::Done)
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
        let name = match &self.place {
            Place::Temporary(temporary) => temporary.as_os_str(),
            Place::Private => self.destination.name(),
            Place::Unnamed | Place::Final => return,
        };
        // Left for the next run to remove if even this fails.
        let _ = name::unlink(self.destination.directory(), name);
    }
}

fn lock<'a, 'b>(partial: &'a Mutex<Partial<'b>>) -> MutexGuard<'a, Partial<'b>> {
    partial.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new, locked file with a temporary name and mode 0600.
fn create_temporary(destination: &Destination<'_>) -> Sys<(OwnedFd, OsString)> {
    loop {
        let temporary = stale::temporary_name(destination.name(), Kind::File)?;
        let fd = match name::create_new(destination.directory(), &temporary, 0o600) {
            Ok(fd) => fd,
            Err(Errno::EEXIST) => continue,
            Err(errno) => return Err(errno),
        };
        match file::try_lock(&fd) {
            // Another run took it for a leftover before the lock was there, and removes it.
            Err(Errno::EAGAIN) => {}
            // A filesystem without locks.
            Err(_) => return Ok((fd, temporary)),
            Ok(()) => match file::stat(&fd) {
                // Removed as a leftover in between.
                Ok(stat) if stat.links == 0 => {}
                Ok(_) => return Ok((fd, temporary)),
                Err(errno) => {
                    let _ = name::unlink(destination.directory(), &temporary);
                    return Err(errno);
                }
            },
        }
    }
}

fn can_link_unnamed() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| file::effective_uid() == 0 || name::has_proc_fd())
}

fn cannot_create(destination: &Destination<'_>, errno: Errno) -> Error {
    let forbidden = matches!(errno, Errno::EACCES | Errno::EPERM | Errno::EROFS);
    if forbidden && in_place_would_do(destination) {
        let text = format!(
            "no new file can be made beside it ({errno}); --in-place writes into it instead"
        );
        let reason = Reason::Refused(text);
        return Error::new("replace", destination.given, reason).met_at_destination(errno);
    }
    Error::destination("create", destination.given, errno)
}

/// There is a file that may be written to.
fn in_place_would_do(destination: &Destination<'_>) -> bool {
    destination.found.is_some()
        && name::may_write(destination.directory(), destination.name()).is_ok()
}
