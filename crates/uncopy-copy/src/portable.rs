//! Copies one file on systems other than Linux: by the system's own mechanisms, or read and written piece by piece,
//! under a temporary name that is then renamed. Options that it cannot obey are refused before any file is touched.
//!
//! Tests compile it on Linux too, run it there, and play the calls of other systems.

mod attempt;
mod decide;
#[cfg(test)]
mod fake;
#[cfg(feature = "trees")]
mod jobs;
#[cfg(test)]
mod played;
mod temporary;
#[cfg(feature = "trees")]
mod tree;

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::context::CopyContext;
use super::native;
use super::observer::{self, Observer, Phase, Progress};
use super::options::{CopyOptions, Existing, IfChanged};
use super::outcome::Outcome;
use super::pause::Stopwatch;
use super::systems;
use super::verdict::PathVerdict;
use attempt::Attempts;
#[cfg(feature = "trees")]
pub(super) use jobs::{is_built, run_job};
use temporary::Temporary;
use uncopy_core::{CopyOption, Error, Note, Objection, Reason, Receipt, Result, System};
use uncopy_core::{other_system, windows_path};
use uncopy_os::capabilities::AnswerReason;
use uncopy_os::native::CopyCalls;
use uncopy_os::native_calls::SystemCalls;

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
    copy_by(&SystemCalls, source, destination, options, context, observer)
}

/// Copies one file by the calls of a system.
fn copy_by(
    calls: &dyn CopyCalls,
    source: &Path,
    destination: &Path,
    options: &CopyOptions,
    context: &CopyContext<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    copy_as(calls, source, destination, options, context, LinkAtEnd::Followed, observer)
}

/// Treatment of a symbolic link at the end of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkAtEnd {
    /// The copy goes where it leads.
    Followed,
    /// The copy takes its place, as that of anything else that is no directory.
    Replaced,
}

/// Copies one file, as a single one or as an entry of a tree.
fn copy_as(
    calls: &dyn CopyCalls,
    source: &Path,
    destination: &Path,
    options: &CopyOptions,
    context: &CopyContext<'_>,
    at_end: LinkAtEnd,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let begin = Stopwatch::start(context.gate);
    let not_here = systems::refused(options, calls.system());
    if !not_here.is_empty() {
        return Err(Error::new("write to", destination, Reason::NotHere { options: not_here }));
    }
    let source = Source::open(calls, source, options)?;
    let destination = Destination::resolve(calls, destination, &source, options, at_end)?;
    if destination.found.is_some() && options.existing == Existing::Keep {
        return Ok(Outcome::exists());
    }
    let mut temporary =
        Temporary::create(calls, &destination.path, |new| match &destination.found {
            // It may be for fewer eyes than the source.
            Some(_) => super::for_owner_alone(new),
            None => native::create_like(new, &source.begun),
        })?;
    let mut receipt = Receipt::default();
    let bytes = Attempts {
        calls,
        source: &source,
        destination: &destination,
        options,
        context,
        observer: &mut *observer,
    }
    .run(&mut temporary, &mut receipt)?;
    receipt.bytes = bytes;
    if let Some(what) = source.change(bytes)? {
        match options.if_changed {
            IfChanged::Accept => receipt.source_changed = true,
            IfChanged::Fail | IfChanged::Retry => {
                return Err(Error::new("copy", source.path, Reason::SourceChanged { what }));
            }
        }
    }
    if decide::mechanisms(calls.system()).len() == 1 {
        receipt.notes.push(Note::PlainWays);
    }
    if let Some(old) = &destination.found {
        receipt.notes.extend(native::give_as_old(temporary.file()?, old));
        receipt.notes.extend(Note::other_links(native::links(old)));
    }
    if options.durable {
        let flushing = Progress { phase: Phase::Flushing, done_bytes: 0, total_bytes: bytes };
        observer::report(observer, flushing, source.path)?;
        let flushed = calls.flush(temporary.file()?);
        flushed.map_err(|error| {
            other_system::refused_by_destination("flush", destination.given, error)
        })?;
    }
    let replaces = options.existing != Existing::Keep;
    if !temporary.put_in_place(replaces, options.durable)? {
        // Another process created it in between.
        return Ok(Outcome::exists());
    }
    receipt.durable = options.durable;
    receipt.duration = begin.elapsed();
    Ok(Outcome::Copied(receipt))
}

/// An open regular file, and what it was like before its first byte was read.
struct Source<'a> {
    path: &'a Path,
    file: File,
    begun: Metadata,
    may_have_holes: bool,
}

impl<'a> Source<'a> {
    fn open(calls: &dyn CopyCalls, path: &'a Path, options: &CopyOptions) -> Result<Source<'a>> {
        check_name(calls.system(), "copy", path)?;
        let fail = |error| other_system::refused("open", path, error);
        // Opening a FIFO would wait for its writer.
        check_source(path, &fs::metadata(path).map_err(fail)?, options)?;
        let file = calls.open_source(path).map_err(fail)?;
        let begun =
            file.metadata().map_err(|error| other_system::refused("examine", path, error))?;
        check_source(path, &begun, options)?;
        let may_have_holes = calls.may_have_holes(&begun);
        let may_have_holes = may_have_holes.unwrap_or_else(|| native::may_have_holes(&begun));
        Ok(Source { path, file, begun, may_have_holes })
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

/// Refuses names that Windows gives another meaning.
fn check_name(system: System, operation: &'static str, path: &Path) -> Result<()> {
    if system != System::Windows {
        return Ok(());
    }
    let units: Vec<u16> = path.to_string_lossy().encode_utf16().collect();
    windows_path::special(&units).map_or(Ok(()), |special| {
        Err(Error::new(operation, path, Reason::NotRegular { kind: special.kind() }))
    })
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
        calls: &dyn CopyCalls,
        given: &'a Path,
        source: &Source<'_>,
        options: &CopyOptions,
        at_end: LinkAtEnd,
    ) -> Result<Destination<'a>> {
        let refuse = |reason| Err(Error::new("write to", given, reason));
        let fail = |error| other_system::refused_by_destination("examine", given, error);
        let text = given.to_string_lossy();
        if given.file_name().is_none() || text.ends_with(std::path::is_separator) {
            return refuse(Reason::NotRegular { kind: "a directory" });
        }
        check_name(calls.system(), "write to", given)?;
        let new = |path| Ok(Destination { given, path, found: None });
        let (path, found) = match fs::symlink_metadata(given) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return new(given.to_owned());
            }
            Err(error) => return Err(fail(error)),
            Ok(link) if link.is_symlink() && options.existing == Existing::Keep => {
                return Ok(Destination { given, path: given.to_owned(), found: Some(link) });
            }
            Ok(other) if at_end == LinkAtEnd::Replaced && !other.is_file() && !other.is_dir() => {
                return new(given.to_owned());
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
        let is_same = calls
            .is_same_file(source.path, &path)
            .unwrap_or_else(|| native::is_same_file((source.path, &source.begun), (&path, &found)));
        if is_same {
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

#[cfg(test)]
mod tests;
