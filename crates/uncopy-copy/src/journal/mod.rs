//! Journals as files: what a killed job had done, for those who meet one and for the job that goes on.

pub(crate) mod format;

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags};

#[cfg(fuzzing)]
pub use format::fuzz;
use format::{Told, Unusable};
use uncopy_core::Errno;
use uncopy_os::file::{self, FileId, Stat};
use uncopy_os::{Sys, name, transfer};

/// Contents of a journal that nobody else can have written. `None`: there is none, or somebody else can have
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

/// Whether a journal says that this is the tree which is being built. An error: nobody knows, since it cannot
/// be read.
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

/// Nobody else can have written it.
pub(crate) fn is_own(stat: &Stat) -> bool {
    stat.file_type() == FileType::RegularFile
        && stat.uid == file::effective_uid()
        && stat.permissions() & 0o022 == 0
        && stat.links <= 1
}

/// Reads a journal, telling what it says of files that are done.
pub(crate) fn parse(
    file: &OwnedFd,
    size: u64,
    told: &mut impl Told,
) -> Sys<std::result::Result<format::Contents, Unusable>> {
    let read = |at, buffer: &mut Vec<u8>, length| {
        buffer.resize(length, 0);
        let read = transfer::read_all_at(file, buffer, at)?;
        buffer.truncate(read);
        Ok(())
    };
    format::parse(size, read, told)
}
