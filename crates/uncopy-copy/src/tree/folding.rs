//! Finds destination entries whose names differ from the source's only by folding: on vfat, and in
//! directories marked by `chattr +F` on ext4. Such an entry may be spelled in another case, with
//! dots at its end, or with its accents composed or not.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::FileType;

use super::directory::{Identity, Open, identity};
use crate::compress::other_origin;
use crate::source_directory::SourceDirectory;
use crate::{Level, Transform};
use uncopy_core::Errno;
use uncopy_os::capabilities::Filesystem;
use uncopy_os::{Sys, directory, file, name};

/// Source and destination of a directory.
pub(super) trait Sides {
    /// Looks up the file that a name of the destination refers to.
    fn look_up(&self, name: &OsStr) -> Sys<Identity>;

    /// Passes on each name of the destination, as it is written.
    fn list_destination(&self, visit: &mut dyn FnMut(&OsStr)) -> Sys<()>;

    /// Does the same for the source.
    fn list_source(&self, visit: &mut dyn FnMut(&OsStr)) -> Sys<()>;

    /// Whether the destination may fold more than the case of letters.
    fn may_fold_all(&self) -> bool;
}

/// Error: the names could not be compared.
#[derive(Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there are two sides")]
pub enum NotCompared {
    /// Those of the source could not be looked up.
    Source(Errno),
    /// Those of the destination could not be looked up.
    Destination(Errno),
}

/// Returns the entries of the destination that belong to a differently spelled name of the source.
/// One lookup per entry is enough in a directory that does not fold names.
pub(super) fn stood_for<'a>(
    sides: &impl Sides,
    entries: impl Iterator<Item = &'a OsStr>,
) -> Result<HashSet<&'a OsStr>, NotCompared> {
    let mut suspects: HashMap<Identity, Vec<&OsStr>> = HashMap::new();
    let mut may_fold_all = None;
    for entry in entries {
        let other = other_case(entry);
        // A change of case shows nothing about accents, and about dots at the end.
        let may_differ = other.is_none() || !entry.is_ascii();
        let found = if may_differ && *may_fold_all.get_or_insert_with(|| sides.may_fold_all()) {
            sides.look_up(entry).ok()
        } else {
            let found = other.and_then(|other| sides.look_up(&other).ok());
            found.filter(|found| sides.look_up(entry) == Ok(*found))
        };
        if let Some(found) = found {
            suspects.entry(found).or_default().push(entry);
        }
    }
    if suspects.is_empty() {
        return Ok(HashSet::new());
    }
    // Names of the source that refer to one of them.
    let mut standing: HashMap<OsString, Identity> = HashMap::new();
    let mut failed = None;
    let listed = sides.list_source(&mut |name| match sides.look_up(name) {
        Ok(found) if suspects.contains_key(&found) => drop(standing.insert(name.into(), found)),
        // No entry of the destination can be called so, or none is.
        Ok(_) | Err(Errno::ENOENT | Errno::EINVAL | Errno::ENAMETOOLONG) => {}
        Err(errno) => failed = Some(errno),
    });
    listed.map_err(NotCompared::Source)?;
    if let Some(errno) = failed {
        return Err(NotCompared::Destination(errno));
    }
    if !standing.is_empty() {
        // A hard link is no folding.
        let listed = sides.list_destination(&mut |name| {
            standing.remove(name);
        });
        listed.map_err(NotCompared::Destination)?;
    }
    let wanted: HashSet<Identity> = standing.into_values().collect();
    let (mut kept, mut numbers_changed) = (HashSet::new(), false);
    for (found, entries) in suspects {
        match wanted.contains(&found) {
            true => kept.extend(entries),
            // Some filesystems assign new inode numbers after dropping their cache, so nothing was
            // compared then.
            false => {
                numbers_changed |=
                    entries.iter().any(|entry| sides.look_up(entry).is_ok_and(|now| now != found));
            }
        }
    }
    match numbers_changed {
        true => Err(NotCompared::Destination(Errno::ESTALE)),
        false => Ok(kept),
    }
}

/// Returns the name with the case of one letter changed, an ASCII letter if there is one: those are
/// folded wherever others are. `None`: no letter has two cases.
pub(super) fn other_case(name: &OsStr) -> Option<OsString> {
    let mut bytes = name.as_bytes().to_owned();
    if let Some(letter) = bytes.iter_mut().find(|byte| byte.is_ascii_alphabetic()) {
        *letter ^= 0x20;
        return Some(OsString::from_vec(bytes));
    }
    let swapped = |letter: char| {
        let is_other = |other: &char| *other != letter && other.len_utf8() == letter.len_utf8();
        // A letter whose other case is several is none of those that are folded alike everywhere.
        let single = |mut letters: Vec<char>| letters.pop().filter(|_| letters.is_empty());
        let upper = single(letter.to_uppercase().collect()).filter(is_other);
        upper.or_else(|| single(letter.to_lowercase().collect()).filter(is_other))
    };
    let text = name.to_str()?;
    let (at, letter, other) =
        text.char_indices().find_map(|(at, letter)| Some((at, letter, swapped(letter)?)))?;
    let (before, behind) = (&text[..at], &text[at + letter.len_utf8()..]);
    Some(format!("{before}{other}{behind}").into())
}

