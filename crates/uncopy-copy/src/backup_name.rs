//! Names of backups, as `cp` gives them (pure).

use std::ffi::{OsStr, OsString};

use super::options::{Backup, Numbering};

/// Name that a replaced file gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BackupName {
    /// This one, which replaces the previous backup.
    Simple(OsString),
    /// The first free number behind this one.
    Numbered { last: u64 },
}

impl BackupName {
    /// Chooses the name for `target`. `last_number` looks up the highest number of its backups; 0: there is none.
    pub(crate) fn choose<E>(
        target: &OsStr,
        backup: &Backup,
        last_number: impl FnOnce() -> Result<u64, E>,
    ) -> Result<BackupName, E> {
        let last = match backup.numbering {
            Numbering::Never => None,
            Numbering::Always => Some(last_number()?),
            Numbering::IfThereAreSome => Some(last_number()?).filter(|last| *last > 0),
        };
        Ok(match last {
            Some(last) => BackupName::Numbered { last },
            None => BackupName::Simple(simple(target, backup)),
        })
    }
}

/// Returns the name of a backup that making a new one may overwrite.
pub(crate) fn overwritten(target: &OsStr, backup: &Backup) -> Option<OsString> {
    (backup.numbering != Numbering::Always).then(|| simple(target, backup))
}

fn simple(target: &OsStr, backup: &Backup) -> OsString {
    let mut name = target.to_owned();
    name.push(&backup.suffix);
    name
}

/// Returns the name of the backup with this number.
pub(crate) fn with_number(target: &OsStr, number: u64) -> OsString {
    let mut name = target.to_owned();
    name.push(format!(".~{number}~"));
    name
}

/// Returns the highest number among names of a directory that are backups of this one; 0: there is none.
pub(crate) fn last_number<'a>(target: &OsStr, names: impl Iterator<Item = &'a OsStr>) -> u64 {
    names.filter_map(|name| number_of(name, target)).max().unwrap_or(0)
}

/// Parses the number of a backup, as `cp` writes it: without zeros before it.
fn number_of(name: &OsStr, target: &OsStr) -> Option<u64> {
    let behind = name.as_encoded_bytes().strip_prefix(target.as_encoded_bytes())?;
    let digits = behind.strip_prefix(b".~")?.strip_suffix(b"~")?;
    let is_number = digits.iter().all(u8::is_ascii_digit) && !digits.starts_with(b"0");
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}
