//! Decides which mechanism copies a file, and what follows an error of it (pure): a table for each system.

use std::io;
use std::ops::Range;

use crate::{Allow, CopyOptions, Sparse};
use uncopy_core::{Exclusion, Mechanism, Obstacle, System};
use uncopy_os::native::Placing;

/// Consequence of an error of a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterError {
    /// Try the next mechanism.
    Next(Obstacle),
    /// Make the call again: it was interrupted.
    Again,
    /// Report it: another mechanism would meet it too, or it passes when nobody uses the file any more.
    Final,
}

/// Consequence of an error of a call that gives a file its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterPlacing {
    /// The name is taken, and the file there is kept.
    Taken,
    /// Try the next call.
    Next,
    /// Report it.
    Final,
}

/// Mechanisms of a system, the cheapest first.
pub(super) fn mechanisms(system: System) -> &'static [Mechanism] {
    match system {
        System::MacOs => &[Mechanism::Clonefile, Mechanism::Fcopyfile, Mechanism::ReadWrite],
        System::Windows => &[Mechanism::BlockClone, Mechanism::CopyFile2, Mechanism::ReadWrite],
        _ => &[Mechanism::ReadWrite],
    }
}

/// Treatment of holes and zeros of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holes {
    /// Holes stay holes, as far as that is possible.
    Kept,
    /// Holes become zeros.
    Filled,
    /// Blocks of zeros become holes.
    Made,
}

impl Holes {
    /// `may_have_holes`: the source may.
    pub(super) fn of(sparse: Sparse, may_have_holes: bool) -> Holes {
        match sparse {
            Sparse::Always => Holes::Made,
            Sparse::Never if may_have_holes => Holes::Filled,
            Sparse::Never | Sparse::Auto => Holes::Kept,
        }
    }
}

/// Why the options exclude a mechanism. With `is_in_place` an existing file is written.
pub(super) fn excluded(
    mechanism: Mechanism,
    allow: Allow,
    holes: Holes,
    is_in_place: bool,
) -> Option<Exclusion> {
    let is_last = mechanism == Mechanism::ReadWrite;
    // `CopyFile2` shares blocks by itself on newer systems.
    let may_share =
        matches!(mechanism, Mechanism::Clonefile | Mechanism::BlockClone | Mechanism::CopyFile2);
    match allow {
        Allow::Only(only) if only != mechanism => Some(Exclusion::AnotherNamed),
        Allow::ReadWrite if !is_last => Some(Exclusion::ReadWriteOnly),
        Allow::Unshared if may_share => Some(Exclusion::SharesBlocks),
        // Some make new files alone, and the others may leave old bytes in holes.
        _ if is_in_place && !is_last => Some(Exclusion::NotInPlace),
        _ if holes == Holes::Filled && !is_last => Some(Exclusion::MayKeepHoles),
        _ if holes == Holes::Made && !is_last => Some(Exclusion::CannotSeeZeros),
        _ => None,
    }
}

/// Whether options let a file be copied in chunks: the mechanism that can is allowed, and the copy is a file of its own.
pub(super) fn copies_in_chunks(options: &CopyOptions) -> bool {
    let is_allowed = match options.allow {
        Allow::Only(only) => only == Mechanism::ReadWrite,
        Allow::Any | Allow::ReadWrite | Allow::Unshared => true,
    };
    is_allowed && !options.attributes_only && !options.in_place
}

/// Why a mechanism does not copy a file that is copied in chunks. `resumed_bytes`: an earlier run left these.
pub(super) fn excluded_by_chunks(mechanism: Mechanism, resumed_bytes: u64) -> Option<Exclusion> {
    match mechanism {
        Mechanism::ReadWrite => None,
        // Blocks are shared at once, or not at all.
        Mechanism::Clonefile | Mechanism::BlockClone if resumed_bytes == 0 => None,
        _ => Some(Exclusion::BytesNotSeen),
    }
}

/// Rows of error numbers after which another mechanism may work, or the same call again.
pub(super) type Row = (i32, AfterError);

/// macOS, sys/errno.h; clonefile(2).
pub(super) const CLONEFILE: [Row; 8] = [
    (1, AfterError::Next(Obstacle::Forbidden)),        // EPERM
    (4, AfterError::Again),                            // EINTR
    (13, AfterError::Next(Obstacle::Forbidden)), // EACCES: the ACL forbids what a clone carries over
    (18, AfterError::Next(Obstacle::OtherFilesystem)), // EXDEV
    (22, AfterError::Next(Obstacle::NotSupported)), // EINVAL
    (45, AfterError::Next(Obstacle::NotSupported)), // ENOTSUP: the filesystem cannot
    (78, AfterError::Next(Obstacle::UnknownCall)), // ENOSYS
    (102, AfterError::Next(Obstacle::NotSupported)), // EOPNOTSUPP
];

