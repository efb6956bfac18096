//! Copies the metadata of files that the standard library supports on every system.

use std::fs::{self, File, Metadata, OpenOptions};
use std::path::Path;

use super::source_mode::SourceMode;

use uncopy_core::Note;

/// There are no permission bits to take over.
pub(super) fn create_like(_: &mut OpenOptions, _: &Metadata) {}

/// Makes a file read-only if the old one was. Everything else is as its directory gives it.
pub(super) fn give_as_old(file: &File, old: &Metadata) -> Vec<Note> {
    let mut notes = vec![Note::OldMetadataGone];
    if old.permissions().readonly()
        && let Err(error) = file.set_permissions(old.permissions())
    {
        notes.push(Note::OldPermissionsNotKept { error: error.into() });
    }
    notes
}

/// The read-only attribute is all that there is of a mode.
pub(super) fn mode_of_source(_: &File, source: &Metadata) -> SourceMode {
    SourceMode { first: source.permissions(), last: None, note: None }
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

/// Describes the kind of a file that is not regular.
pub(super) fn kind(metadata: &Metadata) -> Option<&'static str> {
    match (metadata.is_file(), metadata.is_dir()) {
        (true, _) => None,
        (_, true) => Some("a directory"),
        _ => Some("no regular file"),
    }
}
