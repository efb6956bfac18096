//! Decides about entries, by pure functions of their kinds and of the existing entries of their
//! names.

use rustix::fs::FileType;

use super::directory::Entered;
use crate::Existing;
use crate::Skip;
use crate::jobs::{EntryKind, JobOptions};
use uncopy_core::{Errno, Objection};
use uncopy_os::file::Timestamp;

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
    /// Fail: the destination is of another kind.
    Refuse(Objection),
}

/// Kind and time of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Side<Kind> {
    pub(super) kind: Kind,
    pub(super) modified: Timestamp,
}

/// Policy for names that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) existing: Existing,
    /// Leave alone what is as new as the source.
    pub(super) update: bool,
    /// Whether an existing directory may be removed for an entry of another kind, and the reverse.
    pub(super) makes_room: bool,
}

impl Policy {
    /// A tree that is being built contains nothing of the caller's: an existing entry was left by a
    /// killed run, perhaps half a file. Elsewhere a mirror may remove entries that are in the way,
    /// but not next to a single entry that the caller named.
    pub(super) fn of(options: &JobOptions, entered: &Entered) -> Policy {
        if entered.private {
            return Policy { existing: Existing::Replace, update: false, makes_room: true };
        }
        let (existing, update) = (options.copy.existing, options.update);
        let mirrors = options.delete.is_some() && existing != Existing::Keep;
        Policy { existing, update, makes_room: mirrors && entered.whole }
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
        _ if policy.update && found.modified >= source.modified => Decision::Skip(Skip::AsNew),
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
                let found = found.map(|kind| Side { kind, modified: at(1) });
                for makes_room in [false, true] {
                    let policy = Policy { existing, update: false, makes_room };
                    let decision = decide(Side { kind: source, modified: at(1) }, found, policy);
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
            let policy = Policy { existing: Existing::Replace, update: true, makes_room: false };
            let found = Some(Side { kind: found_kind, modified: found });
            let decision = decide(Side { kind, modified: source }, found, policy);
            assert_eq!(name(&decision), expected, "{kind:?} {source:?} {found:?}");
        }
    }
}
