//! Copies the metadata of files on Unix.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use super::source_mode::SourceMode;

use uncopy_core::Note;

const PERMISSIONS: u32 = 0o777;
const GROUP: u32 = 0o070;
const STICKY: u32 = 0o1000;
const SETUID_SETGID: u32 = 0o6000;

/// A file that is made has the permission bits of another, less the umask.
pub(super) fn create_like(new: &mut OpenOptions, source: &Metadata) {
    new.mode(source.mode() & PERMISSIONS);
}

/// Gives a file owner and mode of the one that it replaces; setuid and setgid are not for new contents.
/// Returns what is not kept.
pub(super) fn give_as_old(file: &File, old: &Metadata) -> Vec<Note> {
    let mut notes = vec![Note::OldAttributesGone];
    let mut mode = old.mode() & (STICKY | PERMISSIONS);
    let is_owned =
        file.metadata().is_ok_and(|new| (new.uid(), new.gid()) == (old.uid(), old.gid()));
    if !is_owned && fchown(file, Some(old.uid()), Some(old.gid())).is_err() {
        // A user who may not give a file away may still give it to one of his groups.
        if fchown(file, None, Some(old.gid())).is_ok() {
            notes.push(Note::OldOwnerNotKept);
        } else {
            mode &= !GROUP;
            notes.push(Note::OldOwnerAndGroupNotKept);
        }
    }
    if let Err(error) = file.set_permissions(Permissions::from_mode(mode)) {
        notes.push(Note::OldPermissionsNotKept { error: error.into() });
    }
    notes
}

/// Mode of the source for its copy: `first`, and what is for its final name alone. Without setuid and setgid where the
/// owner is another.
pub(super) fn mode_of_source(file: &File, source: &Metadata) -> SourceMode {
    let mode = source.mode() & (SETUID_SETGID | STICKY | PERMISSIONS);
    let first = Permissions::from_mode(mode & !SETUID_SETGID);
    if mode & SETUID_SETGID == 0 {
        return SourceMode { first, last: None, note: None };
    }
    let is_owned =
        file.metadata().is_ok_and(|new| (new.uid(), new.gid()) == (source.uid(), source.gid()));
    match is_owned {
        true => SourceMode { first, last: Some(Permissions::from_mode(mode)), note: None },
        false => SourceMode { first, last: None, note: Some(Note::SetuidDropped) },
    }
}

/// One file, by device and inode.
pub(super) fn is_same_file(a: (&Path, &Metadata), b: (&Path, &Metadata)) -> bool {
    (a.1.dev(), a.1.ino()) == (b.1.dev(), b.1.ino())
}

/// Returns device and inode.
pub(super) fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    Some((metadata.dev(), metadata.ino()))
}

/// When anything but the contents changed last.
pub(super) fn change_time(metadata: &Metadata) -> Option<(i64, i64)> {
    Some((metadata.ctime(), metadata.ctime_nsec()))
}

/// Hard links.
pub(super) fn links(metadata: &Metadata) -> u64 {
    metadata.nlink()
}

/// It has fewer blocks than bytes: a part of it was never written, or the filesystem compresses it.
pub(super) fn may_have_holes(metadata: &Metadata) -> bool {
    metadata.blocks().saturating_mul(512) < metadata.len()
}

/// Describes the kind of a file that is not regular.
pub(super) fn kind(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return None;
    }
    let known = [
        (kind.is_dir(), "a directory"),
        (kind.is_symlink(), "a symbolic link"),
        (kind.is_fifo(), "a FIFO"),
        (kind.is_socket(), "a socket"),
        (kind.is_char_device(), "a character device"),
        (kind.is_block_device(), "a block device"),
    ];
    let found = known.into_iter().find(|(is, _)| *is);
    Some(found.map_or("of an unknown kind", |(_, name)| name))
}