/// A directory that is mirrored.
pub(super) struct Mirrored<'a> {
    pub(super) open: &'a Open,
    pub(super) transform: Transform,
}

impl Sides for Mirrored<'_> {
    fn look_up(&self, name: &OsStr) -> Sys<Identity> {
        directory::stat_name(&*self.open.destination, name).map(|stat| identity(&stat))
    }

    fn list_destination(&self, visit: &mut dyn FnMut(&OsStr)) -> Sys<()> {
        list(&*self.open.destination, |name, _| visit(name))
    }

    fn list_source(&self, visit: &mut dyn FnMut(&OsStr)) -> Sys<()> {
        // A compressed or decompressed file has another name in the destination.
        let back = match self.transform {
            Transform::None => Transform::None,
            Transform::Compress(_) => Transform::Decompress,
            Transform::Decompress => Transform::Compress(Level::default()),
        };
        let mut visit_both = |name: &OsStr| {
            visit(name);
            if let Some(other) = other_origin(name, back) {
                visit(&other);
            }
        };
        match &self.open.source {
            SourceDirectory::Here(source) => list(source, |name, _| visit_both(name)),
            SourceDirectory::There(source) => {
                source.names()?.iter().for_each(|name| visit_both(name));
                Ok(())
            }
        }
    }

    fn may_fold_all(&self) -> bool {
        folding(self.open) != Folding::No
    }
}

/// Whether a directory treats differently spelled names as the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folding {
    No,
    Yes,
    Unknown,
}

/// Finds out whether the destination does. A filesystem that folds only the case of ASCII (XFS with
/// `ascii-ci`) counts as one that does not.
pub(super) fn folding(open: &Open) -> Folding {
    folding_of(&open.destination, open.filesystems.1)
}

/// Finds out whether a directory of a filesystem does.
pub(super) fn folding_of(directory: &OwnedFd, filesystem: Filesystem) -> Folding {
    /// `FS_CASEFOLD_FL`, `include/uapi/linux/fs.h`.
    const CASEFOLD: u32 = 0x4000_0000;
    let is_marked = match filesystem {
        Filesystem::XFS | Filesystem::BTRFS => return Folding::No,
        Filesystem::VFAT | Filesystem::EXFAT | Filesystem::NTFS3 => return Folding::Yes,
        Filesystem::EXT4 | Filesystem::F2FS => true,
        other => other.is_memory(),
    };
    match file::inode_flags(directory) {
        Ok(flags) if is_marked && flags & CASEFOLD != 0 => Folding::Yes,
        Ok(_) | Err(Errno::ENOTTY) if is_marked => Folding::No,
        _ => Folding::Unknown,
    }
}

