//! What to do with an entry: pure functions of what it is and of what has its name.

use rustix::fs::FileType;

use crate::copy::Existing;
use crate::copy::job::EntryKind;

/// What to do with one entry of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing has the name: make it.
    Make,
    /// Put it in the place of what has the name.
    Replace,
    /// A directory, and one is there: go into it.
    Merge,
    /// Leave the destination alone, for this reason.
    Skip(&'static str),
    /// It cannot be done: the destination is of this kind.
    Refuse(&'static str),
}

/// Decides by the kinds of both, the source's and that of what has the name.
pub(super) fn decide(source: EntryKind, found: Option<FileType>, existing: Existing) -> Decision {
    let Some(found) = found else { return Decision::Make };
    match (source, found) {
        (EntryKind::Directory, FileType::Directory) => Decision::Merge,
        (EntryKind::Directory, FileType::Symlink) => Decision::Refuse(
            "it is a symbolic link, which is not followed inside a tree, and the source is a \
             directory; remove the link or name its target",
        ),
        (EntryKind::Directory, _) => {
            Decision::Refuse("it is not a directory, and the source is one; remove it first")
        }
        (_, FileType::Directory) => {
            Decision::Refuse("it is a directory, and the source is not; remove it first")
        }
        _ if existing == Existing::Keep => Decision::Skip("the destination exists"),
        _ => Decision::Replace,
    }
}

/// What an entry is, by its file type.
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

    #[test]
    fn kinds_decide_what_may_take_the_place_of_what() {
        use EntryKind::{Directory, File, Special, Symlink};
        let name = |decision: Decision| match decision {
            Decision::Skip(_) => "skip",
            Decision::Refuse(_) => "refuse",
            Decision::Make => "make",
            Decision::Replace => "replace",
            Decision::Merge => "merge",
        };
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
                let decision = decide(source, found, existing);
                assert_eq!(name(decision), expected, "{source:?} {found:?} {existing:?}");
            }
        }
    }
}