/// copyfile(3).
pub(super) const FCOPYFILE: [Row; 6] = [
    (1, AfterError::Next(Obstacle::Forbidden)),      // EPERM
    (4, AfterError::Again),                          // EINTR
    (22, AfterError::Next(Obstacle::NotSupported)), // EINVAL: COPYFILE_DATA_SPARSE of older systems
    (45, AfterError::Next(Obstacle::NotSupported)), // ENOTSUP
    (78, AfterError::Next(Obstacle::UnknownCall)),  // ENOSYS
    (102, AfterError::Next(Obstacle::NotSupported)), // EOPNOTSUPP
];

/// Windows, winerror.h; FSCTL_DUPLICATE_EXTENTS_TO_FILE and the calls before it.
pub(super) const BLOCK_CLONE: [Row; 8] = [
    (1, AfterError::Next(Obstacle::NotSupported)), // ERROR_INVALID_FUNCTION: NTFS, FAT
    (5, AfterError::Next(Obstacle::Forbidden)),    // ERROR_ACCESS_DENIED
    (17, AfterError::Next(Obstacle::OtherFilesystem)), // ERROR_NOT_SAME_DEVICE
    (50, AfterError::Next(Obstacle::NotSupported)), // ERROR_NOT_SUPPORTED
    (87, AfterError::Next(Obstacle::NotSupported)), // ERROR_INVALID_PARAMETER
    (120, AfterError::Next(Obstacle::UnknownCall)), // ERROR_CALL_NOT_IMPLEMENTED
    (124, AfterError::Next(Obstacle::UnknownCall)), // ERROR_INVALID_LEVEL
    (347, AfterError::Next(Obstacle::ExtentsNotShared)), // ERROR_BLOCK_TOO_MANY_REFERENCES
];

/// `CopyFile2`.
pub(super) const COPY_FILE2: [Row; 5] = [
    (1, AfterError::Next(Obstacle::NotSupported)), // ERROR_INVALID_FUNCTION
    (50, AfterError::Next(Obstacle::NotSupported)), // ERROR_NOT_SUPPORTED
    (87, AfterError::Next(Obstacle::NotSupported)), // ERROR_INVALID_PARAMETER
    (120, AfterError::Next(Obstacle::UnknownCall)), // ERROR_CALL_NOT_IMPLEMENTED
    (127, AfterError::Next(Obstacle::UnknownCall)), // ERROR_PROC_NOT_FOUND: Wine 8
];

/// Reads and writes of Unix.
pub(super) const READ_WRITE: [Row; 1] = [(4, AfterError::Again)]; // EINTR

/// Decides what follows an error of a mechanism.
pub(super) fn after_error(system: System, mechanism: Mechanism, error: &io::Error) -> AfterError {
    let rows: &[Row] = match (system, mechanism) {
        (System::MacOs, Mechanism::Clonefile) => &CLONEFILE,
        (System::MacOs, Mechanism::Fcopyfile) => &FCOPYFILE,
        (System::Windows, Mechanism::BlockClone) => &BLOCK_CLONE,
        (System::Windows, Mechanism::CopyFile2) => &COPY_FILE2,
        (System::MacOs, Mechanism::ReadWrite) => &READ_WRITE,
        _ => &[],
    };
    let Some(code) = error.raw_os_error() else {
        return match error.kind() {
            io::ErrorKind::Unsupported => AfterError::Next(Obstacle::UnknownCall),
            _ => AfterError::Final,
        };
    };
    if system == System::Other && error.kind() == io::ErrorKind::Interrupted {
        return AfterError::Again;
    }
    rows.iter().find(|(number, _)| *number == code).map_or(AfterError::Final, |(_, after)| *after)
}

/// Calls that give a file its name, the first to try first.
pub(super) fn placings(system: System, replaces: bool) -> &'static [Placing] {
    match (system, replaces) {
        (System::MacOs, false) => &[Placing::ExclusiveRename, Placing::Link],
        (System::Windows, _) => &[Placing::PosixRename, Placing::Rename],
        (_, false) => &[Placing::Link],
        (_, true) => &[Placing::Rename],
    }
}

/// Numbers that say that the call, and not the name, is the obstacle.
pub(super) const NO_EXCLUSIVE_RENAME: [i32; 4] = [22, 45, 78, 102];
pub(super) const NO_POSIX_RENAME: [i32; 5] = [1, 50, 87, 120, 124];

/// Numbers that say that the name is taken: `EEXIST`; `ERROR_FILE_EXISTS`, `ERROR_ALREADY_EXISTS`.
pub(super) const TAKEN_MACOS: [i32; 1] = [17];
pub(super) const TAKEN_WINDOWS: [i32; 2] = [80, 183];

