//! Defines the open regular file that a copy reads: on this machine, or on another one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::peer_file::PeerFile;
use super::sparse::{self, Segment};
use uncopy_core::Errno;
use uncopy_os::Sys;
use uncopy_os::file::{self, Stat};

/// An open file of the source.
#[derive(Debug)]
pub(crate) enum SourceFile {
    /// On this machine.
    Here(OwnedFd),
    /// On another machine.
    There(Box<PeerFile>),
}

impl SourceFile {
    /// Returns its descriptor, if it is on this machine.
    pub(crate) fn here(&self) -> Option<BorrowedFd<'_>> {
        match self {
            SourceFile::Here(fd) => Some(fd.as_fd()),
            SourceFile::There(_) => None,
        }
    }

    /// Returns the file, if it is on another machine.
    pub(crate) fn there(&self) -> Option<&PeerFile> {
        match self {
            SourceFile::Here(_) => None,
            SourceFile::There(file) => Some(file),
        }
    }

    /// Returns its descriptor. `EXDEV`: it is on another machine.
    pub(crate) fn fd(&self) -> Sys<BorrowedFd<'_>> {
        self.here().ok_or(Errno::EXDEV)
    }

    /// Looks at it again.
    pub(crate) fn examine(&self) -> Sys<Stat> {
        match self {
            SourceFile::Here(fd) => file::stat(fd),
            SourceFile::There(file) => file.examine(),
        }
    }

    /// Returns a status of it by which it is known if it is among the files of this machine.
    pub(crate) fn stat_here(&self, stat: &Stat) -> Stat {
        match self {
            SourceFile::Here(_) => stat.clone(),
            SourceFile::There(file) => file.link().stat_here(stat),
        }
    }

    /// Returns the segment of the file, of `size` bytes, that begins at `offset` (below `size`).
    pub(crate) fn segment(&self, offset: u64, size: u64) -> Segment {
        match self {
            SourceFile::Here(fd) => sparse::segment(&fd.as_fd(), offset, size),
            SourceFile::There(file) => file.segment(offset, size),
        }
    }
}
