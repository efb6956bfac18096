//! Does the last unit: deletions, and metadata of directories, each after everything in it.
//!
//! Source and destination are looked at again for each entry. Between the look at an entry to delete and its removal lies the
//! time of one call, in which a change of it is lost with it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use rustix::fs::FileType;

use super::identity::is_planned;
use super::roots::{Unusable, at_destination, at_source, split};
use super::{AttemptedUnit, Work};
use crate::UnitError;
use crate::format::{Entry, Identity};
use crate::run::reverse::entries_from_the_end;
use uncopy_copy::guarded::{GuardedFile, GuardedLook, finish_directory, wanted_user};
use uncopy_copy::job::{EntryOutcome, JobProgress};
use uncopy_copy::peer::PeerNames;
use uncopy_core::{Errno, Error, InodeFlags, Note, Objection, Reason};
use uncopy_os::file::{self, Stat};
use uncopy_os::{directory, name};

/// Result of one entry.
enum Finished {
    /// A directory; whether entries came or went in the source since the plan, and metadata that it lacks.
    Directory {
        is_as_planned: bool,
        notes: Vec<Note>,
    },
    Deleted,
    /// It was gone.
    Gone,
}

/// State of a unit that is being done.
#[derive(Default)]
struct Finishing {
    work: Work,
    /// Numbers of entries, of deletions, and of directories that changed since the plan.
    entries: u64,
    deletions: u64,
    changed: u64,
    is_over: bool,
}

/// Part of the last unit that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    All,
    /// Metadata of directories, where other units fail for good: nobody comes back to those that they made.
    Directories,
}

/// Number of entries of another machine that are looked at together, before the first of them is done.
const ENTRIES_AHEAD: usize = 128;

