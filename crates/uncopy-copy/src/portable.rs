//! Copies one file on systems other than Linux: read and written piece by piece under a temporary
//! name with the standard library alone, then renamed. Options that it cannot obey are refused
//! before any file is touched.
//!
//! Tests compile it on Linux too, and run it there.

#[cfg(feature = "trees")]
mod jobs;
mod temporary;

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::context::CopyContext;
use super::native;
use super::observer::{self, Observer, Phase, Progress};
use super::options::{CopyOptions, Existing, IfChanged, Sparse};
use super::outcome::Outcome;
use super::pause::Stopwatch;
use super::systems;
use super::verdict::PathVerdict;
#[cfg(feature = "trees")]
pub(super) use jobs::{is_built, run_job};
use temporary::Temporary;
use uncopy_core::CopyOption;
use uncopy_core::other_system;
use uncopy_core::{Cost, Mechanism, Note, Receipt, System};
use uncopy_core::{Error, Objection, Reason, Result};
use uncopy_os::capabilities::AnswerReason;

/// Linux, where tests run this, has all options by other code.
const SYSTEM: System = match System::HERE {
    System::Linux => System::Other,
    here => here,
};

/// Nothing is tried here; see [`super::verdict`].
pub(super) fn verdict(_: &Path, _: &Path) -> Result<PathVerdict, AnswerReason> {
    Err(AnswerReason::NotAskedHere)
}

/// Copies one file; see [`super::copy_file`].
pub(super) fn copy(
    source: &Path,
    destination: &Path,
    options: &CopyOptions,
    context: &CopyContext<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let begin = Stopwatch::start(context.gate);
    let not_here = systems::refused(options, SYSTEM);
    if !not_here.is_empty() {
        return Err(Error::new("write to", destination, Reason::NotHere { options: not_here }));
    }
    let source = Source::open(source, options)?;
    let destination = Destination::resolve(destination, &source, options)?;
    if destination.found.is_some() && options.existing == Existing::Keep {
        return Ok(Outcome::exists());
    }
    let temporary = Temporary::create(&destination.path, |new| match &destination.found {
        // It may be for fewer eyes than the source.
        Some(_) => super::for_owner_alone(new),
        None => native::create_like(new, &source.begun),
    })?;
    let bytes = move_bytes(&source, temporary.file()?, &destination, options, context, observer)?;
    let mut receipt = Receipt::default();
    receipt.bytes = bytes;
    receipt.add(Mechanism::ReadWrite, bytes, Cost::UserCopied);
    if let Some(what) = source.change(bytes)? {
        match options.if_changed {
            IfChanged::Accept => receipt.source_changed = true,
            IfChanged::Fail | IfChanged::Retry => {
                return Err(Error::new("copy", source.path, Reason::SourceChanged { what }));
            }
        }
    }
    receipt.notes.push(Note::PlainWays);
    if options.sparse == Sparse::Auto && native::may_have_holes(&source.begun) {
        receipt.notes.push(Note::HolesFilled);
    }
    if let Some(old) = &destination.found {
        receipt.notes.extend(native::give_as_old(temporary.file()?, old));
        receipt.notes.extend(Note::other_links(native::links(old)));
    }
    let is_kept = options.existing == Existing::Keep;
    if !temporary.put_in_place(&destination.path, is_kept)? {
        // Another process created it in between.
        return Ok(Outcome::exists());
    }
    receipt.duration = begin.elapsed();
    Ok(Outcome::Copied(receipt))
}

/// An open regular file, and what it was like before its first byte was read.
struct Source<'a> {
    path: &'a Path,
    file: File,
    begun: Metadata,
}

