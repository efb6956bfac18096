//! Decides about entries, by pure functions of their kinds and of the existing entries of their
//! names.

use rustix::fs::FileType;

use super::directory::Entered;
use crate::Existing;
use crate::Skip;
use crate::jobs::{Compare, EntryKind, JobOptions};
use uncopy_core::{Errno, Objection};
use uncopy_os::file::{Stat, Timestamp};

/// Decision about one entry of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// The name is free: make the entry.
    Make,
    /// Replace the existing entry.
    Replace,
    /// It is a directory and one exists: merge into it.
    Merge,
    /// The existing entry is of another kind: remove it, as far as allowed, and make the new one.
    MakeRoom,
    /// Leave the destination alone, for this reason.
    Skip(Skip),
    /// Read both files: leave the destination alone if they are the same, and else replace it.
    Compare,
    /// Fail: the destination is of another kind.
    Refuse(Objection),
}

/// Kind, time and size of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Side<Kind> {
    pub(super) kind: Kind,
    pub(super) modified: Timestamp,
    pub(super) size: u64,
}

impl<Kind> Side<Kind> {
    /// Makes the side of an entry of this kind and status.
    pub(super) fn new(kind: Kind, stat: &Stat) -> Side<Kind> {
        Side { kind, modified: stat.modified, size: stat.size }
    }
}

/// Policy for names that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) existing: Existing,
    /// Leave alone what is as new as the source.
    pub(super) update: bool,
    /// Comparison that shows that a file is unchanged.
    pub(super) compare: Compare,
    /// Whether an existing directory may be removed for an entry of another kind, and the reverse.
    pub(super) makes_room: bool,
}

impl Policy {
    /// A tree that is being built contains nothing of the caller's: an existing entry was left by a
    /// killed run, perhaps half a file. Elsewhere a mirror may remove entries that are in the way,
    /// but not next to a single entry that the caller named.
    pub(super) fn of(options: &JobOptions, entered: &Entered) -> Policy {
        if entered.private {
            let (existing, compare) = (Existing::Replace, Compare::Times);
            return Policy { existing, update: false, compare, makes_room: true };
        }
        let (existing, update, compare) = (options.copy.existing, options.update, options.compare);
        let mirrors = options.delete.is_some() && existing != Existing::Keep;
        Policy { existing, update, compare, makes_room: mirrors && entered.whole }
    }
}

/// Decides by kind and time of the source and of the existing entry.
pub(super) fn decide(
    source: Side<EntryKind>,
    found: Option<Side<FileType>>,
    policy: Policy,
) -> Decision {
    let Some(found) = found else { return Decision::Make };
    match (source.kind, found.kind) {
        (EntryKind::Directory, FileType::Directory) => Decision::Merge,
        (EntryKind::Directory, _) | (_, FileType::Directory) if policy.makes_room => {
            Decision::MakeRoom
        }
        (EntryKind::Directory, FileType::Symlink) => Decision::Refuse(Objection::LinkForDirectory),
        (EntryKind::Directory, _) => Decision::Refuse(Objection::NotDirectory),
        (_, FileType::Directory) => Decision::Refuse(Objection::IsDirectory),
        _ if policy.existing == Existing::Keep => Decision::Skip(Skip::Exists),
        _ if policy.update && found.modified > source.modified => Decision::Skip(Skip::AsNew),
        (EntryKind::File, FileType::RegularFile) => decide_file(source, found, policy),
        _ if policy.update && found.modified == source.modified => Decision::Skip(Skip::AsNew),
        _ => Decision::Replace,
    }
}

/// Decides about a file where an older one exists, or one that is as old.
fn decide_file(source: Side<EntryKind>, found: Side<FileType>, policy: Policy) -> Decision {
    match policy.compare {
        Compare::Times if policy.update && found.modified == source.modified => {
            Decision::Skip(Skip::AsNew)
        }
        Compare::Size if found.size == source.size => Decision::Skip(Skip::SameSize),
        Compare::Contents if found.size == source.size => Decision::Compare,
        _ => Decision::Replace,
    }
}

/// Whether an entry of the destination is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeletionVerdict {
    Goes,
    Stays,
    /// It is unknown whether the source has it, so it stays.
    Unknown(Errno),
}

/// Decides about an entry of the destination by the result of looking it up in the source, whether
/// it is selected, and whether it is a temporary file of a running copy.
pub(super) fn stranger(
    in_source: Result<(), Errno>,
    is_selected: impl FnOnce() -> bool,
    is_at_work: impl FnOnce() -> bool,
) -> DeletionVerdict {
    match in_source {
        Err(errno) if is_selected() => match errno {
            _ if is_at_work() => DeletionVerdict::Stays,
            Errno::ENOENT => DeletionVerdict::Goes,
            other => DeletionVerdict::Unknown(other),
        },
        _ => DeletionVerdict::Stays,
    }
}

