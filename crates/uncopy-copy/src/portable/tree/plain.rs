//! Makes directories on systems that are neither Unix nor Windows.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

use uncopy_os::native::unsupported;

pub(super) fn make_directory(path: &Path, _: u32) -> io::Result<()> {
    fs::create_dir(path)
}

/// Not available on this system.
pub(super) fn make_link(_: &Path, _: &Path, _: bool) -> io::Result<()> {
    unsupported()
}

/// There is one kind of links.
pub(super) fn is_of_directory(_: &Metadata) -> bool {
    false
}

/// There are no modes.
pub(super) fn mode(_: &Metadata) -> u32 {
    0
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

pub(super) fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

pub(super) fn set_mode_of(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

/// Not available on this system.
pub(super) fn set_times(_: &Path, _: &Metadata) -> io::Result<()> {
    unsupported()
}

/// Opens a file so that it can be flushed.
pub(super) fn open_to_flush(path: &Path) -> io::Result<File> {
    File::open(path)
}
