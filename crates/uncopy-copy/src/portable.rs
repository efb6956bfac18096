//! Copies one file on systems other than Linux: by the system's own mechanisms, or read and written piece by piece,
//! under a temporary name that is then renamed. Options that it cannot obey are refused before any file is touched.
//!
//! Tests compile it on Linux too, run it there, and play the calls of other systems.

mod attempt;
mod attributes;
mod backup;
#[cfg(feature = "trees")]
mod backup_claims;
mod chunk_stream;
mod complete;
mod decide;
mod destination;
#[cfg(test)]
mod fake;
#[cfg(feature = "trees")]
mod identity;
#[cfg(feature = "trees")]
mod jobs;
mod metadata;
mod names;
mod partial;
#[cfg(feature = "trees")]
mod passing;
#[cfg(test)]
mod played;
mod temporary;
#[cfg(feature = "trees")]
mod tree;

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::context::CopyContext;
use super::digest::StreamedDigest;
use super::native;
use super::observer::{AskedOnce, Consent, Observer};
use super::options::{CopyOptions, Existing};
use super::outcome::Outcome;
use super::retries::retry_while_source_changes;
use super::skip::Skip;
use super::systems;
use super::verdict::PathVerdict;
use attempt::Attempts;
use destination::Destination;
#[cfg(feature = "trees")]
pub(super) use jobs::{is_built, run_job};
use partial::{InChunks, LeftPart, Partial};
use temporary::{Ending, Temporary};
use uncopy_core::{CopyOption, Error, Note, Reason, Receipt, Result, System};
use uncopy_core::{FileKind, other_system, windows_path};
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
    let at_end = LinkAtEnd::Followed;
    copy_as(calls, source, destination, options, context, at_end, None, observer)
}

/// Treatment of a symbolic link at the end of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkAtEnd {
    /// The copy goes where it leads.
    Followed,
    /// The copy takes its place, as that of anything else that is no directory.
    Replaced,
}

/// Copies one file, as a single one or as an entry of a tree, in chunks if there is a store for them.
#[allow(clippy::too_many_arguments, reason = "what a copy needs, each of its own kind")]
fn copy_as(
    calls: &dyn CopyCalls,
    source: &Path,
    destination: &Path,
    options: &CopyOptions,
    context: &CopyContext<'_>,
    at_end: LinkAtEnd,
    mut in_chunks: Option<InChunks<'_>>,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let not_here = systems::refused(options, calls.system());
    if !not_here.is_empty() {
        return Err(Error::new("write to", destination, Reason::NotHere { options: not_here }));
    }
    let observer = &mut AskedOnce::new(observer);
    retry_while_source_changes(options, context.gate, |_| {
        let in_chunks = in_chunks
            .as_mut()
            .map(|InChunks { keep, sizes }| InChunks { keep: &mut **keep, sizes: *sizes });
        copy_once(calls, source, destination, options, context, at_end, in_chunks, observer)
    })
}

#[allow(clippy::too_many_arguments, reason = "what a copy needs, each of its own kind")]
fn copy_once(
    calls: &dyn CopyCalls,
    source: &Path,
    destination: &Path,
    options: &CopyOptions,
    context: &CopyContext<'_>,
    at_end: LinkAtEnd,
    in_chunks: Option<InChunks<'_>>,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let source = Source::open(calls, source, options)?;
    let destination = Destination::resolve(calls, destination, &source, options, at_end)?;
    if options.ask && destination.is_taken {
        match observer.may_replace(destination.given) {
            Consent::Given => {}
            Consent::Refused => {
                return Ok(Outcome::Skipped { reason: Skip::Declined, renamed: None });
            }
            Consent::Stop => return Err(Error::new("copy", source.path, Reason::Cancelled)),
        }
    }
    let options = &*options.after_asking(destination.is_taken);
    if destination.is_taken && options.existing == Existing::Keep {
        return Ok(Outcome::exists());
    }
    let path = &destination.path;
    let (left, partial) = begin_chunks(calls, &source, options, in_chunks);
    let temporary = match (&destination.found, left) {
        (Some(found), _) if options.writes_into_existing() => {
            Temporary::existing(calls, path, destination.given, found)?
        }
        (_, Some((path_of_part, file))) => Temporary::left(calls, path, path_of_part, file),
        // It may be for fewer eyes than the source.
        (found, None) => Temporary::create(calls, path, |new| match found {
            None if !options.given().has_mode() => {
                native::create_like(new, &source.begun, context.new_mode)
            }
            _ => super::for_owner_alone(new),
        })?,
    };
    let in_place = options.in_place && temporary.is_in_place();
    let digest = options.digest.map(StreamedDigest::new).transpose();
    let digest = digest.map_err(|errno| Error::system("hash", source.path, errno))?;
    let (source, destination) = (&source, &destination);
    let attempts =
        Attempts { calls, source, destination, options, context, observer, digest, partial };
    attempts.carry_out(temporary).map_err(|error| match in_place {
        true => error.while_in_place(),
        false => error,
    })
}

