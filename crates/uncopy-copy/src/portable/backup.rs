//! Keeps the file that a copy replaces, under a further name beside it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use super::decide;
use super::names::{directory_of, temporary_path};
use crate::backup_name::{self, BackupName};
use crate::options::Backup;
use uncopy_core::Objection;
use uncopy_os::native::CopyCalls;

/// Length of names that every system takes, in its units, which are no more than bytes.
const MAX_UNITS: usize = 255;

/// Gives the entry `target`, if there is one, the name of a backup too. A hard link first, so that neither the old file nor
/// its name is ever missing; where there are no hard links, the entry is renamed.
pub(super) fn keep(calls: &dyn CopyCalls, target: &Path, backup: &Backup) -> io::Result<()> {
    match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => {}
    }
    let name = target.file_name().unwrap_or_default();
    match BackupName::choose(name, backup, || last_number(calls, target, name))? {
        BackupName::Numbered { last } => keep_numbered(calls, target, last),
        BackupName::Simple(kept) => keep_simple(calls, target, &target.with_file_name(kept)),
    }
}

/// Returns why the backup cannot have its name: it is that of a directory, which no file replaces, or too long.
pub(super) fn obstacle(calls: &dyn CopyCalls, target: &Path, backup: &Backup) -> Option<Objection> {
    let name = target.file_name().unwrap_or_default();
    let is_too_long = |kept: &OsStr| {
        let looked = fs::symlink_metadata(target.with_file_name(kept));
        // Windows refuses characters in the same way.
        kept.len() > MAX_UNITS
            && looked.is_err_and(|error| error.kind() == io::ErrorKind::InvalidFilename)
    };
    let is_directory = |kept: &OsStr| {
        fs::symlink_metadata(target.with_file_name(kept)).is_ok_and(|found| found.is_dir())
    };
    let found = match backup.overwritten(name) {
        Some(kept) if is_directory(&kept) => Objection::BackupIsDirectory,
        Some(kept) if is_too_long(&kept) => Objection::BackupNameTooLong,
        Some(_) => return None,
        None if is_too_long(&backup_name::with_number(name, u64::MAX)) => {
            Objection::BackupNameTooLong
        }
        None => return None,
    };
    match BackupName::choose(name, backup, || last_number(calls, target, name)).ok()? {
        BackupName::Simple(_) => Some(found),
        BackupName::Numbered { last } => {
            let next = backup_name::with_number(name, last.saturating_add(1));
            is_too_long(&next).then_some(Objection::BackupNameTooLong)
        }
    }
}

/// Whether a backup of this entry would get a number.
pub(super) fn is_numbered(
    calls: &dyn CopyCalls,
    target: &Path,
    backup: &Backup,
) -> io::Result<bool> {
    let name = target.file_name().unwrap_or_default();
    let name = BackupName::choose(name, backup, || last_number(calls, target, name))?;
    Ok(matches!(name, BackupName::Numbered { .. }))
}

fn last_number(calls: &dyn CopyCalls, target: &Path, name: &OsStr) -> io::Result<u64> {
    let names = calls.names(directory_of(target))?;
    Ok(backup_name::last_number(name, names.iter().map(|name| name.as_os_str())))
}

fn keep_numbered(calls: &dyn CopyCalls, target: &Path, last: u64) -> io::Result<()> {
    let (system, name) = (calls.system(), target.file_name().unwrap_or_default());
    let mut number = last;
    loop {
        number = number.checked_add(1).ok_or(io::ErrorKind::AlreadyExists)?;
        let kept = target.with_file_name(backup_name::with_number(name, number));
        let made = match calls.hard_link(target, &kept) {
            Err(error)
                if decide::cannot_link(system, &error) && decide::renames_to_free_names(system) =>
            {
                calls.rename_to_free(target, &kept)
            }
            made => made,
        };
        match made {
            // Another process was quicker.
            Err(error) if decide::is_taken(system, &error) => {}
            // So was one that removed the old file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            made => return made,
        }
    }
}

fn keep_simple(calls: &dyn CopyCalls, target: &Path, kept: &Path) -> io::Result<()> {
    let system = calls.system();
    // Without an earlier backup no temporary name is needed, which a kill would leave.
    match calls.hard_link(target, kept) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // The other errors come again.
        Err(_) => {}
    }
    let mut number = 0;
    let temporary = loop {
        let temporary = temporary_path(target, number);
        match calls.hard_link(target, &temporary) {
            Ok(()) => break temporary,
            Err(error) if decide::is_taken(system, &error) => number += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if decide::cannot_link(system, &error) => return calls.rename(target, kept),
            Err(error) => return Err(error),
        }
    };
    let renamed = calls.rename(&temporary, kept);
    // A rename between two names of one file does nothing (rename(2)).
    match calls.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => renamed.and(Err(error)),
        _ => renamed,
    }
}
