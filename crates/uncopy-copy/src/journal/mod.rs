//! Journal files of unfinished jobs: read by the job that resumes, and by others that find one.

pub(crate) mod format;

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags};

#[cfg(fuzzing)]
pub use format::fuzz;
use format::{JournalVisitor, Unusable};
use uncopy_core::Errno;
use uncopy_os::file::{self, FileId, Stat};
use uncopy_os::{Sys, name, transfer};

/// Reads a journal that only this user can have written. `None`: there is none, or another user may have
/// written it. An error: it cannot be read, or is damaged.
pub(crate) fn look_into(
    directory: BorrowedFd<'_>,
    journal: &OsStr,
) -> Sys<Option<format::Contents>> {
    let file = match name::open_existing(directory, journal, OFlags::RDONLY) {
        Err(Errno::ENOENT) => return Ok(None),
        other => other?,
    };
    let stat = file::stat(&file)?;
    if !is_own(&stat) {
        return Ok(None);
    }
    match parse(&file, stat.size, &mut ())? {
        Ok(contents) => Ok(Some(contents).filter(|found| found.own == Some(stat.id()))),
        Err(Unusable::Foreign | Unusable::Copied) => Ok(None),
        Err(Unusable::Damaged { .. }) => Err(Errno::EIO),
    }
}

/// Whether a journal names this tree as the one under construction. An error: the journal cannot be read.
pub(crate) fn is_journalled(
    directory: BorrowedFd<'_>,
    journal: &OsStr,
    tree: &OsStr,
    id: FileId,
) -> Sys<bool> {
    let begun = look_into(directory, journal)?.and_then(|contents| contents.begun);
    let built = begun.and_then(|begun| begun.aside);
    Ok(built.is_some_and(|built| built.name == tree && built.id == id))
}

/// Whether only this user can have written the file.
pub(crate) fn is_own(stat: &Stat) -> bool {
    stat.file_type() == FileType::RegularFile
        && stat.uid == file::effective_uid()
        && stat.permissions() & 0o022 == 0
        && stat.links <= 1
}

/// Reads a journal, and passes finished files and hard links to `visitor`.
pub(crate) fn parse(
    file: &OwnedFd,
    size: u64,
    visitor: &mut impl JournalVisitor,
) -> Sys<std::result::Result<format::Contents, Unusable>> {
    let read = |at, buffer: &mut Vec<u8>, length| {
        buffer.resize(length, 0);
        let read = transfer::read_all_at(file, buffer, at)?;
        buffer.truncate(read);
        Ok(())
    };
    format::parse(size, read, visitor)
}
