//! Temporary names, and what a killed run may have left under one.

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, OFlags};

use super::remove;
use crate::sys::file::{self, Stat};
use crate::sys::{Sys, directory, name};

/// Directory entries that are looked at for leftovers, so that replacing one file in a directory
/// of millions stays quick. Leftovers behind them are found by a run that meets them earlier.
const LOOK_AT_ENTRIES: usize = 1 << 16;

/// What is built under a temporary name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file, or what else an entry of a tree is.
    File,
    /// A whole tree.
    Tree,
}

impl Kind {
    fn suffix(self) -> &'static str {
        match self {
            Kind::File => ".tmp",
            Kind::Tree => ".tree",
        }
    }

    fn file_type(self) -> FileType {
        match self {
            Kind::File => FileType::RegularFile,
            Kind::Tree => FileType::Directory,
        }
    }
}

/// `.uncopy-<digest of the destination's name>-<random>.tmp` (or `.tree`): recognisable, unguessable,
/// and short enough for every filesystem however long the destination's name is.
pub(crate) fn temporary_name(destination: &OsStr, kind: Kind) -> Sys<OsString> {
    let random = u128::from_ne_bytes(name::random_bytes()?);
    Ok(format!("{}{random:032x}{}", prefix(destination), kind.suffix()).into())
}

/// Whether a name is one of those that files and trees are built under, or of their journals.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let suffixes = [Kind::File.suffix(), Kind::Tree.suffix(), JOURNAL];
    let ends = suffixes.map(|suffix| name.ends_with(suffix.as_bytes()));
    name.starts_with(b".uncopy-") && ends.contains(&true)
}

/// How the names of journals end.
const JOURNAL: &str = ".journal";

/// The name of the journal beside a destination, which no other destination shares.
pub(crate) fn journal_name(destination: &OsStr) -> OsString {
    format!(".uncopy-{}{JOURNAL}", name_digest(destination)).into()
}

fn prefix(destination: &OsStr) -> String {
    format!(".uncopy-{}-", name_digest(destination))
}

/// The first eight bytes of a name's BLAKE3 digest, as hexadecimal.
fn name_digest(name: &OsStr) -> String {
    blake3::hash(name.as_bytes()).to_hex()[..16].to_owned()
}

/// Removes what earlier runs to the same destination left, unless somebody holds its lock.
///
/// Errors are of no interest: the copy itself is done, and the next run tries again.
pub(crate) fn remove_leftovers(directory: BorrowedFd<'_>, destination: &OsStr, kind: Kind) {
    remove_leftovers_but(directory, destination, kind, |_| false);
}

/// The same but for those that are kept, which is asked while their lock is held.
pub(crate) fn remove_leftovers_but(
    directory: BorrowedFd<'_>,
    destination: &OsStr,
    kind: Kind,
    is_kept: impl Fn(&OsStr) -> bool,
) {
    let prefix = prefix(destination);
    let names = name::names_with_prefix(directory, prefix.as_bytes(), LOOK_AT_ENTRIES);
    for leftover in names.unwrap_or_default() {
        if leftover.as_bytes().ends_with(kind.suffix().as_bytes()) {
            let _ = remove_unless_locked(directory, &leftover, kind, &is_kept);
        }
    }
}

/// Removes what earlier runs left of the files of a directory, whatever their names, unless somebody
/// holds its lock. A tree does this once for each directory, and not once for each file.
pub(crate) fn sweep(directory: BorrowedFd<'_>) {
    let names = name::names_with_prefix(directory, b".uncopy-", usize::MAX);
    for leftover in names.unwrap_or_default() {
        if leftover.as_bytes().ends_with(Kind::File.suffix().as_bytes()) {
            let _ = remove_unless_locked(directory, &leftover, Kind::File, &|_| false);
        }
    }
}

/// What cannot be locked, or is not, has its temporary name for a few calls: after so many seconds
/// nobody is at work on it.
const UNLOCKED_SECONDS: u64 = 60;

/// Links, special files and further names of files are made without a lock.
fn is_unlocked_kind(stat: &Stat) -> bool {
    match stat.file_type() {
        FileType::RegularFile => stat.links > 1,
        FileType::Directory | FileType::Unknown => false,
        _ => true,
    }
}

fn is_old(stat: &Stat) -> bool {
    let changed = Duration::from_secs(u64::try_from(stat.changed.seconds).unwrap_or(0));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(changed) >= Duration::from_secs(UNLOCKED_SECONDS)
}

fn remove_unless_locked(
    directory: BorrowedFd<'_>,
    leftover: &OsStr,
    kind: Kind,
    is_kept: &dyn Fn(&OsStr) -> bool,
) -> Sys<()> {
    let stat = directory::stat_name(directory, leftover)?;
    let ours = stat.uid == file::effective_uid() || file::effective_uid() == 0;
    if kind == Kind::File && is_unlocked_kind(&stat) {
        return if ours && is_old(&stat) { name::unlink(directory, leftover) } else { Ok(()) };
    }
    if stat.file_type() != kind.file_type() || !ours {
        return Ok(());
    }
    let file = name::open_existing(directory, leftover, OFlags::RDONLY)?;
    if !file::stat(&file)?.is_same_file(&stat) {
        return Ok(());
    }
    file::try_lock(&file)?;
    if is_kept(leftover) {
        return Ok(());
    }
    if kind == Kind::Tree {
        return remove::tree(directory, leftover);
    }
    // The lock's last holder may have renamed the file into place meanwhile; its temporary name
    // is random and not used again, so that this removes the leftover or nothing.
    name::unlink(directory, leftover)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_recognisable_short_and_different() {
        let long = OsString::from("x".repeat(255));
        let (a, b) = (
            temporary_name(&long, Kind::File).unwrap(),
            temporary_name(&long, Kind::File).unwrap(),
        );
        assert_ne!(a, b);
        assert!(a.as_bytes().starts_with(prefix(&long).as_bytes()));
        assert!(a.len() < 100);
        assert_ne!(prefix(&long), prefix(OsStr::new("y")));
    }
}