impl Attempts<'_, '_, '_> {
    /// Writes the copy and puts it in place.
    fn carry_out(mut self, mut temporary: Temporary<'_>) -> Result<Outcome> {
        let options = self.options;
        let mut receipt = Receipt::default();
        let moved = self.move_contents(&mut temporary, &mut receipt);
        if let Some(partial) = &mut self.partial {
            let is_spoiled =
                |error: &Error| error.is_source_changed() || error.is_verification_failed();
            if moved.as_ref().is_err_and(|error| !is_spoiled(error)) {
                // The error that is known already is the one to report.
                let _ = partial.flush(self.calls, &temporary, true);
            }
            let is_good = !moved.as_ref().is_err_and(is_spoiled);
            temporary.stays_after_errors(is_good && partial.is_noted());
        }
        moved?;
        if decide::mechanisms(self.calls.system()).len() == 1 {
            receipt.notes.push(Note::PlainWays);
        }
        let last = self.give_metadata(&temporary, &mut receipt)?;
        if options.durable {
            self.flush(&temporary, receipt.bytes)?;
        }
        let ending = Ending {
            replaces: options.existing != Existing::Keep,
            backup: options.backup.as_ref(),
            last,
            is_durable: options.durable,
        };
        let Some(notes) = temporary.put_in_place(ending)? else {
            // Another process created it in between.
            return Ok(Outcome::exists());
        };
        receipt.notes.extend(notes);
        receipt.durable = options.durable;
        Ok(Outcome::Copied(receipt))
    }

    /// Moves the bytes, and looks at them.
    fn move_contents(
        &mut self,
        temporary: &mut Temporary<'_>,
        receipt: &mut Receipt,
    ) -> Result<()> {
        if !self.options.attributes_only {
            self.verify_left(temporary, receipt)?;
            receipt.bytes = self.run(temporary, receipt)?;
        }
        self.check_contents(temporary, receipt)
    }
}

/// An open file that an earlier run left, and its path.
type Left = (PathBuf, File);

/// Decides whether a file is copied in chunks, and finds what an earlier run left of it.
fn begin_chunks<'a>(
    calls: &dyn CopyCalls,
    source: &Source<'_>,
    options: &CopyOptions,
    in_chunks: Option<InChunks<'a>>,
) -> (Option<Left>, Option<Partial<'a>>) {
    let size = source.begun.len();
    let Some(in_chunks) = in_chunks else { return (None, None) };
    let is_wanted = size >= in_chunks.sizes.min_file_bytes
        && decide::copies_in_chunks(options)
        // Streams are copied by a call that copies the file as a whole.
        && !calls.has_streams(source.path).unwrap_or(false);
    let begun = match is_wanted {
        true => in_chunks.keep.begin((source.path, &source.begun)),
        false => Err(io::ErrorKind::Unsupported.into()),
    };
    match begun {
        Err(_) => {
            in_chunks.keep.discard();
            (None, None)
        }
        Ok(None) => (None, Some(Partial::new(in_chunks, size, Vec::new()))),
        Ok(Some(LeftPart { path, file, chunks })) => {
            (Some((path, file)), Some(Partial::new(in_chunks, size, chunks)))
        }
    }
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

    /// Whether another name is one of this file.
    fn is_file(&self, calls: &dyn CopyCalls, path: &Path, found: &Metadata) -> bool {
        calls
            .is_same_file(self.path, path)
            .unwrap_or_else(|| native::is_same_file((self.path, &self.begun), (path, found)))
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
    windows_path::special(&units)
        .map_or(Ok(()), |kind| Err(Error::new(operation, path, Reason::NotRegular { kind })))
}

fn check_source(path: &Path, metadata: &Metadata, options: &CopyOptions) -> Result<()> {
    let reason = match native::kind(metadata) {
        FileKind::Regular => return Ok(()),
        kind if options.read_streams && kind != FileKind::Directory => {
            Reason::NotHere { options: vec![CopyOption::ReadStreams] }
        }
        kind => Reason::NotRegular { kind },
    };
    Err(Error::new("copy", path, reason))
}

#[cfg(test)]
mod tests;
