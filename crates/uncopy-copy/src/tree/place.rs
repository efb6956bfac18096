//! Defines the place of an entry: its name in a directory of the source, and the one that its copy
//! gets.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::FileType;

use super::directory::{Directory, Open};
use crate::peer::PeerEntry;
use crate::source;
use crate::source_file::SourceFile;
use uncopy_core::{Errno, Error};
use uncopy_os::Sys;
use uncopy_os::file::Stat;

/// A name in the source, and the one that its copy gets.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) directory: &'a Arc<Directory>,
    pub(super) open: &'a Arc<Open>,
    pub(super) name: &'a OsStr,
    pub(super) target: &'a OsStr,
    /// The entry as another machine listed it. It may have changed since.
    pub(super) listed: Option<&'a Arc<PeerEntry>>,
}

impl<'a> Place<'a> {
    /// Makes the place of an entry whose copy has its name.
    pub(super) fn new(
        directory: &'a Arc<Directory>,
        open: &'a Arc<Open>,
        name: &'a OsStr,
    ) -> Place<'a> {
        Place { directory, open, name, target: name, listed: None }
    }

    /// Looks at the entry in the source, unless its listing shows its status.
    pub(super) fn stat(&self) -> Sys<Stat> {
        match self.listed {
            Some(entry) => Ok(entry.stat.clone()),
            None => self.open.source.stat_name(self.name),
        }
    }

    /// Returns the target of a symbolic link of the source.
    pub(super) fn read_link(&self) -> Sys<OsString> {
        match self.listed.and_then(|entry| entry.target.as_ref()) {
            Some(target) => Ok(target.clone()),
            None => self.open.source.read_link(self.name),
        }
    }

    pub(super) fn source(&self) -> PathBuf {
        self.directory.source_path().join(self.name)
    }

    pub(super) fn destination(&self) -> PathBuf {
        self.directory.destination_path().join(self.target)
    }

    /// Returns its paths in source and destination.
    pub(super) fn names(&self) -> (PathBuf, PathBuf) {
        (self.source(), self.destination())
    }

    /// Returns the path from the root.
    pub(super) fn way(&self) -> PathBuf {
        self.directory.path_from_root().join(self.name)
    }

    /// Whether the copy has a different name, because it is compressed or decompressed.
    pub(super) fn is_renamed(&self) -> bool {
        self.name != self.target
    }
}

/// An open regular file, and its status when it was opened.
pub(super) struct OpenFile {
    pub(super) file: SourceFile,
    pub(super) stat: Stat,
}

/// Refuses an entry whose kind differs from the listed one.
pub(super) fn changed_kind(place: &Place<'_>, found: FileType) -> Error {
    source::changed_kind(place.source(), found)
}

/// Returns the error of a directory that cannot be opened: it may have become something else after it was listed.
pub(super) fn directory_not_opened(place: &Place<'_>, errno: Errno) -> Error {
    let is_another = matches!(errno, Errno::ELOOP | Errno::ENOTDIR);
    match is_another.then(|| place.open.source.stat_name(place.name)) {
        Some(Ok(now)) if now.file_type() != FileType::Directory => {
            changed_kind(place, now.file_type())
        }
        _ => Error::system("open", place.source(), errno),
    }
}