/// Lists a whole directory through a separate descriptor, so that the position of another listing
/// is kept.
pub(super) fn list(at: impl AsFd, mut visit: impl FnMut(&OsStr, FileType)) -> Sys<()> {
    let mut buffer = Vec::with_capacity(32 << 10);
    let at = name::open_directory_for_reading(at)?;
    directory::list(at, buffer.spare_capacity_mut(), |entry| {
        visit(OsStr::from_bytes(entry.name.to_bytes()), entry.kind);
        true
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kinds of folding.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Folds {
        Nothing,
        /// Letters of ASCII, and dots at the end.
        Ascii,
        /// An accent that stands behind its letter, and no case.
        Accents,
        /// All letters, and dots at the end.
        All,
    }

    /// A destination with inode numbers, and the names of a source.
    struct Fake {
        folds: Folds,
        destination: &'static [(&'static str, u64)],
        source: &'static [&'static str],
        /// Lookup from which on inodes have other numbers.
        renumbered_at: usize,
        looks: std::cell::Cell<usize>,
    }

    impl Sides for Fake {
        fn look_up(&self, name: &OsStr) -> Sys<Identity> {
            let name = name.to_str().unwrap();
            if name.len() > 12 {
                return Err(Errno::ENAMETOOLONG);
            }
            let folded = |name: &str| match self.folds {
                Folds::Nothing => name.to_owned(),
                Folds::Accents => name.replace("e\u{301}", "é"),
                Folds::Ascii => name.trim_end_matches('.').to_ascii_lowercase(),
                Folds::All => name.trim_end_matches('.').to_lowercase(),
            };
            let found = self.destination.iter().find(|(entry, _)| folded(entry) == folded(name));
            self.looks.set(self.looks.get() + 1);
            let added = if self.looks.get() > self.renumbered_at { 1000 } else { 0 };
            found.map(|(_, inode)| ((8, 1), *inode + added)).ok_or(Errno::ENOENT)
        }

        fn list_destination(&self, visit: &mut dyn FnMut(&OsStr)) -> Sys<()> {
            self.destination.iter().for_each(|(name, _)| visit(OsStr::new(name)));
            Ok(())
        }

        fn list_source(&self, visit: &mut dyn FnMut(&OsStr)) -> Sys<()> {
            self.source.iter().for_each(|name| visit(OsStr::new(name)));
            Ok(())
        }

        fn may_fold_all(&self) -> bool {
            self.folds != Folds::Nothing
        }
    }

    impl Fake {
        /// Entries that are not in the source and stay.
        fn kept(&self) -> Result<HashSet<&'static str>, NotCompared> {
            let names = self.destination.iter().map(|(name, _)| *name);
            let strangers = names.filter(|name| !self.source.contains(name)).map(OsStr::new);
            Ok(stood_for(self, strangers)?.into_iter().filter_map(OsStr::to_str).collect())
        }
    }

    #[test]
    fn what_a_name_of_the_source_stands_for_stays_where_names_are_folded() {
        type Row = (
            Folds,
            &'static [(&'static str, u64)],
            &'static [&'static str],
            &'static [&'static str],
        );
        const ROWS: [Row; 20] = [
            (Folds::All, &[("foo", 1)], &["Foo"], &["foo"]),
            (Folds::All, &[("foo", 1)], &["FOO", "x"], &["foo"]),
            (Folds::All, &[("FOO.TXT", 1), ("bar", 2)], &["foo.txt"], &["FOO.TXT"]),
            (Folds::All, &[("straße É", 1)], &["STRAßE é"], &["straße É"]),
            (Folds::All, &[("é", 1)], &["É"], &["é"]),
            (Folds::All, &[("foo", 1)], &["bar"], &[]),
            (Folds::All, &[("foo", 1)], &["too long a name", "Foo"], &["foo"]),
            (Folds::All, &[("1", 1)], &["2"], &[]),
            (Folds::All, &[("1", 1)], &["1."], &["1"]),
            (Folds::All, &[("1", 1), ("2", 2)], &["1.", "x"], &["1"]),
            // Another name of one file, which the source has under its own.
            (Folds::All, &[("1", 1), ("a", 1)], &["a"], &[]),
            (Folds::Ascii, &[("Ö.JPG", 1)], &["Ö.jpg"], &["Ö.JPG"]),
            (Folds::Ascii, &[("ö.jpg", 1)], &["Ö.jpg"], &[]),
            (Folds::Ascii, &[("2024", 1)], &["2024.."], &["2024"]),
            (Folds::Accents, &[("e\u{301}.txt", 1)], &["é.txt"], &["e\u{301}.txt"]),
            (Folds::Accents, &[("e\u{301}.txt", 1)], &["É.txt"], &[]),
            (Folds::Nothing, &[("e\u{301}.txt", 1)], &["é.txt"], &[]),
            (Folds::Nothing, &[("foo", 1), ("Foo", 2)], &["Foo"], &[]),
            (Folds::Nothing, &[("foo", 1), ("Foo", 1)], &["Foo"], &[]),
            (Folds::Nothing, &[("1", 1)], &["1."], &[]),
        ];
        for (folds, destination, source, expected) in ROWS {
            let (renumbered_at, looks) = (usize::MAX, Default::default());
            let fake = Fake { folds, destination, source, renumbered_at, looks };
            let expected: HashSet<&str> = expected.iter().copied().collect();
            assert_eq!(fake.kept().unwrap(), expected, "{folds:?} {destination:?} {source:?}");
        }
    }

    #[test]
    fn numbers_that_change_meanwhile_are_no_answer() {
        for (renumbered_at, expected) in
            [(3, Ok(HashSet::from(["foo"]))), (2, Err(NotCompared::Destination(Errno::ESTALE)))]
        {
            let (folds, looks) = (Folds::All, Default::default());
            let fake =
                Fake { folds, destination: &[("foo", 1)], source: &["FOO"], renumbered_at, looks };
            assert_eq!(fake.kept(), expected);
        }
    }

    #[test]
    fn one_letter_changes_its_case() {
        for (name, expected) in [
            (&b"foo"[..], Some(&b"Foo"[..])),
            (b"Foo", Some(b"foo")),
            (b"1a2", Some(b"1A2")),
            (b"12", None),
            (b"", None),
            (b"\xff", None),
            (b"\xffab", Some(b"\xffAb")),
            ("é".as_bytes(), Some("É".as_bytes())),
            // In upper case it is two letters.
            ("ßж".as_bytes(), Some("ßЖ".as_bytes())),
            // Letters of ASCII come first.
            ("Öl".as_bytes(), Some("ÖL".as_bytes())),
        ] {
            let other = other_case(OsStr::from_bytes(name));
            assert_eq!(other.as_deref(), expected.map(OsStr::from_bytes), "{name:?}");
        }
    }
}