impl<'a> Source<'a> {
    fn open(path: &'a Path, options: &CopyOptions) -> Result<Source<'a>> {
        let fail = |error| other_system::refused("open", path, error);
        // Opening a FIFO would wait for its writer.
        check_source(path, &fs::metadata(path).map_err(fail)?, options)?;
        let file = File::open(path).map_err(fail)?;
        let begun =
            file.metadata().map_err(|error| other_system::refused("examine", path, error))?;
        check_source(path, &begun, options)?;
        Ok(Source { path, file, begun })
    }

    /// Describes how the source differs from when the copy began, if it does.
    fn change(&self, copied_bytes: u64) -> Result<Option<String>> {
        let now = self.file.metadata();
        let now = now.map_err(|error| other_system::refused("examine", self.path, error))?;
        let (before, size) = (&self.begun, self.begun.len());
        let mut what = Vec::new();
        if now.len() != size {
            what.push(format!("size {size} to {} bytes", now.len()));
        } else if copied_bytes != size {
            what.push(format!("size {size} to {copied_bytes} bytes"));
        }
        // A system without such a time gives none both times.
        if now.modified().ok() != before.modified().ok() {
            what.push("mtime".into());
        }
        // A name that is gone changes the ctime, and no contents.
        if native::links(&now) == native::links(before)
            && native::change_time(&now) != native::change_time(before)
        {
            what.push("ctime".into());
        }
        Ok((!what.is_empty()).then(|| what.join(", ")))
    }
}

fn check_source(path: &Path, metadata: &Metadata, options: &CopyOptions) -> Result<()> {
    let reason = match native::kind(metadata) {
        None => return Ok(()),
        Some(_) if options.read_streams && !metadata.is_dir() => {
            Reason::NotHere { options: vec![CopyOption::ReadStreams] }
        }
        Some(kind) => Reason::NotRegular { kind },
    };
    Err(Error::new("copy", path, reason))
}

/// Where the copy goes.
struct Destination<'a> {
    given: &'a Path,
    /// Where a symbolic link at the end of that path leads to, or the path itself.
    path: PathBuf,
    /// The file that is there now.
    found: Option<Metadata>,
}

impl<'a> Destination<'a> {
    /// Looks at the destination; changes nothing.
    fn resolve(
        given: &'a Path,
        source: &Source<'_>,
        options: &CopyOptions,
    ) -> Result<Destination<'a>> {
        let refuse = |reason| Err(Error::new("write to", given, reason));
        let fail = |error| other_system::refused_by_destination("examine", given, error);
        let text = given.to_string_lossy();
        if given.file_name().is_none() || text.ends_with(std::path::is_separator) {
            return refuse(Reason::NotRegular { kind: "a directory" });
        }
        let new = |path| Ok(Destination { given, path, found: None });
        let (path, found) = match fs::symlink_metadata(given) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return new(given.to_owned());
            }
            Err(error) => return Err(fail(error)),
            Ok(link) if link.is_symlink() && options.existing == Existing::Keep => {
                return Ok(Destination { given, path: given.to_owned(), found: Some(link) });
            }
            Ok(link) if link.is_symlink() => match fs::canonicalize(given) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return refuse(Reason::Refused(Objection::LinkToNothing));
                }
                Err(error) => return Err(fail(error)),
                Ok(path) => {
                    let found = fs::metadata(&path).map_err(fail)?;
                    (path, found)
                }
            },
            Ok(found) => (given.to_owned(), found),
        };
        if let Some(kind) = native::kind(&found) {
            return refuse(Reason::NotRegular { kind });
        }
        if native::is_same_file((source.path, &source.begun), (&path, &found)) {
            return refuse(Reason::SameFile { source_path: source.path.to_owned() });
        }
        if options.existing == Existing::Replace
            && let Err(error) = File::options().write(true).open(&path)
        {
            return match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    refuse(Reason::Refused(Objection::WritingForbiddenHere))
                }
                _ => Err(other_system::refused_by_destination("open for writing", given, error)),
            };
        }
        Ok(Destination { given, path, found: Some(found) })
    }
}

/// Moves all bytes, and reports progress before each piece and after the last one.
fn move_bytes(
    source: &Source<'_>,
    mut output: &File,
    destination: &Destination<'_>,
    options: &CopyOptions,
    context: &CopyContext<'_>,
    observer: &mut dyn Observer,
) -> Result<u64> {
    let most = options.tuning.buffer_bytes();
    let mut buffer = vec![0; usize::try_from(most).unwrap_or(usize::MAX)];
    let (mut input, mut done_bytes) = (&source.file, 0);
    loop {
        let total_bytes = source.begun.len();
        let progress = Progress { phase: Phase::Copying, done_bytes, total_bytes };
        observer::report(observer, progress, source.path)?;
        let admitted = observer::wait_for_rate(observer, context.throttle, progress, most)
            .ok_or_else(|| Error::new("copy", source.path, Reason::Cancelled))?;
        let piece = &mut buffer[..usize::try_from(admitted).unwrap_or(usize::MAX)];
        let read = input.read(piece);
        if let Some(throttle) = context.throttle {
            throttle.give_back(admitted - read.as_ref().map_or(0, |bytes| *bytes as u64));
        }
        match read {
            Ok(0) => return Ok(done_bytes),
            Ok(bytes) => {
                output.write_all(&piece[..bytes]).map_err(|error| {
                    other_system::refused_by_destination("write to", destination.given, error)
                })?;
                done_bytes += bytes as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(other_system::refused("read", source.path, error)),
        }
    }
}

#[cfg(test)]
mod tests;
