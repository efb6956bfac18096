//! Notes large files chunk by chunk in the journal, and finds their parts again.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};

use super::{Journal, state};
use crate::digest::ChunkDigest;
use crate::journal::format::{Part, Short};
use crate::journal::is_own;
use crate::stale;
use crate::tree::partial::{self, Flushed, Keep, LeftPart, is_whole};
use uncopy_core::{Errno, Error, Result};
use uncopy_os::file::{self, FileId, Stat};
use uncopy_os::{Sys, directory, name};

/// Notes the chunks of one file.
pub(in crate::tree) struct KeptPart<S> {
    /// Function that ends the job if the journal cannot be written.
    stop: S,
    journal: Arc<Journal>,
    path: OsString,
    source: Short,
    chunk_bytes: u64,
}

impl<S: Fn(Error) + Send> KeptPart<S> {
    /// Makes the notes for the file at this path from the root, with this source.
    pub(in crate::tree) fn new(
        stop: S,
        journal: &Arc<Journal>,
        path: &Path,
        source: &Stat,
    ) -> KeptPart<S> {
        KeptPart {
            stop,
            journal: Arc::clone(journal),
            path: path.as_os_str().to_owned(),
            source: state(source),
            chunk_bytes: partial::chunk_bytes(source.size),
        }
    }

    /// Returns the part that an earlier run made of the file in a directory of the destination, if
    /// the source is unchanged. In a tree without its final name, `ended` is the name that the
    /// complete file got; that may not be noted, so it is taken back.
    pub(in crate::tree) fn begun(
        &self,
        directory: BorrowedFd<'_>,
        ended: Option<&OsStr>,
    ) -> Option<LeftPart> {
        let part = self.journal.take_part(&self.path)?;
        if !part.is_of(self.source, self.chunk_bytes) {
            remove(directory, &part);
            return None;
        }
        if let Some(name) = ended {
            // If that fails, the file is copied from the beginning.
            let _ = take_back(directory, name, &part);
        }
        let file = open(directory, &part).ok()?;
        Some(LeftPart { file: (file, part.name), chunks: part.chunks })
    }
}

impl<S: Fn(Error) + Send> Keep for KeptPart<S> {
    fn note(
        &mut self,
        file: (&OsStr, FileId),
        first: u64,
        chunks: &[ChunkDigest],
        flushed: Flushed,
    ) -> Sys<()> {
        let part = Part {
            source: self.source,
            name: file.0.to_owned(),
            id: file.1,
            chunk_bytes: self.chunk_bytes,
            path: self.path.clone(),
            chunks: chunks.to_vec(),
        };
        self.journal.add_chunks(&part, first, flushed).inspect_err(|errno| {
            (self.stop)(Error::destination("write the journal for", &self.path, *errno));
        })
    }
}

/// Whether a name refers to a complete part that an earlier run put in place but did not note: a
/// file of that inode, with the contents of the source. `source`: the source, unless it is on another machine.
/// `on_progress` receives the offset.
pub(in crate::tree) fn is_ended(
    journal: &Journal,
    path: &Path,
    source: Option<BorrowedFd<'_>>,
    stat: &Stat,
    directory: BorrowedFd<'_>,
    name: &OsStr,
    on_progress: impl FnMut(u64) -> Result<()>,
) -> Result<bool> {
    let Some(part) = journal.part(path.as_os_str(), stat) else { return Ok(false) };
    let opened = name::open_existing(directory, name, OFlags::RDONLY)
        .and_then(|file| file::stat(&file).map(|stat| (file, stat)));
    let Ok((copy, found)) = opened else { return Ok(false) };
    let is_part = found.file_type() == FileType::RegularFile
        && (found.id(), found.links, found.size) == (part.id, 1, stat.size);
    let whole = is_part && is_whole(source, copy.as_fd(), stat.size, &part.chunks, on_progress)?;
    if whole {
        // It cannot be resumed.
        let _ = journal.take_part(path.as_os_str());
    }
    Ok(whole)
}

/// Opens the temporary file of a part, after checking that it is the one that was noted.
fn open(directory: BorrowedFd<'_>, part: &Part) -> Sys<std::os::fd::OwnedFd> {
    if !stale::is_temporary(&part.name) || part.name.as_bytes().contains(&b'/') {
        return Err(Errno::EINVAL);
    }
    let file = name::open_existing(directory, &part.name, OFlags::RDWR)?;
    let stat = file::stat(&file)?;
    if stat.id() != part.id || !is_own(&stat) || stat.links != 1 {
        return Err(Errno::ESTALE);
    }
    match file::try_lock(&file) {
        Err(Errno::EAGAIN) => Err(Errno::EAGAIN),
        // A filesystem without locks.
        _ => Ok(file),
    }
}

/// Turns a file that already has its final name into a part again.
fn take_back(directory: BorrowedFd<'_>, name: &OsStr, part: &Part) -> Sys<()> {
    let file = name::open_existing(directory, name, OFlags::RDONLY)?;
    let stat = file::stat(&file)?;
    let is_part = stat.file_type() == FileType::RegularFile
        && (stat.id(), stat.links) == (part.id, 1)
        && stale::is_temporary(&part.name)
        && !part.name.as_bytes().contains(&b'/');
    if !is_part {
        return Err(Errno::ESTALE);
    }
    if stat.uid != file::effective_uid() {
        file::set_owner(&file, Some(file::effective_uid()), None)?;
    }
    file::set_permissions(&file, 0o600)?;
    name::rename_new(directory, name, &part.name)
}

/// Removes the temporary file of a part, if its identity is certain.
fn remove(directory: BorrowedFd<'_>, part: &Part) {
    if part.id.birth.is_some() && open(directory, part).is_ok() {
        let _ = name::unlink(directory, &part.name);
    }
}

/// Removes the parts that earlier runs began in a directory, at this path from the root, of files
/// that the source no longer has.
pub(in crate::tree) fn sweep_directory(
    journal: &Journal,
    path: impl FnOnce() -> PathBuf,
    directory: BorrowedFd<'_>,
) {
    for part in journal.take_parts_in(path) {
        remove(directory, &part);
    }
}

/// Does the same in directories that the source no longer has.
pub(in crate::tree) fn sweep(journal: &Journal, root: BorrowedFd<'_>) {
    for part in journal.take_parts() {
        let above = Path::new(&part.path).parent().unwrap_or(Path::new(""));
        let names: Vec<&OsStr> = above.iter().collect();
        if let Ok(directory) = directory::open_beneath(root, &names, true) {
            remove(directory.as_fd(), &part);
        }
    }
}
