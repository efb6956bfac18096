//! Copies one file: opens it, decides how it is copied, writes the copy aside and puts it in place.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::backup_claims::Claimant;
use super::compress::{self, Kinds, Wanted};
use super::context::CopyContext;
use super::destination::Destination;
use super::file_copy::{CopyRequest, FileCopy};
use super::file_plan::FilePlan;
use super::metadata;
use super::observer::{AskedOnce, Consent, Observer};
use super::options::{CopyOptions, Existing, Transform};
use super::outcome::Outcome;
use super::retries::{Flushes, retry_while_source_changes};
use super::skip::Skip;
use super::source::Source;
use super::staging::{Commit, Placing, Staging};
use super::stale::{Noting, SweepAnew, SweepSeldom, Sweeper};
use super::stream;
use uncopy_core::{Contradiction, Error, Note, Reason, Receipt, Result};
use uncopy_os::{directory, follow};

/// Copies one file; see [`super::copy_file`].
pub(super) fn copy(
    source: &Path,
    destination: &Path,
    options: &CopyOptions,
    context: &CopyContext<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let sweeper: &dyn Sweeper = if context.sweeps_seldom { &SweepSeldom } else { &SweepAnew };
    copy_of_job(source, destination, options, context, sweeper, observer)
}

/// Copies one of several files, which share what was found in their directories.
pub(super) fn copy_of_job(
    source: &Path,
    destination: &Path,
    options: &CopyOptions,
    context: &CopyContext<'_>,
    sweeper: &dyn Sweeper,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let observer = &mut AskedOnce::new(observer);
    retry_while_source_changes(options, context.gate, |flushes| {
        let surroundings = Surroundings { context, sweeper, flushes };
        copy_once(source, destination, options, surroundings, observer)
    })
}

/// Parts that all attempts to copy a file share.
#[derive(Clone, Copy)]
struct Surroundings<'a> {
    context: &'a CopyContext<'a>,
    sweeper: &'a dyn Sweeper,
    flushes: &'a Cell<Flushes>,
}

fn copy_once(
    source: &Path,
    destination: &Path,
    options: &CopyOptions,
    surroundings: Surroundings<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let Surroundings { context, sweeper, flushes } = surroundings;
    if options.existing == Existing::Keep && options.read_streams && is_kept(source, destination) {
        return Ok(Outcome::exists());
    }
    let source = Source::open(source, options)?.watched(options, flushes);
    if source.is_stream && options.transform != Transform::None {
        let reason = Reason::Options(Contradiction::TransformNeedsFile);
        return Err(Error::new("copy", source.path, reason));
    }
    let name = destination.file_name().unwrap_or_default();
    let wanted = Wanted { name, suffix: options.suffix, named: true };
    let chosen = compress::choose(&source, wanted, options.transform, &Kinds::default())?;
    let new_name = chosen.as_ref().and_then(|chosen| chosen.name.as_ref());
    let renamed = new_name.map(|name| destination.with_file_name(name));
    let destination = renamed.as_deref().unwrap_or(destination);
    let destination = Destination::resolve(destination, &source, options)?;
    if options.ask && destination.is_taken {
        match observer.may_replace(destination.given.as_ref()) {
            Consent::Given => {}
            Consent::Refused => {
                let skipped = Outcome::Skipped { reason: Skip::Declined, renamed: None };
                return Ok(skipped.with_name(renamed));
            }
            Consent::Stop => return Err(Error::new("copy", source.path, Reason::Cancelled)),
        }
    }
    let options = &*options.after_asking(destination.is_taken);
    let request = CopyRequest {
        source: &source,
        destination: &destination,
        chosen: chosen.as_ref(),
        options,
        context,
    };
    if FilePlan::decide(&request.file_facts()) == FilePlan::Left {
        return Ok(Outcome::exists().with_name(renamed));
    }
    claim_names(&request)?;
    if source.is_stream && !destination.is_stream() {
        // Before anything is made that could be left behind.
        stream::wait_for_source(&source, observer)?;
    }
    let register = destination.register();
    // A name that exists only between two calls is not worth a record, which takes longer than they do.
    let noting = Noting { register: &register, path: &PathBuf::new, brief: false };
    let sweeper = Some(sweeper);
    let placing = Placing::Aside { sweeper, is_unseen: false, directory_defaults: None, noting };
    let mut outcome = request.carry_out(placing, observer)?;
    if let Outcome::Copied(receipt) = &mut outcome
        && let Some(chosen) = request.chosen.filter(|_| !request.transforms() && !options.suffix)
    {
        // No suffix shows it.
        let reason = chosen.compression.reason;
        receipt.notes.push(Note::CopiedAsItIs { reason });
    }
    Ok(outcome.with_name(renamed))
}

/// Whether the source is a FIFO and the destination exists: opening the FIFO would release its writer,
/// and what that writes would be lost.
fn is_kept(source: &Path, destination: &Path) -> bool {
    let is_fifo = follow::stat(source).is_ok_and(|stat| stat.file_type() == FileType::Fifo);
    is_fifo && directory::stat_path(destination).is_ok()
}

