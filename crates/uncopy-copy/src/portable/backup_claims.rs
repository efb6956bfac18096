//! Entries that a job copied or kept as backups, so that neither takes the place of the other. They are known by identity and
//! not by name: where case is folded, `A~` is the backup of `a`.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use super::backup;
use super::identity::{Identity, identify};
use crate::options::{Backup, Numbering};
use uncopy_core::{Error, Objection, Reason, Result, other_system};
use uncopy_os::native::CopyCalls;

/// Entries with names like those of backups, as far as this job gave them. A numbered backup takes a free name in any case.
#[derive(Debug)]
pub(super) struct BackupClaims {
    backup: Backup,
    copies: HashSet<Identity>,
    kept: HashSet<Identity>,
}

impl BackupClaims {
    /// Returns `None` if no backup has a name that something else may have.
    pub(super) fn of(backup: Option<&Backup>) -> Option<BackupClaims> {
        let backup = backup.filter(|backup| backup.numbering != Numbering::Always)?.clone();
        Some(BackupClaims { backup, copies: HashSet::new(), kept: HashSet::new() })
    }

    /// Checks that an existing entry may be replaced by a copy of `source`, and kept as a backup. `named`: its path as the
    /// caller knows it.
    ///
    /// # Errors
    /// It is a backup that this job made, or its backup would replace the source, or a copy or backup of this job.
    pub(super) fn check(
        &self,
        calls: &dyn CopyCalls,
        source: &Path,
        target: &Path,
        named: &Path,
    ) -> Result<()> {
        let looked = self.objection(calls, source, target);
        let fail = |error| other_system::refused_by_destination("examine", named, error);
        match looked.map_err(fail)? {
            Some(why) => Err(Error::new("replace", named, Reason::Refused(why))),
            None => Ok(()),
        }
    }

    fn objection(
        &self,
        calls: &dyn CopyCalls,
        source: &Path,
        target: &Path,
    ) -> io::Result<Option<Objection>> {
        let name = target.file_name().unwrap_or_default();
        let is_numbered = |target: &Path| backup::is_numbered(calls, target, &self.backup);
        if find(calls, target)?.is_some_and(|found| self.kept.contains(&found)) {
            let original = self.backup.overwriting(name).map(|name| target.with_file_name(name));
            if !original.map_or(Ok(false), |original| is_numbered(&original))? {
                return Ok(Some(Objection::NameOfBackup));
            }
        }
        let Some(kept) = self.backup.overwritten(name) else { return Ok(None) };
        let Some(found) = find(calls, &target.with_file_name(&kept))? else { return Ok(None) };
        let has_its_name = source.file_name().is_some_and(|name| name.eq_ignore_ascii_case(&kept));
        let why = match &found {
            own if self.kept.contains(own) || self.copies.contains(own) => Objection::BackupIsCopy,
            _ if has_its_name && find(calls, source)?.as_ref() == Some(&found) => {
                Objection::BackupIsSource
            }
            _ => return Ok(None),
        };
        Ok((!is_numbered(target)?).then_some(why))
    }

    /// Notes a copy, and the backup of the entry that it `replaced`.
    pub(super) fn add(&mut self, calls: &dyn CopyCalls, target: &Path, replaced: bool) {
        let name = target.file_name().unwrap_or_default();
        if self.may_be_backup(name.to_string_lossy().as_ref()) {
            self.copies.extend(find(calls, target).ok().flatten());
        }
        if let Some(kept) = self.backup.overwritten(name).filter(|_| replaced) {
            self.kept.extend(find(calls, &target.with_file_name(kept)).ok().flatten());
        }
    }

    /// Whether a backup may have this name, as systems compare names.
    fn may_be_backup(&self, name: &str) -> bool {
        let suffix = self.backup.suffix.to_string_lossy();
        !suffix.is_ascii() || name.to_ascii_lowercase().ends_with(&suffix.to_ascii_lowercase())
    }
}

/// Identifies what has a name, which may be a link.
fn find(calls: &dyn CopyCalls, path: &Path) -> io::Result<Option<Identity>> {
    match path.symlink_metadata() {
        Ok(found) => Ok(Some(identify(calls, path, false, &found).identity)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
