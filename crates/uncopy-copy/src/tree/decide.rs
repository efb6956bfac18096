//! Decides by pure functions which entries of the destination are deleted, and which kind an entry is of.

use rustix::fs::FileType;

use super::directory::Entered;
use crate::jobs::{EntryKind, JobOptions, Policy, Side};
use uncopy_core::Errno;
use uncopy_os::file::{Stat, Timestamp};

/// Makes the side of an entry of this kind and status.
pub(super) fn side_of(kind: EntryKind, stat: &Stat) -> Side<Timestamp> {
    Side { kind, modified: stat.modified, size: stat.size }
}

/// Returns the policy for names that are taken in a pair of directories.
pub(super) fn policy_of(options: &JobOptions, entered: &Entered) -> Policy {
    let attributes_only = options.copy.attributes_only && !entered.private;
    Policy { attributes_only, ..Policy::of(options, entered.private, entered.whole) }
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

/// Whether it is a FIFO, socket or device.
pub(super) fn is_special(file_type: FileType) -> bool {
    kind_of(file_type) == EntryKind::Special
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
