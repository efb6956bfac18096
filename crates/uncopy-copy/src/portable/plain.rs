//! Copies the metadata of files that the standard library supports on every system.

use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io;
use std::path::Path;

use super::mode_changes::ModeChanges;
use uncopy_core::{FileKind, Note};

/// There are no permission bits to take over.
pub(super) fn create_like(_: &mut OpenOptions, _: &Metadata, _: Option<u32>) {}

/// There are no permission bits.
pub(super) fn create_for_everybody(_: &mut OpenOptions) {}

/// There are no permission bits.
pub(super) fn umask_of(_: &Metadata) -> u32 {
    0
}

/// Loss of a file that replaces another one: everything is as its directory gives it.
pub(super) fn loss_of_old() -> Note {
    Note::OldMetadataGone
}

/// Not available on this system.
pub(super) fn owner(_: &Metadata) -> Option<(u32, u32)> {
    None
}

/// A file is read-only if the one that it replaces was.
pub(super) fn mode_of_old(old: &Metadata, _: bool) -> Option<Permissions> {
    old.permissions().readonly().then(|| old.permissions())
}

/// A new file is as its directory gives it.
pub(super) fn mode_of_new(_: &Metadata, _: u32) -> Option<Permissions> {
    None
}

/// The read-only attribute is all that there is of a mode.
pub(super) fn mode_of_source(_: &Metadata, source: &Metadata) -> (Permissions, Option<Note>) {
    (source.permissions(), None)
}

/// Not available on this system.
pub(super) fn changed(_: &Permissions, _: &ModeChanges, _: u32) -> io::Result<Permissions> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nothing of it depends on the name.
pub(super) fn until_named(mode: Permissions, _: bool) -> (Permissions, Option<Permissions>) {
    (mode, None)
}

/// One file, by its path alone: hard links are not seen.
pub(super) fn is_same_file(a: (&Path, &Metadata), b: (&Path, &Metadata)) -> bool {
    match (fs::canonicalize(a.0), fs::canonicalize(b.0)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Not available on this system; names alone are compared.
pub(super) fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

/// Not available on this system.
pub(super) fn change_time(_: &Metadata) -> Option<(i64, i64)> {
    None
}

/// Not available on this system.
pub(super) fn links(_: &Metadata) -> u64 {
    1
}

/// Not available on this system.
pub(super) fn may_have_holes(_: &Metadata) -> bool {
    false
}

/// Returns the kind of a file, as far as the system distinguishes kinds.
pub(super) fn kind(metadata: &Metadata) -> FileKind {
    let kind = metadata.file_type();
    let known = [
        (kind.is_file(), FileKind::Regular),
        (kind.is_dir(), FileKind::Directory),
        (kind.is_symlink(), FileKind::Symlink),
    ];
    let found = known.into_iter().find(|(is, _)| *is);
    found.map_or(FileKind::Unknown, |(_, kind)| kind)
}