/// Returns the kind of an entry of this file type.
pub(super) fn kind_of(file_type: FileType) -> EntryKind {
    match file_type {
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        FileType::RegularFile | FileType::Unknown => EntryKind::File,
        _ => EntryKind::Special,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(decision: &Decision) -> &'static str {
        match decision {
            Decision::Skip(_) => "skip",
            Decision::Refuse(_) => "refuse",
            Decision::Make => "make",
            Decision::Compare => "compare",
            Decision::Replace => "replace",
            Decision::Merge => "merge",
            Decision::MakeRoom => "make room",
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanoseconds: 0 }
    }

    #[test]
    fn kinds_decide_what_may_take_the_place_of_what() {
        use EntryKind::{Directory, File, Special, Symlink};
        let directory = Some(FileType::Directory);
        let file = Some(FileType::RegularFile);
        let link = Some(FileType::Symlink);
        let fifo = Some(FileType::Fifo);
        for (source, found, replacing, keeping) in [
            (File, None, "make", "make"),
            (Directory, None, "make", "make"),
            (File, file, "replace", "skip"),
            (File, link, "replace", "skip"),
            (File, fifo, "replace", "skip"),
            (File, directory, "refuse", "refuse"),
            (Symlink, file, "replace", "skip"),
            (Symlink, directory, "refuse", "refuse"),
            (Special, link, "replace", "skip"),
            (Directory, directory, "merge", "merge"),
            (Directory, file, "refuse", "refuse"),
            (Directory, link, "refuse", "refuse"),
        ] {
            for (existing, expected) in [
                (Existing::Replace, replacing),
                (Existing::Force, replacing),
                (Existing::Keep, keeping),
            ] {
                let found = found.map(|kind| Side { kind, modified: at(1), size: 1 });
                for makes_room in [false, true] {
                    let compare = Compare::Times;
                    let policy = Policy { existing, update: false, compare, makes_room };
                    let source = Side { kind: source, modified: at(1), size: 1 };
                    let decision = decide(source, found, policy);
                    let expected = match expected {
                        "refuse" if makes_room => "make room",
                        other => other,
                    };
                    assert_eq!(name(&decision), expected, "{source:?} {found:?} {policy:?}");
                }
            }
        }
    }

    #[test]
    fn only_what_is_known_to_be_missing_goes() {
        for (in_source, selected, at_work, expected) in [
            (Err(Errno::ENOENT), true, false, DeletionVerdict::Goes),
            (Err(Errno::ENOENT), false, false, DeletionVerdict::Stays),
            (Err(Errno::ENOENT), true, true, DeletionVerdict::Stays),
            (Err(Errno::EACCES), true, false, DeletionVerdict::Unknown(Errno::EACCES)),
            (Err(Errno::EIO), true, false, DeletionVerdict::Unknown(Errno::EIO)),
            (Err(Errno::ESTALE), false, false, DeletionVerdict::Stays),
            (Err(Errno::ESTALE), true, true, DeletionVerdict::Stays),
            (Ok(()), true, false, DeletionVerdict::Stays),
        ] {
            let found = stranger(in_source, || selected, || at_work);
            assert_eq!(found, expected, "{in_source:?} {selected} {at_work}");
        }
    }

    #[test]
    fn only_what_is_older_is_updated() {
        use EntryKind::{Directory, File, Symlink};
        let old = Timestamp { seconds: 1, nanoseconds: 5 };
        for (kind, source, found_kind, found, expected) in [
            (File, at(1), FileType::RegularFile, old, "skip"),
            (File, old, FileType::RegularFile, old, "skip"),
            (File, old, FileType::RegularFile, at(1), "replace"),
            (File, at(2), FileType::RegularFile, old, "replace"),
            (Symlink, at(1), FileType::Symlink, at(2), "skip"),
            (Directory, at(1), FileType::Directory, at(2), "merge"),
            (File, at(1), FileType::Directory, at(2), "refuse"),
        ] {
            let (existing, compare) = (Existing::Replace, Compare::Times);
            let policy = Policy { existing, update: true, compare, makes_room: false };
            let found = Some(Side { kind: found_kind, modified: found, size: 1 });
            let decision = decide(Side { kind, modified: source, size: 1 }, found, policy);
            assert_eq!(name(&decision), expected, "{kind:?} {source:?} {found:?}");
        }
    }

    /// As `rsync` decides with `--update`, `--size-only` and `--checksum`.
    #[test]
    fn unchanged_files_are_those_of_the_comparison() {
        use EntryKind::{File, Symlink};
        let (regular, link) = (FileType::RegularFile, FileType::Symlink);
        for (kind, found_kind, time, size, by_times, by_size, by_contents) in [
            // Older, as old and newer in the destination; times alone decide with `update`.
            (File, regular, 1, 7, ["replace", "replace"], ["skip", "skip"], ["compare", "compare"]),
            (File, regular, 2, 7, ["replace", "skip"], ["skip", "skip"], ["compare", "compare"]),
            (File, regular, 3, 7, ["replace", "skip"], ["skip", "skip"], ["compare", "skip"]),
            (File, regular, 1, 8, ["replace", "replace"], ["replace"; 2], ["replace"; 2]),
            (File, regular, 2, 8, ["replace", "skip"], ["replace"; 2], ["replace"; 2]),
            (File, regular, 3, 8, ["replace", "skip"], ["replace", "skip"], ["replace", "skip"]),
            // Only files have contents to compare.
            (File, link, 2, 7, ["replace", "skip"], ["replace", "skip"], ["replace", "skip"]),
            (Symlink, link, 1, 7, ["replace"; 2], ["replace"; 2], ["replace"; 2]),
            (Symlink, link, 3, 7, ["replace", "skip"], ["replace", "skip"], ["replace", "skip"]),
        ] {
            let rows = [
                (Compare::Times, by_times),
                (Compare::Size, by_size),
                (Compare::Contents, by_contents),
            ];
            for (compare, expected) in rows {
                for (update, expected) in [false, true].into_iter().zip(expected) {
                    let existing = Existing::Replace;
                    let policy = Policy { existing, update, compare, makes_room: false };
                    let source = Side { kind, modified: at(2), size: 7 };
                    let found = Side { kind: found_kind, modified: at(time), size };
                    let decision = decide(source, Some(found), policy);
                    assert_eq!(name(&decision), expected, "{source:?} {found:?} {policy:?}");
                }
            }
        }
    }
}