impl AttemptedUnit<'_> {
    /// Does the entries from the last one to the first: all of them, or those of directories alone.
    pub(super) fn finish(
        &self,
        file: &GuardedFile,
        path: &Path,
        what: Finish,
    ) -> Result<Work, UnitError> {
        let mut finishing = Finishing::default();
        // Nothing of this machine is looked at before its turn.
        let most = if self.roots.source.is_there() { ENTRIES_AHEAD } else { 1 };
        let mut waiting = Vec::new();
        let read = entries_from_the_end(file, |entry| {
            if what == Finish::Directories && entry.source.is_none() {
                return true;
            }
            waiting.push(entry);
            waiting.len() < most
                || self.finish_some(path, &std::mem::take(&mut waiting), &mut finishing)
        });
        if read.is_ok() && !finishing.is_over {
            self.finish_some(path, &waiting, &mut finishing);
        }
        let Finishing { mut work, changed, .. } = finishing;
        file.check_connected()?;
        self.roots.source.check_connected()?;
        read.map_err(|error| Error::system("read", path, super::errno_of(&error)))?;
        if changed > 0 {
            work.facts.push(("source_directories_changed", changed.into()));
        }
        work.summary.directories = work.done.entries;
        work.summary.deleted = work.done.deleted;
        Ok(work)
    }

    /// Does some entries, of which another machine is asked for at once. Returns whether the others are to be done.
    fn finish_some(&self, path: &Path, entries: &[Entry], finishing: &mut Finishing) -> bool {
        let most = self.options.delete.as_ref().and_then(|delete| delete.most);
        let mut looks = self.roots.source.look_ahead(names_of(entries), self.options.copy.preserve);
        for entry in entries {
            let mut progress = JobProgress::default();
            progress.entries = finishing.entries;
            finishing.entries += 1;
            if !self.failures.goes_on(progress) {
                self.failures.add(None, &Error::new("finish", path, Reason::Cancelled));
                finishing.is_over = true;
                return false;
            }
            let (above, own) = split(&entry.path);
            let look = match &mut looks {
                Some(looks) if own != "." => looks.take(&above, own),
                _ => GuardedLook::Unknown,
            };
            let done = match &entry.source {
                Some(source) => self.finish_one(entry, source, look),
                None if most.is_some_and(|most| finishing.deletions >= most) => {
                    let why = Reason::Refused(Objection::TooManyDeleted);
                    let path = self.unit.header.destination.as_path().join(entry.path.as_path());
                    Err(Error::new("delete", path, why))
                }
                None => self.delete(entry, &look),
            };
            match done {
                Ok(Finished::Directory { is_as_planned, notes }) => {
                    finishing.work.done.entries += 1;
                    finishing.changed += u64::from(!is_as_planned);
                    let flags_not_kept = InodeFlags::default();
                    self.failures.report(entry, EntryOutcome::Made { notes, flags_not_kept });
                }
                Ok(Finished::Deleted) => {
                    finishing.deletions += 1;
                    finishing.work.done.deleted += 1;
                    self.failures.report(entry, EntryOutcome::Deleted { entries: 1 });
                }
                // An earlier attempt deleted it.
                Ok(Finished::Gone) => {
                    finishing.deletions += 1;
                    finishing.work.done.deleted += 1;
                }
                Err(error) => self.failures.add_entry(entry, error),
            }
            if self.failures.is_overtaken() || self.roots.source.check_connected().is_err() {
                finishing.is_over = true;
                return false;
            }
        }
        true
    }

    /// Runs `act` while the attempt is the current one.
    fn guarded<T>(&self, path: &Path, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let (mut act, mut done) = (Some(act), None);
        let given = self.commits.give_name(&mut || done = act.take().map(|act| act()));
        let refused = |why| Error::new("finish", path, Reason::Refused(why));
        given.map_err(refused)?;
        done.unwrap_or_else(|| Err(refused(Objection::Overtaken)))
    }

    /// Gives a directory its metadata, and makes it if nothing in it was copied.
    fn finish_one(
        &self,
        entry: &Entry,
        planned: &Identity,
        look: GuardedLook,
    ) -> Result<Finished, Error> {
        let header = &self.unit.header;
        let path = header.destination.as_path().join(entry.path.as_path());
        let names: Vec<_> = entry.path.names().collect();
        let source = match look {
            GuardedLook::Directory(source) => Ok(source),
            _ => self.roots.source.open_beneath(&names),
        };
        let source = source.map_err(|errno| at_source("open", header, &entry.path, errno))?;
        let now =
            source.examine().map_err(|errno| at_source("examine", header, &entry.path, errno))?;
        if now.inode != planned.inode {
            let from = header.source.as_path().join(entry.path.as_path());
            let what = "inode".to_owned();
            let why = Reason::Refused(Objection::SourceSincePlan { what });
            return Err(Error::new("finish", from, why));
        }
        let conflict =
            || Error::new("finish", &path, Reason::Refused(Objection::DestinationSincePlan));
        let is_new = entry.destination.is_none();
        let opened = match is_new {
            true => self.roots.open_or_make(&names),
            false => self.roots.open_below(&names),
        };
        let destination = opened.map_err(|why| match why {
            Unusable::System(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => conflict(),
            why => at_destination("open", header, &entry.path, why),
        })?;
        let notes = self.guarded(&path, || {
            let found = file::stat(&destination)
                .map_err(|errno| at_destination("examine", header, &entry.path, errno))?;
            if !is_unchanged_directory(entry.destination.as_ref(), &found, &now)
                || is_new && !self.may_have_made(&found, &now)
            {
                return Err(conflict());
            }
            finish_directory(&source, &destination, &path, is_new, &self.options.copy)
        })?;
        let is_as_planned = planned.mtime == now.modified.into();
        Ok(Finished::Directory { is_as_planned, notes })
    }

    /// Whether a unit may have made a directory, by its owner. Anything else is that of a user, who made it after the plan.
    fn may_have_made(&self, found: &Stat, source: &Stat) -> bool {
        found.uid == file::effective_uid()
            || Some(found.uid) == wanted_user(&self.options.copy, source)
            || Some(found.uid) == self.ledger.owner()
    }

    /// Deletes an entry of the destination that the source still does not have, if it is the one that the plan saw.
    fn delete(&self, entry: &Entry, look: &GuardedLook) -> Result<Finished, Error> {
        let header = &self.unit.header;
        let path = header.destination.as_path().join(entry.path.as_path());
        let (above, own) = split(&entry.path);
        let source_has = match look {
            GuardedLook::Directory(_) | GuardedLook::Other => true,
            // It may have come since that look.
            GuardedLook::Missing | GuardedLook::Unknown => self.source_has(entry)?,
        };
        if source_has {
            let from = header.source.as_path().join(entry.path.as_path());
            let what = "it is there now".to_owned();
            let why = Reason::Refused(Objection::SourceSincePlan { what });
            return Err(Error::new("delete the copy of", from, why));
        }
        let unusable = |why: Unusable| at_destination("delete", header, &entry.path, why);
        let fail = |errno: Errno| unusable(errno.into());
        let conflict =
            || Error::new("delete", &path, Reason::Refused(Objection::DestinationSincePlan));
        if self.is_mounted(&above).map_err(unusable)? {
            return Err(conflict());
        }
        let parent = match self.roots.open_below(&above) {
            Err(Unusable::System(Errno::ENOENT)) => return Ok(Finished::Gone),
            Err(Unusable::System(Errno::ENOTDIR | Errno::ELOOP)) => return Err(conflict()),
            parent => parent.map_err(unusable)?,
        };
        self.guarded(&path, || {
            let found = match directory::stat_name(&parent, own) {
                Err(Errno::ENOENT) => return Ok(Finished::Gone),
                found => found.map_err(fail)?,
            };
            let is_directory = found.file_type() == FileType::Directory;
            let is_it = match is_directory {
                // Its contents were deleted before, which changes its times.
                true => entry.destination.as_ref().is_some_and(|planned| {
                    planned.inode == found.inode && planned.mode == found.mode
                }),
                false => is_planned(entry.destination.as_ref(), Some(&found)),
            };
            if !is_it || found.mount_root {
                return Err(conflict());
            }
            let removed = match is_directory {
                true => directory::remove(&parent, own),
                false => name::unlink(&parent, own),
            };
            match removed {
                Ok(()) => Ok(Finished::Deleted),
                Err(Errno::ENOENT) => Ok(Finished::Gone),
                // Something was put into it since the plan, or stayed in it.
                Err(Errno::ENOTEMPTY | Errno::EEXIST) => Err(conflict()),
                Err(errno) => Err(fail(errno)),
            }
        })
    }

    /// Whether something is mounted at a directory that leads to an entry to delete, and that the source does not have: then
    /// all of it stays. What is mounted at directories that both sides have is part of the copy.
    fn is_mounted(&self, above: &[&OsStr]) -> Result<bool, Unusable> {
        for count in 1..=above.len() {
            let at = &above[..count];
            let found = match self.roots.open_below(at) {
                Err(Unusable::System(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP)) => {
                    return Ok(false);
                }
                found => file::stat(&found?)?,
            };
            if found.mount_root {
                match self.roots.source.open_beneath(at) {
                    Ok(_) => {}
                    Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(true),
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        Ok(false)
    }

    /// Whether the source has an entry.
    fn source_has(&self, entry: &Entry) -> Result<bool, Error> {
        let (above, own) = split(&entry.path);
        let looked_up =
            self.roots.source.open_beneath(&above).and_then(|parent| parent.stat_name(own));
        match looked_up {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => {
                Err(at_source("look up what is deleted in", &self.unit.header, &entry.path, errno))
            }
        }
    }
}

/// Returns the names of entries, those that follow one another in one directory together (pure).
fn names_of(entries: &[Entry]) -> Vec<PeerNames> {
    let mut all: Vec<PeerNames> = Vec::new();
    for entry in entries {
        let (above, own) = split(&entry.path);
        // The root itself is no entry.
        if own == "." {
            continue;
        }
        match all.last_mut() {
            Some(last) if last.way.iter().eq(&above) => last.names.push(own.to_owned()),
            _ => {
                let way: Vec<OsString> = above.iter().map(|name| (*name).to_owned()).collect();
                all.push(PeerNames { way, names: vec![own.to_owned()] });
            }
        }
    }
    all
}

/// Whether a directory is as the plan saw it, but for what units changed in it. Its mode may be that of the source since an
/// earlier attempt.
fn is_unchanged_directory(planned: Option<&Identity>, found: &Stat, source: &Stat) -> bool {
    planned.is_none_or(|planned| {
        planned.inode == found.inode
            && (planned.mode == found.mode || source.permissions() == found.permissions())
    })
}