/// Claims the names of the copy and of its backup in a job of several files.
fn claim_names(request: &CopyRequest<'_>) -> Result<()> {
    let CopyRequest { source, destination, context, .. } = request;
    let Some(claims) = context.backup_claims else { return Ok(()) };
    let claimant = Claimant {
        source: source.path.as_ref(),
        directory: destination.directory(),
        target: destination.name(),
        replaces: destination.is_taken,
    };
    let refused = claims
        .claim(&claimant)
        .map_err(|errno| Error::destination("examine", destination.given, errno))?;
    match refused {
        None => Ok(()),
        Some(why) => Err(Error::new("replace", destination.given, Reason::Refused(why))),
    }
}

impl<'a> CopyRequest<'a> {
    /// Writes the copy where `placing` says and puts it in place. Afterwards the name is the new file, or
    /// as it was, except under [`CopyOptions::in_place`].
    pub(crate) fn carry_out(
        &self,
        placing: Placing<'a>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let staging = match self.destination.is_stream() {
            // It has its name, and may wait for its reader.
            true => Some(self.stage(placing, observer)),
            false => self.context.give_names(|| self.stage(placing, observer)),
        };
        let mut staging = staging.unwrap_or_else(|| Err(self.withdrawn()))?;
        let mut copy = FileCopy::new(*self, &staging, observer);
        let in_place = copy.facts.in_place;
        let moved = if self.options.attributes_only { Ok(None) } else { copy.move_bytes() };
        let written = moved.and_then(|digest| copy.complete(digest));
        let receipt = copy.receipt;
        let placed = written.and_then(|directory| {
            let committed = self.context.give_names(|| staging.commit());
            let committed = committed.unwrap_or_else(|| Err(self.withdrawn()))?;
            finish(&mut staging, committed, receipt, directory)
        });
        let is_lost = || self.source.check_connected().is_err();
        if placed.as_ref().is_err_and(|error| error.is_cancelled() || is_lost()) {
            match self.context.frees_aside && !staging.is_kept() {
                true => staging.free_aside(),
                false => staging.leave(),
            }
        }
        let in_place = in_place && self.options.in_place;
        placed.map_err(|error| if in_place { error.while_in_place() } else { error })
    }

    /// Makes the error of a copy that may give no names any more.
    fn withdrawn(&self) -> Error {
        Error::new("copy", self.source.path, Reason::Cancelled)
    }

    /// Opens the file that the bytes are written to first.
    pub(crate) fn stage(
        &self,
        placing: Placing<'a>,
        observer: &mut dyn Observer,
    ) -> Result<Staging<'a>> {
        let staging = self.stage_unguarded(placing, observer)?;
        Ok(staging.guarded_by(self.context.guarded).durable(self.options.durable))
    }

    fn stage_unguarded(
        &self,
        placing: Placing<'a>,
        observer: &mut dyn Observer,
    ) -> Result<Staging<'a>> {
        let (destination, options) = (self.destination, self.options);
        let found = destination.found.as_ref();
        let mode = match (&placing, found) {
            // In a directory whose defaults are known the mode is given at once where nobody can open the
            // file before it has its name.
            (
                Placing::Aside { directory_defaults: Some(_), .. } | Placing::Private { .. },
                None,
            ) => self.source.stat.permissions() & 0o777,
            _ => metadata::creation_mode(&self.source.stat, found, self.given()),
        };
        match placing {
            Placing::Aside { .. }
                if destination.is_stream()
                    || (options.writes_into_existing() && found.is_some()) =>
            {
                Staging::in_place(destination, observer)
            }
            Placing::Aside { sweeper, is_unseen, directory_defaults, noting } => {
                let staging = Staging::aside(destination, mode, options.existing, noting)?
                    .with_backup(options.backup.as_ref());
                let defaults = directory_defaults.filter(|_| found.is_none());
                Ok(staging.among(defaults, mode).swept_by(sweeper).unseen(is_unseen))
            }
            Placing::Private { directory_defaults } => {
                Ok(Staging::private(destination, mode)?.among(Some(directory_defaults), mode))
            }
            Placing::Kept { parts, begun, is_unseen, sweeper, named_late } => {
                let staging =
                    Staging::kept(destination, parts, begun, options.existing, named_late)?
                        .with_backup(options.backup.as_ref());
                Ok(staging.swept_by(sweeper).unseen(is_unseen))
            }
        }
    }
}

/// Completes a file that has its name. `directory` is to be flushed; a guarded job flushes it once, after its entries.
fn finish(
    staging: &mut Staging<'_>,
    committed: Commit,
    mut receipt: Receipt,
    directory: Option<OwnedFd>,
) -> Result<Outcome> {
    if committed == Commit::Skipped {
        return Ok(Outcome::exists());
    }
    receipt.leftovers = staging.leftovers();
    receipt.notes.extend(staging.give_last(directory.is_some())?);
    if let Some(directory) = directory {
        if !staging.is_guarded() {
            staging.sync_directory(&directory)?;
        }
        receipt.durable = true;
    }
    Ok(Outcome::Copied(receipt))
}
