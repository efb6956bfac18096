//! Copies a part of a large file, of which other jobs copy other parts, and puts the whole file in place.

use std::cell::Cell;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::context::CopyContext;
use crate::destination::{Destination, ExistingEntry};
use crate::display_path::DisplayPath;
use crate::file_copy::{CopyRequest, FileCopy};
use crate::guard::{Guard, Guarded};
use crate::guarded_source::GuardedFile;
use crate::observer::{Observer, Phase, Progress};
use crate::retries::Flushes;
use crate::source::Source;
use crate::staging::Staging;
use crate::transfer::Transfer;
use crate::{Allow, CopyOptions, Verify};
use uncopy_core::{Errno, Error, Mechanism, Reason, Receipt, Result};
use uncopy_os::capabilities::Filesystem;
use uncopy_os::{file, name};

/// A part that does not begin and end at a multiple of this is copied through the program: another job may write to the
/// same block.
const BLOCK_BYTES: u64 = 1 << 16;

/// Bytes that are asked for at a time of a file of another machine that is read again.
const READ_BYTES: u64 = 64 << 20;

/// A file that is copied in parts.
#[allow(clippy::exhaustive_structs, reason = "callers make it")]
pub struct CutFile<'a> {
    /// The open source.
    pub source: &'a GuardedFile,
    /// Path of the source for people.
    pub source_path: &'a Path,
    /// Path of the destination for people.
    pub path: &'a Path,
    /// Directory of the destination.
    pub directory: Arc<OwnedFd>,
    /// Name in it that the whole file gets.
    pub name: &'a OsStr,
    /// File that all parts are written to. It has the length of the source.
    pub staging: OwnedFd,
    /// Name of that file in the directory.
    pub staging_name: &'a OsStr,
    /// Options of the copy.
    pub options: &'a CopyOptions,
}

/// Copies a part. What the source has as a hole becomes one.
///
/// # Errors
/// As [`copy_file`](crate::copy_file). The staging file stays.
pub fn copy_part(
    cut: CutFile<'_>,
    part: Range<u64>,
    observer: &mut dyn Observer,
) -> Result<Receipt> {
    let size = examine(cut.source, cut.source_path)?.size;
    let is_border = |at: u64| at.is_multiple_of(BLOCK_BYTES) || at == size;
    // The whole file is verified and digested when all parts are there.
    let mut options = cut.options.clone().verify(None::<Verify>).digest(None);
    if !is_border(part.start) || !is_border(part.end) {
        options.allow = Allow::Only(Mechanism::ReadWrite);
    }
    let cut = CutFile { options: &options, ..cut };
    with_copy(cut, None, observer, |copy, staging| {
        copy.receipt.bytes = Transfer::new(copy, part.end).run_part(part.clone())?;
        copy.check_change_of(part.end - part.start)?;
        if copy.options().durable {
            file::sync_data(staging.fd()).map_err(|e| copy.destination_error("flush", e))?;
        }
        Ok(std::mem::take(&mut copy.receipt))
    })
}

/// Verifies a file whose parts are all there, gives it its metadata, and puts it in place as far as the guard allows.
///
/// # Errors
/// As [`copy_file`](crate::copy_file). The staging file stays.
pub fn finish_cut_file(
    cut: CutFile<'_>,
    entry: &Path,
    guard: &dyn Guard,
    observer: &mut dyn Observer,
) -> Result<Receipt> {
    let guarded = &Guarded::new(guard, entry.to_owned());
    with_copy(cut, Some(guarded), observer, |copy, staging| {
        copy.receipt.bytes = copy.source.stat.size;
        copy.prepare_digests()?;
        receive_digest(copy)?;
        let directory = copy.complete(None)?;
        staging.commit()?;
        let mut receipt = std::mem::take(&mut copy.receipt);
        receipt.notes.extend(copy.staging.give_last(directory.is_some())?);
        if let Some(directory) = directory {
            staging.sync_directory(&directory)?;
            receipt.durable = true;
        }
        Ok(receipt)
    })
}

/// Reads a source on another machine again, for the digest that the copy is compared with.
fn receive_digest(copy: &mut FileCopy<'_, '_>) -> Result<()> {
    let (source, total_bytes) = (copy.source, copy.source.stat.size);
    let Some(file) = source.there().filter(|_| copy.received.is_some()) else { return Ok(()) };
    let mut at = 0;
    while at < total_bytes {
        let progress = Progress { phase: Phase::Verifying, done_bytes: at, total_bytes };
        copy.report(progress)?;
        let end = total_bytes.min(at + READ_BYTES);
        let read = file.read(at..end, total_bytes, &mut |bytes| {
            if let Some(received) = &mut copy.received {
                received.add(at, bytes);
            }
            at += bytes.len() as u64;
            true
        });
        if read.map_err(|errno| Error::system("read", source.path, errno))? == 0 {
            let what = format!("size {total_bytes} to {at} bytes");
            return Err(Error::new("copy", source.path, Reason::SourceChanged { what }));
        }
    }
    Ok(())
}

/// Calls `act` with a copy of the file, and with its staging file.
fn with_copy<T>(
    cut: CutFile<'_>,
    guarded: Option<&Guarded<'_>>,
    observer: &mut dyn Observer,
    act: impl FnOnce(&mut FileCopy<'_, '_>, &mut Staging<'_>) -> Result<T>,
) -> Result<T> {
    let CutFile { source, source_path, path, directory, name, staging, staging_name, options } =
        cut;
    let flushes = Cell::<Flushes>::default();
    let stat = examine(source, source_path)?;
    let file = source.source_file().map_err(|errno| Error::system("open", source_path, errno))?;
    // Nobody knows that of another machine.
    let filesystem = |fd: Option<BorrowedFd<'_>>| {
        Filesystem::from_magic(fd.and_then(|fd| file::filesystem_magic(fd).ok()).unwrap_or(0))
    };
    let (from, to) = (filesystem(file.here()), filesystem(Some(staging.as_fd())));
    let found = find(&directory, name).map_err(|e| Error::destination("examine", path, e))?;
    let source = Source::opened(DisplayPath::Path(source_path), file, stat, from);
    let source = &source.watched(options, &flushes);
    let given = DisplayPath::Path(path);
    let destination = &Destination::beneath(directory, to, name, given, found, source, options)?;
    let context = &CopyContext { guarded, ..CopyContext::new() };
    let request = CopyRequest { source, destination, chosen: None, options, context };
    let again = || file::duplicate(&staging).map_err(|e| Error::destination("open", path, e));
    // One is written to, and one gets its name while the copy refers to the other.
    let written = Staging::of_parts(destination, again()?, staging_name);
    let mut named = Staging::of_parts(destination, again()?, staging_name).guarded_by(guarded);
    let mut copy = FileCopy::new(request, &written, observer);
    let result = act(&mut copy, &mut named);
    drop(copy);
    written.keep();
    named.keep();
    result
}

fn examine(source: &GuardedFile, path: &Path) -> Result<file::Stat> {
    source.examine().map_err(|errno| Error::system("examine", path, errno))
}

/// Looks up the regular file of a name.
fn find(directory: &OwnedFd, name: &OsStr) -> uncopy_os::Sys<Option<ExistingEntry>> {
    let handle = match name::open_existing(directory, name, OFlags::PATH) {
        Err(Errno::ENOENT) => return Ok(None),
        other => other?,
    };
    let stat = file::stat(&handle)?;
    let is_file = stat.file_type() == rustix::fs::FileType::RegularFile;
    Ok(is_file.then_some(ExistingEntry { handle, stat }))
}
