//! Directories that fold case: vfat, and those that `chattr +F` marks on ext4. An entry of the destination may
//! be written otherwise than the name of the source that stands for it.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

use super::directory::{Identity, Open, identity};
use crate::copy::compress::other_origin;
use crate::copy::{Level, Transform};
use crate::error::Errno;
use crate::sys::{Sys, directory, name};

/// The two sides of a directory.
pub(super) trait Sides {
    /// What a name of the destination stands for.
    fn look_up(&self, name: &OsStr) -> Sys<Identity>;

    /// Tells of each name of the destination, as it is written.
    fn list_destination(&self, tell: &mut dyn FnMut(&OsStr)) -> Sys<()>;

    /// The same for the source.
    fn list_source(&self, tell: &mut dyn FnMut(&OsStr)) -> Sys<()>;
}

/// Those of these entries of the destination which a name of the source stands for that is written
/// otherwise. Where a directory does not fold case, one look for each is all it takes.
pub(super) fn stood_for<'a>(
    sides: &impl Sides,
    entries: impl Iterator<Item = &'a OsStr>,
) -> Sys<HashSet<&'a OsStr>> {
    let mut suspects: HashMap<OsString, (&OsStr, Identity)> = HashMap::new();
    for entry in entries {
        let Some(other) = other_case(entry) else { continue };
        let Ok(found) = sides.look_up(&other) else { continue };
        if sides.look_up(entry) == Ok(found) {
            suspects.insert(other, (entry, found));
        }
    }
    if suspects.is_empty() {
        return Ok(HashSet::new());
    }
    // Two names of one file that differ in case are no folding.
    sides.list_destination(&mut |name| {
        suspects.remove(name);
    })?;
    let mut wanted: HashSet<Identity> = HashSet::new();
    let mut failed = None;
    sides.list_source(&mut |name| match sides.look_up(name) {
        Ok(found) => drop(wanted.insert(found)),
        Err(Errno::ENOENT) => {}
        Err(errno) => failed = Some(errno),
    })?;
    match failed {
        Some(errno) => Err(errno),
        None => Ok(suspects
            .into_values()
            .filter(|(_, found)| wanted.contains(found))
            .map(|(entry, _)| entry)
            .collect()),
    }
}

/// The name with the case of one letter changed. `None`: it has no letter with two cases.
fn other_case(name: &OsStr) -> Option<OsString> {
    let swapped = |letter: char| {
        let is_other = |other: &char| *other != letter && other.len_utf8() == letter.len_utf8();
        // A letter whose other case is several is none of those that are folded alike everywhere.
        let single = |mut letters: Vec<char>| letters.pop().filter(|_| letters.is_empty());
        let upper = single(letter.to_uppercase().collect()).filter(is_other);
        upper.or_else(|| single(letter.to_lowercase().collect()).filter(is_other))
    };
    if let Some(text) = name.to_str()
        && let Some((at, letter, other)) =
            text.char_indices().find_map(|(at, letter)| Some((at, letter, swapped(letter)?)))
    {
        let (before, behind) = (&text[..at], &text[at + letter.len_utf8()..]);
        return Some(format!("{before}{other}{behind}").into());
    }
    let mut bytes = name.as_bytes().to_owned();
    *bytes.iter_mut().find(|byte| byte.is_ascii_alphabetic())? ^= 0x20;
    Some(OsStr::from_bytes(&bytes).to_owned())
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

    fn list_destination(&self, tell: &mut dyn FnMut(&OsStr)) -> Sys<()> {
        list(name::open_directory_for_reading(&*self.open.destination)?, tell)
    }

    fn list_source(&self, tell: &mut dyn FnMut(&OsStr)) -> Sys<()> {
        // What is compressed or decompressed gets another name, which was the first one the other way round.
        let back = match self.transform {
            Transform::None => Transform::None,
            Transform::Compress(_) => Transform::Decompress,
            Transform::Decompress => Transform::Compress(Level::default()),
        };
        list(name::open_directory_for_reading(&self.open.source)?, &mut |name| {
            tell(name);
            if let Some(other) = other_origin(name, back) {
                tell(&other);
            }
        })
    }
}

fn list(at: impl std::os::fd::AsFd, tell: &mut dyn FnMut(&OsStr)) -> Sys<()> {
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    directory::list(at, &mut buffer, |entry| {
        tell(OsStr::from_bytes(entry.name.to_bytes()));
        true
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A destination with inode numbers, which folds case or not, and the names of a source.
    struct Fake {
        folds: bool,
        destination: &'static [(&'static str, u64)],
        source: &'static [&'static str],
    }

    impl Sides for Fake {
        fn look_up(&self, name: &OsStr) -> Sys<Identity> {
            let name = name.to_str().unwrap();
            let is_it = |entry: &str| {
                entry == name || self.folds && entry.to_lowercase() == name.to_lowercase()
            };
            let found = self.destination.iter().find(|(entry, _)| is_it(entry));
            found.map(|(_, inode)| ((8, 1), *inode)).ok_or(Errno::ENOENT)
        }

        fn list_destination(&self, tell: &mut dyn FnMut(&OsStr)) -> Sys<()> {
            self.destination.iter().for_each(|(name, _)| tell(OsStr::new(name)));
            Ok(())
        }

        fn list_source(&self, tell: &mut dyn FnMut(&OsStr)) -> Sys<()> {
            self.source.iter().for_each(|name| tell(OsStr::new(name)));
            Ok(())
        }
    }

    #[test]
    fn what_a_name_of_the_source_stands_for_stays_where_case_is_folded() {
        type Row = (
            bool,
            &'static [(&'static str, u64)],
            &'static [&'static str],
            &'static [&'static str],
        );
        const ROWS: [Row; 9] = [
            (true, &[("foo", 1)], &["Foo"], &["foo"]),
            (true, &[("foo", 1)], &["FOO", "x"], &["foo"]),
            (true, &[("FOO.TXT", 1), ("bar", 2)], &["foo.txt"], &["FOO.TXT"]),
            (true, &[("straße É", 1)], &["STRAßE é"], &["straße É"]),
            (true, &[("é", 1)], &["É"], &["é"]),
            (true, &[("foo", 1)], &["bar"], &[]),
            (true, &[("1", 1)], &["2"], &[]),
            (false, &[("foo", 1), ("Foo", 2)], &["Foo"], &[]),
            // Two names of one file.
            (false, &[("foo", 1), ("Foo", 1)], &["Foo"], &[]),
        ];
        for (folds, destination, source, expected) in ROWS {
            let fake = Fake { folds, destination, source };
            let strangers = destination.iter().map(|(name, _)| *name);
            let strangers = strangers.filter(|name| !source.contains(name)).map(OsStr::new);
            let found = stood_for(&fake, strangers).unwrap();
            let expected: HashSet<&OsStr> = expected.iter().map(OsStr::new).collect();
            assert_eq!(found, expected, "{folds} {destination:?} {source:?}");
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
            ("ßx".as_bytes(), Some("ßX".as_bytes())),
        ] {
            let other = other_case(OsStr::from_bytes(name));
            assert_eq!(other.as_deref(), expected.map(OsStr::from_bytes), "{name:?}");
        }
    }
}
