//! Makes directories and links on Unix.

use std::fs::{self, DirBuilder, File, FileTimes, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// Makes a directory of this mode less the umask.
pub(super) fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(path)
}

/// Makes a symbolic link.
pub(super) fn make_link(target: &Path, new: &Path, _: bool) -> io::Result<()> {
    symlink(target, new)
}

/// There is one kind of links.
pub(super) fn is_of_directory(_: &Metadata) -> bool {
    false
}

/// Returns permissions, setuid, setgid and sticky bit.
pub(super) fn mode(metadata: &Metadata) -> u32 {
    metadata.mode() & 0o7777
}

/// Removes an empty directory.
pub(super) fn remove_directory(path: &Path) -> io::Result<()> {
    fs::remove_dir(path)
}

/// Opens a directory so that its metadata can be changed.
pub(super) fn open_directory_to_change(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a directory so that it can be flushed.
pub(super) fn open_directory_to_flush(path: &Path) -> io::Result<File> {
    File::open(path)
}

pub(super) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

pub(super) fn set_mode_of(directory: &File, mode: u32) -> io::Result<()> {
    directory.set_permissions(Permissions::from_mode(mode))
}

/// Gives a directory the times of another.
pub(super) fn set_times(path: &Path, source: &Metadata) -> io::Result<()> {
    let times = FileTimes::new().set_accessed(source.accessed()?);
    File::open(path)?.set_times(times.set_modified(source.modified()?))
}

/// Opens a file so that it can be flushed.
pub(super) fn open_to_flush(path: &Path) -> io::Result<File> {
    File::open(path)
}