/// Decides what follows an error of `placing`.
pub(super) fn after_placing(
    system: System,
    placing: Placing,
    replaces: bool,
    error: &io::Error,
) -> AfterPlacing {
    let code = error.raw_os_error();
    let is_one_of = |codes: &[i32]| code.is_some_and(|code| codes.contains(&code));
    let has_no_call = match placing {
        Placing::ExclusiveRename => is_one_of(&NO_EXCLUSIVE_RENAME),
        Placing::PosixRename => is_one_of(&NO_POSIX_RENAME),
        Placing::Rename | Placing::Link => false,
    };
    match () {
        () if is_taken(system, error) && !replaces => AfterPlacing::Taken,
        () if has_no_call || (code.is_none() && error.kind() == io::ErrorKind::Unsupported) => {
            AfterPlacing::Next
        }
        () => AfterPlacing::Final,
    }
}

/// Whether an error says that a name is taken.
pub(super) fn is_taken(system: System, error: &io::Error) -> bool {
    let codes: &[i32] = match system {
        System::MacOs => &TAKEN_MACOS,
        System::Windows => &TAKEN_WINDOWS,
        _ => &[],
    };
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
        || (codes.is_empty() && error.kind() == io::ErrorKind::AlreadyExists)
}

/// Numbers that say that a file gets no hard link: the filesystem has none, or the file has too many.
pub(super) const NO_LINK_MACOS: [i32; 5] = [1, 31, 45, 78, 102];
pub(super) const NO_LINK_WINDOWS: [i32; 5] = [1, 5, 50, 120, 1142];

