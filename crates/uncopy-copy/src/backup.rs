//! Keeps the file that a copy replaces, under a further name in its directory.
//!
//! The further name is made first, as a hard link, so that the name never refers to nothing and the old
//! file always has one. Where the filesystem has no hard links the old file is renamed.

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::FileType;

use super::backup_name::{self, BackupName};
use super::options::Backup;
use super::stale;
use uncopy_core::{Errno, Objection};
use uncopy_os::file::Stat;
use uncopy_os::{Sys, directory, name};

/// Gives the entry of this name, if there is one, the name of a backup too.
pub(crate) fn keep(directory: BorrowedFd<'_>, target: &OsStr, backup: &Backup) -> Sys<()> {
    match directory::stat_name(directory, target) {
        Err(Errno::ENOENT) => return Ok(()),
        Err(errno) => return Err(errno),
        Ok(found) if found.file_type() == FileType::Directory => return Err(Errno::EISDIR),
        Ok(_) => {}
    }
    match BackupName::choose(target, backup, || last_number(directory, target))? {
        BackupName::Numbered { last } => keep_numbered(directory, target, last),
        BackupName::Simple(kept) => keep_simple(directory, target, &kept),
    }
}

/// Whether the one backup that is overwritten is this file, or the link `source_name` that leads to it, so that making
/// it would destroy a source.
pub(crate) fn would_overwrite(
    directory: BorrowedFd<'_>,
    target: &OsStr,
    backup: &Backup,
    source: &Stat,
    source_name: Option<&OsStr>,
) -> bool {
    let is_source = |found: Sys<Stat>| found.is_ok_and(|found| found.is_same_file(source));
    let is_overwritten = |kept: OsString| {
        is_source(directory::stat_name(directory, &kept))
            || source_name == Some(&kept) && is_source(directory::stat_target(directory, &kept))
    };
    has_one_name(directory, target, backup, is_overwritten)
}

/// Returns why the backup cannot have its name: it is that of a directory, which no file replaces, or too long.
pub(crate) fn obstacle(
    directory: BorrowedFd<'_>,
    target: &OsStr,
    backup: &Backup,
) -> Option<Objection> {
    let look = |kept: &OsStr| directory::stat_name(directory, kept);
    let is_too_long = |kept: &OsStr| look(kept).is_err_and(|errno| errno == Errno::ENAMETOOLONG);
    let found = match backup.overwritten(target).map(|kept| look(&kept)) {
        Some(Ok(found)) if found.file_type() == FileType::Directory => Objection::BackupIsDirectory,
        Some(Err(Errno::ENAMETOOLONG)) => Objection::BackupNameTooLong,
        Some(_) => return None,
        None if is_too_long(&backup_name::with_number(target, u64::MAX)) => {
            Objection::BackupNameTooLong
        }
        None => return None,
    };
    match BackupName::choose(target, backup, || last_number(directory, target)).ok()? {
        BackupName::Simple(_) => Some(found),
        BackupName::Numbered { last } => {
            let next = backup_name::with_number(target, last.saturating_add(1));
            is_too_long(&next).then_some(Objection::BackupNameTooLong)
        }
    }
}

/// Whether the backup of this name gets no number, and has a name of which this is true.
fn has_one_name(
    directory: BorrowedFd<'_>,
    target: &OsStr,
    backup: &Backup,
    is_true: impl FnOnce(OsString) -> bool,
) -> bool {
    backup.overwritten(target).is_some_and(is_true)
        && is_numbered(directory, target, backup).is_ok_and(|numbered| !numbered)
}

/// Whether a backup of this name would get a number.
pub(crate) fn is_numbered(directory: BorrowedFd<'_>, target: &OsStr, backup: &Backup) -> Sys<bool> {
    let name = BackupName::choose(target, backup, || last_number(directory, target))?;
    Ok(matches!(name, BackupName::Numbered { .. }))
}

/// Returns the highest number of a backup of this name; 0: there is none.
fn last_number(directory: BorrowedFd<'_>, target: &OsStr) -> Sys<u64> {
    let names = name::names_with_prefix(directory, target.as_bytes(), usize::MAX)?;
    Ok(backup_name::last_number(target, names.iter().map(|name| name.as_os_str())))
}

