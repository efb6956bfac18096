//! Finds out how files go from one directory to another, by trying each mechanism.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use super::display_path::DisplayPath;
use super::facts;
use super::forecast;
use super::options::CopyOptions;
use super::plan::CopyFacts;
use super::source::Source;
use super::source_file::SourceFile;
use super::verdict::PathVerdict;
use uncopy_core::{Cost, Errno, Mechanism};
use uncopy_os::capabilities::{AnswerReason, Filesystem, TrialFiles};
use uncopy_os::{Sys, file};

/// Size of the file that a verdict is about: too large for one read and one write, too small for a
/// trial by the clock, in the page cache.
const FILE_BYTES: u64 = 8 << 20;

/// See [`super::verdict`].
pub(super) fn verdict(from: &Path, to: &Path) -> Result<PathVerdict, AnswerReason> {
    let inconclusive = AnswerReason::Inconclusive;
    let source_files = TrialFiles::open(from)?;
    let files = TrialFiles::open(to)?;
    // A file in the directory, which itself may be a mount point.
    let path = source_files.directory().join("file");
    let source = source_in(&source_files, &path).map_err(inconclusive)?;
    let written = files.create().map_err(inconclusive)?;
    let usual = CopyOptions::new();
    let facts = facts_of(&source, written.as_fd(), &usual).map_err(inconclusive)?;
    let mechanisms = forecast::try_all(&source, &files, &facts);
    let choose = |facts: &CopyFacts| forecast::choose(facts, &mechanisms);
    let by_default = choose(&facts);
    let when_durable = choose(&CopyFacts { durable: true, ..facts });
    let is_free = |chosen: &(Mechanism, Cost)| matches!(chosen.1, Cost::Shared | Cost::Moved);
    let (chosen, only_durable) = match (by_default, when_durable) {
        (Some(chosen), _) if is_free(&chosen) => (chosen, false),
        (_, Some(chosen)) if is_free(&chosen) => (chosen, true),
        (Some(chosen), _) => (chosen, false),
        (None, _) => return Err(AnswerReason::Inconclusive(Errno::EOPNOTSUPP)),
    };
    let (mechanism, cost) = chosen;
    Ok(PathVerdict { mechanism, cost, when_durable: only_durable })
}

/// Makes a temporary file with data the source, with `path` for messages.
fn source_in<'a>(files: &TrialFiles, path: &'a Path) -> Sys<Source<'a>> {
    let fd = files.create_with_data()?;
    let stat = file::stat(&fd)?;
    let filesystem = Filesystem::from_magic(file::filesystem_magic(fd.as_fd())?);
    Ok(Source::opened(DisplayPath::Path(path), SourceFile::Here(fd), stat, filesystem))
}

fn facts_of(source: &Source<'_>, written: BorrowedFd<'_>, options: &CopyOptions) -> Sys<CopyFacts> {
    let destination = Filesystem::from_magic(file::filesystem_magic(written)?);
    let direct = facts::direct_path(&file::stat(written)?, destination);
    let facts = facts::of_dense(Some(FILE_BYTES), source.filesystem, destination, options);
    Ok(CopyFacts { direct, ..facts })
}
