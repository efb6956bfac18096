//! Names that a job gives to copies and to backups, so that neither takes the place of the other.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::backup;
use super::options::{Backup, Numbering};
use uncopy_core::Objection;
use uncopy_os::{Sys, file};

/// Names that end like those of backups, as far as this job gave them. A numbered backup takes a free name in any case.
#[derive(Debug)]
pub(crate) struct BackupClaims {
    backup: Backup,
    names: Mutex<HashMap<Name, Claim>>,
}

/// Device and inode of a directory, and a name in it.
type Name = ((u32, u32), u64, OsString);

/// Purpose of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Claim {
    Copy,
    /// Backup of the entry that the copy of this source replaces.
    Backup(PathBuf),
}

/// A copy that is about to be made.
pub(crate) struct Claimant<'a> {
    pub(crate) source: &'a Path,
    /// Directory of the destination.
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) target: &'a OsStr,
    /// Whether an entry of this name is replaced.
    pub(crate) replaces: bool,
}

impl BackupClaims {
    /// Returns `None` if no backup has a name that something else may have.
    pub(crate) fn of(backup: Option<&Backup>) -> Option<BackupClaims> {
        let backup = backup.filter(|backup| backup.numbering != Numbering::Always)?;
        Some(BackupClaims { backup: backup.clone(), names: Mutex::default() })
    }

    /// Claims the name of a copy, and that of the backup that it makes, before either is there. Returns why one of
    /// them is taken.
    pub(crate) fn claim(&self, claimant: &Claimant<'_>) -> Sys<Option<Objection>> {
        let Claimant { source, directory, target, replaces } = *claimant;
        if let Some(original) = self.backup.overwriting(target)
            && !self.add(directory, target, &Claim::Copy)?
            && !self.numbers(directory, &original)?
        {
            return Ok(Some(Objection::NameOfBackup));
        }
        let kept = replaces.then(|| self.backup.overwritten(target)).flatten();
        if let Some(kept) = kept
            && !self.add(directory, &kept, &Claim::Backup(source.to_owned()))?
            && !self.numbers(directory, target)?
        {
            return Ok(Some(Objection::BackupIsCopy));
        }
        Ok(None)
    }

    /// Whether backups of this name are numbered.
    fn numbers(&self, directory: BorrowedFd<'_>, target: &OsStr) -> Sys<bool> {
        backup::is_numbered(directory, target, &self.backup)
    }

    /// Returns `false` if the name has another purpose.
    fn add(&self, directory: BorrowedFd<'_>, name: &OsStr, claim: &Claim) -> Sys<bool> {
        let directory = file::stat(directory)?;
        let name = (directory.device, directory.inode, name.to_owned());
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(*names.entry(name).or_insert_with(|| claim.clone()) == *claim)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_name_has_one_purpose() {
        const FREE: Option<Objection> = None;
        for numbering in [Numbering::Never, Numbering::IfThereAreSome] {
            let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            let [one, other] = directories.each_ref().map(|d| File::open(d.path()).unwrap());
            let backup = Backup { numbering, ..Backup::default() };
            let claims = BackupClaims::of(Some(&backup)).unwrap();
            let claim = |directory: &File, source: &str, target: &str, replaces| {
                let (source, target) = (source.as_ref(), target.as_ref());
                let directory = directory.as_fd();
                claims.claim(&Claimant { source, directory, target, replaces }).unwrap()
            };
            assert_eq!(claim(&one, "a~", "a~", false), FREE);
            // A copy that is tried again.
            assert_eq!(claim(&one, "a~", "a~", false), FREE);
            assert_eq!(claim(&one, "a", "a", false), FREE);
            assert_eq!(claim(&one, "a", "a", true), Some(Objection::BackupIsCopy));
            assert_eq!(claim(&other, "a", "a", true), FREE);
            assert_eq!(claim(&other, "a", "a", true), FREE);
            assert_eq!(claim(&other, "b/a", "a", true), Some(Objection::BackupIsCopy));
            assert_eq!(claim(&other, "a~", "a~", true), Some(Objection::NameOfBackup));
            assert_eq!(claim(&other, "~", "~", true), FREE);
            fs::write(directories[0].path().join("a.~1~"), "").unwrap();
            let expected = Some(Objection::BackupIsCopy).filter(|_| numbering == Numbering::Never);
            assert_eq!(claim(&one, "a", "a", true), expected);
        }
        let numbered = Backup { numbering: Numbering::Always, ..Backup::default() };
        assert!(BackupClaims::of(Some(&numbered)).is_none() && BackupClaims::of(None).is_none());
    }
}
