//! Decides what becomes of an entry, by the kinds, times and sizes of it and of the existing entry of its name (pure).

use super::options::{Compare, JobOptions};
use super::record::EntryKind;
use crate::{Existing, Skip};
use uncopy_core::Objection;

/// Decision about one entry of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
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
pub(crate) struct Side<Time> {
    pub(crate) kind: EntryKind,
    pub(crate) modified: Time,
    pub(crate) size: u64,
}

/// Policy for names that are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) existing: Existing,
    /// Leave alone what is as new as the source.
    pub(crate) update: bool,
    /// Comparison that shows that a file is unchanged.
    pub(crate) compare: Compare,
    /// Whether an existing directory may be removed for an entry of another kind, and the reverse.
    pub(crate) makes_room: bool,
    /// Whether an existing file keeps its bytes, and everything else that exists is left alone.
    pub(crate) attributes_only: bool,
}

impl Policy {
    /// A tree that is being built contains nothing of the caller's: an existing entry was left by a
    /// killed run, perhaps half a file. Elsewhere a mirror may remove entries that are in the way,
    /// but not next to a single entry that the caller named.
    pub(crate) fn of(options: &JobOptions, is_private: bool, is_whole: bool) -> Policy {
        if is_private {
            let (existing, compare) = (Existing::Replace, Compare::Times);
            let attributes_only = false;
            return Policy { existing, update: false, compare, makes_room: true, attributes_only };
        }
        let (existing, update, compare) = (options.copy.existing, options.update, options.compare);
        let mirrors = options.delete.is_some() && existing != Existing::Keep;
        let (makes_room, attributes_only) = (mirrors && is_whole, false);
        Policy { existing, update, compare, makes_room, attributes_only }
    }
}

/// Decides by kind and time of the source and of the existing entry.
pub(crate) fn decide<Time: PartialOrd + Copy>(
    source: Side<Time>,
    found: Option<Side<Time>>,
    policy: Policy,
) -> Decision {
    let Some(found) = found else { return Decision::Make };
    match (source.kind, found.kind) {
        (EntryKind::Directory, EntryKind::Directory) => Decision::Merge,
        // As by `cp`, only a directory must not find something else.
        (_, EntryKind::Directory) if policy.existing == Existing::Keep => {
            Decision::Skip(Skip::Exists)
        }
        (EntryKind::Directory, _) | (_, EntryKind::Directory) if policy.makes_room => {
            Decision::MakeRoom
        }
        (EntryKind::Directory, EntryKind::Symlink) => Decision::Refuse(Objection::LinkForDirectory),
        (EntryKind::Directory, _) => Decision::Refuse(Objection::NotDirectory),
        (_, EntryKind::Directory) => Decision::Refuse(Objection::IsDirectory),
        _ if policy.existing == Existing::Keep => Decision::Skip(Skip::Exists),
        _ if policy.update && found.modified > source.modified => Decision::Skip(Skip::AsNew),
        (EntryKind::File, EntryKind::File) => decide_file(source, found, policy),
        _ if policy.attributes_only => Decision::Skip(Skip::Exists),
        _ if policy.update && found.modified == source.modified => Decision::Skip(Skip::AsNew),
        _ => Decision::Replace,
    }
}

/// Decides about a file where an older one exists, or one that is as old.
fn decide_file<Time: PartialOrd + Copy>(
    source: Side<Time>,
    found: Side<Time>,
    policy: Policy,
) -> Decision {
    match policy.compare {
        Compare::Times if policy.update && found.modified == source.modified => {
            Decision::Skip(Skip::AsNew)
        }
        Compare::Size if found.size == source.size => Decision::Skip(Skip::SameSize),
        Compare::Contents if found.size == source.size => Decision::Compare,
        _ => Decision::Replace,
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

    fn at(seconds: i64) -> (i64, i64) {
        (seconds, 0)
    }

    #[test]
    fn kinds_decide_what_may_take_the_place_of_what() {
        use EntryKind::{Directory, File, Special, Symlink};
        let directory = Some(EntryKind::Directory);
        let file = Some(EntryKind::File);
        let link = Some(EntryKind::Symlink);
        let fifo = Some(EntryKind::Special);
        for (source, found, replacing, keeping) in [
            (File, None, "make", "make"),
            (Directory, None, "make", "make"),
            (File, file, "replace", "skip"),
            (File, link, "replace", "skip"),
            (File, fifo, "replace", "skip"),
            (File, directory, "refuse", "skip"),
            (Symlink, file, "replace", "skip"),
            (Symlink, directory, "refuse", "skip"),
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
                    let policy = Policy {
                        existing,
                        update: false,
                        compare,
                        makes_room,
                        attributes_only: false,
                    };
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
    fn only_what_is_older_is_updated() {
        use EntryKind::{Directory, File, Symlink};
        let old = (1, 5);
        for (kind, source, found_kind, found, expected) in [
            (File, at(1), EntryKind::File, old, "skip"),
            (File, old, EntryKind::File, old, "skip"),
            (File, old, EntryKind::File, at(1), "replace"),
            (File, at(2), EntryKind::File, old, "replace"),
            (Symlink, at(1), EntryKind::Symlink, at(2), "skip"),
            (Directory, at(1), EntryKind::Directory, at(2), "merge"),
            (File, at(1), EntryKind::Directory, at(2), "refuse"),
        ] {
            let (existing, compare) = (Existing::Replace, Compare::Times);
            let policy = Policy {
                existing,
                update: true,
                compare,
                makes_room: false,
                attributes_only: false,
            };
            let found = Some(Side { kind: found_kind, modified: found, size: 1 });
            let decision = decide(Side { kind, modified: source, size: 1 }, found, policy);
            assert_eq!(name(&decision), expected, "{kind:?} {source:?} {found:?}");
        }
    }

    /// As `rsync` decides with `--update`, `--size-only` and `--checksum`.
    #[test]
    fn unchanged_files_are_those_of_the_comparison() {
        use EntryKind::{File, Symlink};
        let (regular, link) = (EntryKind::File, EntryKind::Symlink);
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
                    let policy = Policy {
                        existing,
                        update,
                        compare,
                        makes_room: false,
                        attributes_only: false,
                    };
                    let source = Side { kind, modified: at(2), size: 7 };
                    let found = Side { kind: found_kind, modified: at(time), size };
                    let decision = decide(source, Some(found), policy);
                    assert_eq!(name(&decision), expected, "{source:?} {found:?} {policy:?}");
                }
            }
        }
    }
}
