//! Flushes names, so that they survive a power cut.

use std::os::fd::AsFd;

use super::plan;
use uncopy_os::capabilities::Filesystem;
use uncopy_os::{Sys, file};

/// Whether a flush of the directory also keeps how many names its new files have.
pub(crate) fn logs_links(written: impl AsFd) -> bool {
    let filesystem = Filesystem::from_magic(file::filesystem_magic(&written).unwrap_or(0));
    plan::logs_links(filesystem, || file::has_journal(&written).unwrap_or(false))
}

/// Flushes a directory, open for reading, with the symbolic links and special files in it: where no journal keeps them, no
/// other call does that than one for the whole filesystem.
pub(crate) fn directory(directory: impl AsFd) -> Sys<()> {
    match logs_links(&directory) {
        true => file::sync(directory),
        false => file::sync_filesystem(directory),
    }
}

/// Flushes the symbolic links and special files of a tree whose directories are flushed.
pub(crate) fn links(root: impl AsFd) -> Sys<()> {
    if logs_links(&root) { Ok(()) } else { file::sync_filesystem(root) }
}
