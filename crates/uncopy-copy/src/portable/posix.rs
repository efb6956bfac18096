//! Copies the metadata of files on Unix.

use std::fs::{Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::mode_changes::ModeChanges;
use uncopy_core::{FileKind, Note};

const PERMISSIONS: u32 = 0o777;
const OWNER: u32 = 0o700;
const GROUP: u32 = 0o070;
const STICKY: u32 = 0o1000;
const SETUID_SETGID: u32 = 0o6000;

/// A file that is made has these permission bits or those of another, less the umask.
pub(super) fn create_like(new: &mut OpenOptions, source: &Metadata, bits: Option<u32>) {
    new.mode(bits.unwrap_or(source.mode() & PERMISSIONS));
}

/// A file that is made has every permission bit, less the umask.
pub(super) fn create_for_everybody(new: &mut OpenOptions) {
    new.mode(PERMISSIONS);
}

/// Returns the umask under which such a file was made.
pub(super) fn umask_of(made: &Metadata) -> u32 {
    PERMISSIONS & !made.mode()
}

/// Loss of a file that replaces another one, whatever it is given.
pub(super) fn loss_of_old() -> Note {
    Note::OldAttributesGone
}

/// Returns user and group.
pub(super) fn owner(metadata: &Metadata) -> Option<(u32, u32)> {
    Some((metadata.uid(), metadata.gid()))
}

/// Returns the mode of a file for one that replaces it: setuid and setgid are not for new contents, and what the group
/// may is not for another group.
pub(super) fn mode_of_old(old: &Metadata, keeps_group: bool) -> Option<Permissions> {
    let mode = old.mode() & (STICKY | PERMISSIONS);
    Some(Permissions::from_mode(if keeps_group { mode } else { mode & !GROUP }))
}

/// Returns the mode of a new file.
pub(super) fn mode_of_new(source: &Metadata, umask: u32) -> Option<Permissions> {
    Some(Permissions::from_mode(source.mode() & PERMISSIONS & !umask))
}

/// Returns the mode of the source for its copy, which is like `now`: without setuid and setgid where the owner is
/// another.
pub(super) fn mode_of_source(now: &Metadata, source: &Metadata) -> (Permissions, Option<Note>) {
    let mode = source.mode() & (SETUID_SETGID | STICKY | PERMISSIONS);
    let is_owned = owner(now) == owner(source);
    match mode & SETUID_SETGID == 0 || is_owned {
        true => (Permissions::from_mode(mode), None),
        false => (Permissions::from_mode(mode & !SETUID_SETGID), Some(Note::SetuidDropped)),
    }
}

/// Changes the mode of a file.
pub(super) fn changed(
    before: &Permissions,
    changes: &ModeChanges,
    umask: u32,
) -> io::Result<Permissions> {
    Ok(Permissions::from_mode(changes.apply(before.mode(), false, umask)))
}

/// Returns what of a mode a file may have under a temporary name, and all of it if that is less. With `is_hidden` it is
/// for the owner alone.
pub(super) fn until_named(
    mode: Permissions,
    is_hidden: bool,
) -> (Permissions, Option<Permissions>) {
    let first = mode.mode() & if is_hidden { OWNER } else { !SETUID_SETGID };
    match first == mode.mode() {
        true => (mode, None),
        false => (Permissions::from_mode(first), Some(mode)),
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

/// Returns the kind of a file.
pub(super) fn kind(metadata: &Metadata) -> FileKind {
    let kind = metadata.file_type();
    let known = [
        (kind.is_file(), FileKind::Regular),
        (kind.is_dir(), FileKind::Directory),
        (kind.is_symlink(), FileKind::Symlink),
        (kind.is_fifo(), FileKind::Fifo),
        (kind.is_socket(), FileKind::Socket),
        (kind.is_char_device(), FileKind::CharacterDevice),
        (kind.is_block_device(), FileKind::BlockDevice),
    ];
    let found = known.into_iter().find(|(is, _)| *is);
    found.map_or(FileKind::Unknown, |(_, kind)| kind)
}
