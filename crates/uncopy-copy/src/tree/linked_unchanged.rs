//! Finds the file of an earlier copy that is what a copy of a file would be, to be linked instead.
//!
//! Below the earlier copy no symbolic link is followed, and a file is examined and linked through one
//! descriptor, so that neither a planted link nor a renamed entry changes what is linked.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::{FileType, OFlags};

use super::earlier::Earlier;
use super::file_progress::FileProgress;
use super::place::Place;
use super::unchanged::compare_contents;
use crate::destination::ExistingEntry;
use crate::jobs::{Compare, JobOptions};
use crate::metadata;
use crate::options::Preserve;
use crate::source::Source;
use crate::throttle::Throttle;
use uncopy_core::{Error, Result};
use uncopy_os::file::{self, Stat};
use uncopy_os::{directory, name};

/// File of an earlier copy that is unchanged.
pub(super) struct Unchanged {
    pub(super) file: ExistingEntry,
    pub(super) path: PathBuf,
}

/// Finds the file of the first earlier copy that has it unchanged.
///
/// # Errors
/// The source cannot be read, or the observer stopped the job. An earlier copy that cannot be read has nothing
/// that is unchanged.
pub(super) fn find_unchanged(
    options: &JobOptions,
    place: &Place<'_>,
    source: &Source<'_>,
    throttle: Option<&Throttle>,
    progress: &mut FileProgress<'_>,
    mut compared: impl FnMut(u64),
) -> Result<Option<Unchanged>> {
    let earlier = place.directory.earlier();
    if earlier.is_empty() {
        return Ok(None);
    }
    let way = place.directory.path_from_root();
    let above: Vec<&OsStr> = way.iter().collect();
    let preserve = options.copy.preserve;
    for Earlier { root, path } in earlier {
        let opened = directory::open_beneath(root, &above, true)
            .and_then(|above| name::open_existing(above, place.target, OFlags::PATH))
            .and_then(|handle| file::stat(&handle).map(|stat| ExistingEntry { handle, stat }));
        let Ok(found) = opened else { continue };
        let are_same = match may_be_unchanged(&source.stat, &found.stat, preserve, options.compare)
        {
            Match::No => false,
            Match::Yes => true,
            Match::ByContents => {
                let contents = compare_contents(place, source, &found, throttle, progress)?;
                compared(contents.same_bytes);
                contents.are_same
            }
        };
        let handle = found.handle.as_fd();
        let has_same = || {
            let attributes = &source.attributes(preserve);
            metadata::has_same_attributes(attributes, handle, preserve).unwrap_or(false)
        };
        if are_same && has_same() {
            let path = path.join(&way).join(place.target);
            return Ok(Some(Unchanged { file: found, path }));
        }
    }
    Ok(None)
}

/// Flushes a file that is to be linked.
pub(super) fn flush(unchanged: &Unchanged) -> Result<()> {
    file::reopen(&unchanged.file.handle, OFlags::RDONLY | OFlags::NONBLOCK)
        .and_then(file::sync)
        .map_err(|errno| Error::destination("flush", &unchanged.path, errno))
}

/// Whether a file of an earlier copy is what a copy would be, by its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    No,
    Yes,
    /// If both have the same bytes.
    ByContents,
}

fn may_be_unchanged(source: &Stat, found: &Stat, preserve: Preserve, compare: Compare) -> Match {
    let is_alike = found.file_type() == FileType::RegularFile
        && found.size == source.size
        && (!preserve.mode || found.permissions() == source.permissions())
        && (!preserve.ownership || (found.uid, found.gid) == (source.uid, source.gid));
    let has_time = found.modified == source.modified;
    match compare {
        _ if !is_alike || (preserve.timestamps && !has_time) => Match::No,
        Compare::Times if !has_time => Match::No,
        Compare::Times | Compare::Size => Match::Yes,
        Compare::Contents => Match::ByContents,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_that_a_copy_would_get_decides() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        std::fs::write(&path, "some").unwrap();
        let source = directory::stat_path(&path).unwrap();
        type Change = fn(&mut Stat);
        let none: Change = |_| {};
        let none_of_it = Preserve::default();
        let (mode, ownership) = (none_of_it.mode(true), none_of_it.ownership(true));
        let times = none_of_it.timestamps(true);
        let rows: [(Change, Preserve, Match, Match, Match); 13] = [
            (none, Preserve::all(), Match::Yes, Match::Yes, Match::ByContents),
            (|s| s.size += 1, none_of_it, Match::No, Match::No, Match::No),
            (|s| s.mode ^= 0o001, none_of_it, Match::Yes, Match::Yes, Match::ByContents),
            (|s| s.mode ^= 0o001, mode, Match::No, Match::No, Match::No),
            (|s| s.mode |= 0o4000, mode, Match::No, Match::No, Match::No),
            (|s| s.uid += 1, mode, Match::Yes, Match::Yes, Match::ByContents),
            (|s| s.uid += 1, ownership, Match::No, Match::No, Match::No),
            (|s| s.gid += 1, ownership, Match::No, Match::No, Match::No),
            (|s| s.modified.nanoseconds ^= 1, none_of_it, Match::No, Match::Yes, Match::ByContents),
            (|s| s.modified.seconds += 1, times, Match::No, Match::No, Match::No),
            (
                |s| s.accessed.seconds += 1,
                Preserve::all(),
                Match::Yes,
                Match::Yes,
                Match::ByContents,
            ),
            (|s| s.mode = s.mode & 0o7777 | 0o040_000, none_of_it, Match::No, Match::No, Match::No),
            (|s| s.mode = s.mode & 0o7777 | 0o120_000, none_of_it, Match::No, Match::No, Match::No),
        ];
        for (change, preserve, by_times, by_size, by_contents) in rows {
            let mut found = source.clone();
            change(&mut found);
            for (compare, expected) in [
                (Compare::Times, by_times),
                (Compare::Size, by_size),
                (Compare::Contents, by_contents),
            ] {
                let answer = may_be_unchanged(&source, &found, preserve, compare);
                assert_eq!(answer, expected, "{found:?} {preserve:?} {compare:?}");
            }
        }
    }
}
