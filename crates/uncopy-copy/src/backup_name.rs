//! Names of backups, as `cp` gives them (pure).

use std::ffi::{OsStr, OsString};

use super::options::{Backup, Numbering};
use super::path_bytes;

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

/// For the program, which looks after files of its own.
impl Backup {
    /// Returns the name of the backup that a new one of this entry may overwrite. `None`: each gets a name of its own.
    #[doc(hidden)]
    #[must_use]
    pub fn overwritten(&self, target: &OsStr) -> Option<OsString> {
        (self.numbering != Numbering::Always).then(|| simple(target, self))
    }

    /// Returns the name of the entry whose new backup may overwrite an entry of this name.
    #[doc(hidden)]
    #[must_use]
    pub fn overwriting(&self, kept: &OsStr) -> Option<OsString> {
        let suffix = self.suffix.as_encoded_bytes();
        let target =
            kept.as_encoded_bytes().strip_suffix(suffix).filter(|target| !target.is_empty());
        target.filter(|_| self.numbering != Numbering::Always).and_then(path_bytes::decode)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_backup_leads_back_to_its_entry() {
        for (suffix, name, expected) in [
            ("~", "a~", Some("a")),
            ("~", "a~~", Some("a~")),
            ("~", "a", None),
            ("~", "~", None),
            (".old", "a.old", Some("a")),
            (".old", "a~", None),
        ] {
            let simple = Backup::new().numbering(Numbering::Never).suffix(suffix);
            let some = Backup::new().numbering(Numbering::IfThereAreSome).suffix(suffix);
            for backup in [simple, some] {
                let target = backup.overwriting(OsStr::new(name));
                assert_eq!(target.as_deref(), expected.map(OsStr::new), "{name} {suffix}");
                let kept = target.and_then(|target| backup.overwritten(&target));
                assert_eq!(kept.as_deref(), expected.map(|_| OsStr::new(name)), "{name} {suffix}");
            }
            let numbered = Backup::new().numbering(Numbering::Always).suffix(suffix);
            assert_eq!(numbered.overwriting(OsStr::new(name)), None);
            assert_eq!(numbered.overwritten(OsStr::new(name)), None);
        }
    }
}