/// Whether an error says that a file gets no hard link, and may be renamed instead.
pub(super) fn cannot_link(system: System, error: &io::Error) -> bool {
    let codes: &[i32] = match system {
        System::MacOs => &NO_LINK_MACOS,
        System::Windows => &NO_LINK_WINDOWS,
        _ => {
            use io::ErrorKind::{PermissionDenied, TooManyLinks, Unsupported};
            return matches!(error.kind(), PermissionDenied | TooManyLinks | Unsupported);
        }
    };
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Whether a system opens symbolic links themselves, so that what is done with one is done with no other file.
pub(super) fn opens_links(system: System) -> bool {
    system == System::MacOs
}

/// Whether a system has a call that renames to a name that must be free.
pub(super) fn renames_to_free_names(system: System) -> bool {
    matches!(system, System::MacOs | System::Windows)
}

/// Largest piece of one call that shares blocks: below 4 GiB, in whole clusters of any size.
const MAX_SHARED: u64 = 1 << 31;

/// Cuts a file into the ranges of calls that share its blocks: whole clusters, the last one up to the end of its
/// cluster.
pub(super) fn shared_pieces(bytes: u64, cluster: u64) -> impl Iterator<Item = Range<u64>> {
    let cluster = cluster.max(1);
    let most = (MAX_SHARED / cluster).max(1) * cluster;
    let end = bytes.div_ceil(cluster).saturating_mul(cluster);
    let mut at = 0u64;
    std::iter::from_fn(move || {
        let start = at;
        at = start.saturating_add(most).min(end);
        (start < end).then_some(start..at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(code: i32) -> io::Error {
        io::Error::from_raw_os_error(code)
    }

    #[test]
    fn options_exclude_mechanisms() {
        use Exclusion::{AnotherNamed, CannotSeeZeros, MayKeepHoles, ReadWriteOnly, SharesBlocks};
        use Mechanism::{BlockClone, Clonefile, CopyFile2, Fcopyfile, ReadWrite};
        let others = |why| [Some(why), Some(why), Some(why), Some(why), None];
        for (allow, holes, expected) in [
            (Allow::Any, Holes::Kept, [None; 5]),
            (Allow::Any, Holes::Filled, others(MayKeepHoles)),
            (Allow::Any, Holes::Made, others(CannotSeeZeros)),
            (
                Allow::Unshared,
                Holes::Kept,
                [Some(SharesBlocks), None, Some(SharesBlocks), Some(SharesBlocks), None],
            ),
            (Allow::ReadWrite, Holes::Kept, others(ReadWriteOnly)),
            (
                Allow::Only(Clonefile),
                Holes::Kept,
                [
                    None,
                    Some(AnotherNamed),
                    Some(AnotherNamed),
                    Some(AnotherNamed),
                    Some(AnotherNamed),
                ],
            ),
        ] {
            let found = [Clonefile, Fcopyfile, BlockClone, CopyFile2, ReadWrite]
                .map(|mechanism| excluded(mechanism, allow, holes, false));
            assert_eq!(found, expected, "{allow:?} {holes:?}");
        }
        for (sparse, has_holes, expected) in [
            (Sparse::Auto, false, Holes::Kept),
            (Sparse::Auto, true, Holes::Kept),
            (Sparse::Never, false, Holes::Kept),
            (Sparse::Never, true, Holes::Filled),
            (Sparse::Always, false, Holes::Made),
            (Sparse::Always, true, Holes::Made),
        ] {
            assert_eq!(Holes::of(sparse, has_holes), expected, "{sparse:?} {has_holes}");
        }
        for system in System::ALL {
            assert_eq!(mechanisms(system).last(), Some(&ReadWrite), "{system}");
        }
    }

    #[test]
    fn an_existing_file_is_written_by_reads_and_writes_alone() {
        use Mechanism::{BlockClone, Clonefile, CopyFile2, Fcopyfile, ReadWrite};
        for mechanism in [Clonefile, Fcopyfile, BlockClone, CopyFile2] {
            let found = excluded(mechanism, Allow::Any, Holes::Kept, true);
            assert_eq!(found, Some(Exclusion::NotInPlace), "{mechanism}");
        }
        assert_eq!(excluded(ReadWrite, Allow::Any, Holes::Filled, true), None);
    }

    #[test]
    fn numbers_that_no_table_has_are_final() {
        for (system, mechanism, table) in [
            (System::MacOs, Mechanism::Clonefile, &CLONEFILE[..]),
            (System::MacOs, Mechanism::Fcopyfile, &FCOPYFILE),
            (System::MacOs, Mechanism::ReadWrite, &READ_WRITE),
            (System::Windows, Mechanism::BlockClone, &BLOCK_CLONE),
            (System::Windows, Mechanism::CopyFile2, &COPY_FILE2),
            (System::Windows, Mechanism::ReadWrite, &[]),
        ] {
            for code in 1..1400 {
                let row = table.iter().find(|(number, _)| *number == code);
                let expected = row.map_or(AfterError::Final, |(_, after)| *after);
                let found = after_error(system, mechanism, &number(code));
                assert_eq!(found, expected, "{system} {mechanism} {code}");
            }
        }
        // Full disks and failing devices: ENOSPC, EIO; ERROR_DISK_FULL, ERROR_SHARING_VIOLATION.
        for (system, mechanism, code) in [
            (System::MacOs, Mechanism::Clonefile, 28),
            (System::MacOs, Mechanism::Fcopyfile, 5),
            (System::Windows, Mechanism::BlockClone, 112),
            (System::Windows, Mechanism::CopyFile2, 32),
        ] {
            assert_eq!(after_error(system, mechanism, &number(code)), AfterError::Final);
        }
    }

    #[test]
    fn a_name_that_is_taken_is_no_error_unless_it_is_replaced() {
        use AfterPlacing::{Final, Next, Taken};
        let rows = [
            (System::MacOs, Placing::ExclusiveRename, false, 17, Taken),
            (System::MacOs, Placing::ExclusiveRename, false, 45, Next),
            (System::MacOs, Placing::ExclusiveRename, false, 22, Next),
            (System::MacOs, Placing::ExclusiveRename, false, 28, Final),
            (System::MacOs, Placing::Link, false, 17, Taken),
            (System::MacOs, Placing::Link, false, 45, Final),
            (System::MacOs, Placing::Rename, true, 17, Final),
            (System::Windows, Placing::PosixRename, false, 183, Taken),
            (System::Windows, Placing::PosixRename, true, 183, Final),
            (System::Windows, Placing::PosixRename, true, 87, Next),
            (System::Windows, Placing::PosixRename, true, 5, Final),
            (System::Windows, Placing::PosixRename, true, 32, Final),
            (System::Windows, Placing::Rename, false, 80, Taken),
            (System::Windows, Placing::Rename, false, 183, Taken),
            (System::Windows, Placing::Rename, true, 87, Final),
        ];
        for (system, placing, replaces, code, expected) in rows {
            let found = after_placing(system, placing, replaces, &number(code));
            assert_eq!(found, expected, "{system} {placing:?} {code}");
        }
        let exists = io::ErrorKind::AlreadyExists.into();
        assert_eq!(after_placing(System::Other, Placing::Link, false, &exists), Taken);
    }

    #[test]
    fn pieces_are_whole_clusters_below_4_gib() {
        const GIB: u64 = 1 << 30;
        for cluster in [512, 4096, 65_536, 2 << 20] {
            for bytes in [0, 1, cluster, cluster + 1, 2 * GIB, 4 * GIB, 9 * GIB + 5] {
                let mut at = 0;
                for piece in shared_pieces(bytes, cluster) {
                    assert!(piece.start == at && piece.end > at, "{bytes} {cluster}: a gap");
                    assert!(piece.start % cluster == 0 && piece.end % cluster == 0);
                    assert!(piece.end - piece.start < 4 * GIB);
                    at = piece.end;
                }
                assert!(at >= bytes && at - bytes < cluster, "{bytes} {cluster}");
            }
        }
    }
}