fn keep_numbered(directory: BorrowedFd<'_>, target: &OsStr, last: u64) -> Sys<()> {
    let mut number = last;
    loop {
        number = number.checked_add(1).ok_or(Errno::EOVERFLOW)?;
        let kept = backup_name::with_number(target, number);
        let made = match directory::hard_link(directory, target, directory, &kept) {
            Err(errno) if cannot_link(errno) => name::rename_new(directory, target, &kept),
            other => other,
        };
        match made {
            // Another process was quicker.
            Err(Errno::EEXIST) => {}
            // So was one that removed the old file.
            Err(Errno::ENOENT) => return Ok(()),
            other => return other,
        }
    }
}

fn keep_simple(directory: BorrowedFd<'_>, target: &OsStr, kept: &OsStr) -> Sys<()> {
    // Without an earlier backup no temporary name is needed, which a kill would leave.
    match directory::hard_link(directory, target, directory, kept) {
        Ok(()) | Err(Errno::ENOENT) => return Ok(()),
        // The other errors come again.
        Err(_) => {}
    }
    let temporary = loop {
        let temporary = stale::temporary_name(target, stale::Kind::File)?;
        match directory::hard_link(directory, target, directory, &temporary) {
            Ok(()) => break temporary,
            Err(Errno::EEXIST) => {}
            Err(Errno::ENOENT) => return Ok(()),
            Err(errno) if cannot_link(errno) => return name::rename(directory, target, kept),
            Err(errno) => return Err(errno),
        }
    };
    let renamed = name::rename(directory, &temporary, kept);
    // A rename between two names of one file does nothing (rename(2)).
    match name::unlink(directory, &temporary) {
        Ok(()) | Err(Errno::ENOENT) => renamed,
        Err(errno) => renamed.and(Err(errno)),
    }
}

/// No hard links on this filesystem, too many, or none to a file of another user (`link(2)`).
fn cannot_link(errno: Errno) -> bool {
    matches!(errno, Errno::EMLINK | Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::fd::AsFd;
    use std::path::Path;

    use super::*;
    use crate::options::Numbering;

    fn contents(path: &Path) -> BTreeMap<String, String> {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
        let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
        entries.map(|e| (name(&e), fs::read_to_string(e.path()).unwrap())).collect()
    }

    #[test]
    fn the_old_file_gets_the_name_of_its_backup() {
        for (numbering, there, expected) in [
            (Numbering::Never, &[][..], "a.old"),
            (Numbering::Never, &["a.old", "a.~1~"], "a.old"),
            (Numbering::Always, &[], "a.~1~"),
            (Numbering::Always, &["a.~9~", "a.~10~", "a.~011~", "a.~x~", "b.~30~"], "a.~11~"),
            (Numbering::IfThereAreSome, &["a.~0~", "ab.~1~"], "a.old"),
            (Numbering::IfThereAreSome, &["a.~3~"], "a.~4~"),
        ] {
            let root = tempfile::tempdir().unwrap();
            for name in there {
                fs::write(root.path().join(name), *name).unwrap();
            }
            fs::write(root.path().join("a"), "old").unwrap();
            let backup = Backup { numbering, suffix: ".old".into() };
            let directory = fs::File::open(root.path()).unwrap();
            let mut wanted = contents(root.path());
            keep(directory.as_fd(), OsStr::new("a"), &backup).unwrap();
            wanted.insert(expected.to_owned(), "old".to_owned());
            assert_eq!(contents(root.path()), wanted, "{backup:?} {there:?}");
        }
    }

    #[test]
    fn a_backup_that_is_the_file_itself_stays() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "old").unwrap();
        fs::hard_link(root.path().join("a"), root.path().join("a~")).unwrap();
        let directory = fs::File::open(root.path()).unwrap();
        let backup = Backup::default();
        let before = contents(root.path());
        keep(directory.as_fd(), OsStr::new("a"), &backup).unwrap();
        keep(directory.as_fd(), OsStr::new("missing"), &backup).unwrap();
        assert_eq!(contents(root.path()), before);
    }

    #[test]
    fn a_backup_that_cannot_be_made_changes_nothing() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "old").unwrap();
        fs::create_dir(root.path().join("a~")).unwrap();
        let directory = fs::File::open(root.path()).unwrap();
        let found = keep(directory.as_fd(), OsStr::new("a"), &Backup::default());
        assert_eq!(found, Err(Errno::EISDIR));
        assert_eq!(
            keep(directory.as_fd(), OsStr::new("a~"), &Backup::default()),
            Err(Errno::EISDIR)
        );
        let names: Vec<_> = fs::read_dir(root.path()).unwrap().collect();
        assert_eq!((names.len(), fs::read(root.path().join("a")).unwrap()), (2, b"old".to_vec()));
    }
}
