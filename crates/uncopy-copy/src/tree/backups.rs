//! Decides about an entry that is replaced: whether it is the caller's, of which a backup is kept and whose mode counts,
//! or was placed by the job itself, in this run or in one that was killed.

use std::os::fd::AsFd;

use rustix::fs::FileType;

use super::as_copied::is_copy;
use super::context::Context;
use super::journal::EarlierRun;
use super::place::Place;
use super::resume::Resume;
use crate::backup;
use crate::backup_claims::Claimant;
use crate::destination::{ExistingEntry, check_mode};
use crate::options::Backup;
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::file::Stat;
use uncopy_os::{Sys, directory};

/// Parts of a job that decide about backups.
#[derive(Clone, Copy)]
pub(super) struct Backups<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) resume: &'a Resume,
}

impl Backups<'_> {
    /// Refuses to replace an entry whose backup would have the name of a directory, or that of the source, or too long
    /// a one.
    pub(super) fn check_name(self, place: &Place<'_>) -> Result<()> {
        let backup = self.context.options().copy.backup.as_ref();
        let Some(backup) = backup.filter(|_| !place.directory.entered.private) else {
            return Ok(());
        };
        let directory = place.open.destination.as_fd();
        let refuse = |why| Err(Error::new("replace", place.destination(), Reason::Refused(why)));
        if let Some(why) = backup::obstacle(directory, place.target, backup) {
            return refuse(why);
        }
        let source = place.open.source.here();
        let source = source.and_then(|source| directory::stat_name(source, place.name).ok());
        let is_named_so = backup.overwritten(place.target).as_deref() == Some(place.name);
        match source.is_some_and(|source| {
            is_named_so && backup::would_overwrite(directory, place.target, backup, &source, None)
        }) {
            true => refuse(Objection::BackupIsSource),
            false => Ok(()),
        }
    }

    /// Claims the names that copying an entry takes. Returns whether the entry `found` in its place is to be kept as one
    /// of the caller's: not if an earlier run of the job placed it, which kept what was there before. `is_same` compares
    /// it with the source.
    ///
    /// # Errors
    /// The backup would replace another copy or backup of this job.
    pub(super) fn keeps_old(
        self,
        place: &Place<'_>,
        found: Option<&ExistingEntry>,
        is_same: impl FnOnce(&ExistingEntry) -> Result<bool>,
    ) -> Result<bool> {
        let options = &self.context.options().copy;
        let refuse = |why| Err(Error::new("replace", place.destination(), Reason::Refused(why)));
        let fail = |errno| Error::destination("examine", place.destination(), errno);
        // In a tree that is being built nothing is the caller's.
        let replaced = found.filter(|_| !place.directory.entered.private);
        if let Some(why) = self.claim(place, replaced.is_some()).map_err(fail)? {
            return refuse(why);
        }
        let Some(replaced) = replaced else { return Ok(true) };
        let Some(earlier) = self.resume.earlier() else { return Ok(true) };
        let Some(backup) = &options.backup else {
            // Without a backup the only question is whether a mode that forbids writing is the caller's.
            let is_protected = replaced.stat.file_type() == FileType::RegularFile
                && earlier.may_have_placed(&replaced.stat)
                && check_mode(options, place.open.destination.as_fd(), place.target)
                    == Err(Errno::EACCES);
            return Ok(!(is_protected && is_same(replaced)?));
        };
        if is_same(replaced)? {
            return Ok(false);
        }
        match is_kept_by(&earlier, place, replaced, backup).map_err(fail)? {
            true => refuse(Objection::BackupOfKilledRun),
            false => Ok(true),
        }
    }

    /// Whether an earlier run of the job placed the entry that has the name, without noting it.
    pub(super) fn has_placed(
        self,
        place: &Place<'_>,
        source: &Stat,
        found: &ExistingEntry,
    ) -> bool {
        let options = &self.context.options().copy;
        let earlier = self.resume.earlier();
        earlier.is_some_and(|earlier| earlier.may_have_placed(&found.stat))
            && is_copy(options, place, source, found)
    }

    fn claim(self, place: &Place<'_>, replaces: bool) -> Sys<Option<Objection>> {
        let Some(claims) = self.context.backup_claims() else { return Ok(None) };
        let directory = place.open.destination.as_fd();
        let (source, target) = (&place.source(), place.target);
        claims.claim(&Claimant { source, directory, target, replaces })
    }
}

/// Whether the backup would take the name of one that the earlier run may have made.
fn is_kept_by(
    earlier: &EarlierRun,
    place: &Place<'_>,
    replaced: &ExistingEntry,
    backup: &Backup,
) -> Sys<bool> {
    let directory = place.open.destination.as_fd();
    let Some(kept) = backup.overwritten(place.target) else { return Ok(false) };
    let kept = match directory::stat_name(directory, &kept) {
        Err(Errno::ENOENT) => return Ok(false),
        other => other?,
    };
    // A kill between the backup and the replacement leaves two names of the old file.
    let is_doubtful = earlier.may_have_placed(&kept) && !kept.is_same_file(&replaced.stat);
    Ok(is_doubtful && !backup::is_numbered(directory, place.target, backup)?)
}
