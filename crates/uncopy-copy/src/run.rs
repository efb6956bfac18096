//! One copy from beginning to end: look, write aside, check, put in place.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FileType;

use super::compress::{self, Chosen, Conversion, Wanted};
use super::control::Control;
use super::destination::Destination;
use super::digest::Hasher;
use super::facts;
use super::history::FileClass;
use super::metadata;
use super::observer::{self, Observer, Phase, Progress};
use super::options::{Cache, CopyOptions, Existing, IfChanged, RETRIES, Transform};
use super::outcome::Outcome;
use super::pause::Stopwatch;
use super::plan::{self, CopyFacts, PlanStep};
use super::source::Source;
use super::staging::{Commit, Placing, Staging};
use super::stale::Noting;
use super::verify::{self, Original};
use super::watch::{self, Flushes};
use super::{stream, transfer};
use uncopy_core::{Contradiction, Errno, Error, Reason, Result, SourceDoubt};
use uncopy_core::{Cost, MappedWrites, Mechanism, Note, Receipt, Unseen};
use uncopy_os::{directory, file, follow};

/// Copies one file; see [`super::copy_file`].
pub(super) fn copy(
    source: &Path,
    destination: &Path,
    options: &CopyOptions,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    repeated(options, |flushes| copy_once(source, destination, options, flushes, observer))
}

/// Copies as often as the options say while the source changes.
pub(super) fn repeated(
    options: &CopyOptions,
    mut copy_once: impl FnMut(&Cell<Flushes>) -> Result<Outcome>,
) -> Result<Outcome> {
    let begin = Stopwatch::start(options.gate.as_ref());
    let (mut retries, flushes) = (0, Cell::default());
    loop {
        match copy_once(&flushes) {
            Err(error)
                if error.is_source_changed()
                    && options.if_changed == IfChanged::Retry
                    && retries < RETRIES
                    && !flushes.get().gave_up
                    && !options.in_place =>
            {
                retries += 1;
            }
            Ok(Outcome::Copied(mut receipt)) => {
                receipt.retries = retries;
                let Flushes { count, took, .. } = flushes.get();
                (receipt.source_flushes, receipt.source_flush_duration) = (count, took);
                receipt.duration = begin.elapsed();
                return Ok(Outcome::Copied(receipt));
            }
            ended => return ended,
        }
    }
}

fn copy_once(
    source: &Path,
    destination: &Path,
    options: &CopyOptions,
    flushes: &Cell<Flushes>,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
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
    let chosen = compress::choose(&source, wanted, options.transform)?;
    let new_name = chosen.as_ref().and_then(|chosen| chosen.name.as_ref());
    let renamed = new_name.map(|name| destination.with_file_name(name));
    let destination = renamed.as_deref().unwrap_or(destination);
    let destination = Destination::resolve(destination, &source, options)?;
    if destination.found.is_some() && options.existing == Existing::Keep {
        return Ok(Outcome::exists().with_name(renamed));
    }
    if source.is_stream && !destination.is_stream() {
        // Before anything is made that could be left behind.
        stream::wait_for_source(&source, observer)?;
    }
    let register = destination.register();
    // A name that is there between two calls is not worth a record, which takes longer than they do.
    let noting = Noting { register: &register, path: &PathBuf::new, brief: false };
    let staging = open_staging(&source, &destination, noting, options, observer)?;
    let chosen = chosen.as_ref();
    let mut outcome = write_staged(&source, &destination, staging, chosen, options, observer)?;
    if let Outcome::Copied(receipt) = &mut outcome
        && let Some(chosen) =
            chosen.filter(|chosen| chosen.conversion == Conversion::Leave && !options.suffix)
    {
        // No suffix shows it.
        let reason = chosen.compression.reason;
        receipt.notes.push(Note::CopiedAsItIs { reason });
    }
    Ok(outcome.with_name(renamed))
}

/// Source is a FIFO, and the destination is there: to open the FIFO would let its writer go on, and lose
/// what it writes.
fn is_kept(source: &Path, destination: &Path) -> bool {
    let is_fifo = follow::stat(source).is_ok_and(|stat| stat.file_type() == FileType::Fifo);
    is_fifo && directory::stat_path(destination).is_ok()
}

/// Copies an open source to a name that was looked at.
pub(super) fn copy_opened(
    source: &Source<'_>,
    destination: &Destination<'_>,
    placing: Placing<'_>,
    chosen: Option<&Chosen>,
    options: &CopyOptions,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    if destination.found.is_some() && options.existing == Existing::Keep {
        return Ok(Outcome::exists());
    }
    // Nobody can open it before it has its name; where it needs one for that, it is 0600.
    let mode = source.stat.permissions() & 0o777;
    let staging = match placing {
        Placing::Aside { is_swept, noting, .. } if destination.found.is_some() => {
            open_staging(source, destination, noting, options, observer)?.swept(is_swept)
        }
        Placing::Aside { is_swept, directory_defaults, noting } => {
            let staging = Staging::aside(destination, mode, options.existing, noting)?;
            staging.among(directory_defaults, mode).swept(is_swept)
        }
        Placing::Private { directory_defaults } => {
            Staging::private(destination, mode)?.among(directory_defaults, mode)
        }
        Placing::Kept { parts, begun, is_unseen, is_swept } => {
            let policy = (options.existing, is_unseen);
            Staging::kept(destination, parts, begun, policy)?.swept(is_swept)
        }
    };
    write_staged(source, destination, staging, chosen, options, observer)
}

fn write_staged(
    source: &Source<'_>,
    destination: &Destination<'_>,
    mut staging: Staging<'_>,
    chosen: Option<&Chosen>,
    options: &CopyOptions,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let transforms = chosen.is_some_and(|chosen| chosen.conversion != Conversion::Leave);
    let facts = facts::gather(source, destination, staging.fd(), options);
    let hashes = source.is_stream && options.verify.is_some() && !destination.is_stream();
    let facts = CopyFacts { transforms, hashes, ..facts };
    let (in_place, begin) = (facts.in_place, Stopwatch::start(options.gate.as_ref()));
    let class = facts.class(source.stat.size);
    let how = (facts, chosen);
    let result = write(source, destination, &mut staging, how, options, observer);
    if result.as_ref().is_err_and(Error::is_cancelled) {
        staging.leave();
    }
    if let Ok(Outcome::Copied(receipt)) = result.as_ref()
        && !transforms
        && receipt.resumed_bytes == 0
    {
        learn(observer, class, receipt, begin.elapsed());
    }
    result.map_err(|error| if in_place { error.while_in_place() } else { error })
}

/// Lets other copies of the job know what this one took, if it went one way.
fn learn(observer: &dyn Observer, class: FileClass, receipt: &Receipt, took: Duration) {
    let Some(history) = observer.history().filter(|_| observer.throttle().is_none()) else {
        return;
    };
    let verified = receipt.verification.as_ref().map_or(Duration::ZERO, |v| v.duration);
    let mut portions = receipt.portions.iter().filter(|p| p.cost != Cost::Hole);
    if let Some(first) = portions.next()
        && portions.all(|p| p.mechanism == first.mechanism)
    {
        let (bytes, took) = (receipt.bytes_by(first.mechanism), took.saturating_sub(verified));
        let refused = receipt.refusals.iter().filter(|refusal| refusal.errno.is_some());
        let refused = refused.map(|refusal| refusal.mechanism);
        history.record(class, first.mechanism, refused, (bytes, took));
    }
}

/// Writes the copy and puts it in place.
fn write(
    source: &Source<'_>,
    destination: &Destination<'_>,
    staging: &mut Staging<'_>,
    (facts, chosen): (CopyFacts, Option<&Chosen>),
    options: &CopyOptions,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let way = chosen.map_or(Conversion::Leave, |chosen| chosen.conversion);
    let compression = chosen.map(|chosen| chosen.compression.clone());
    let mut receipt = Receipt::default();
    receipt.compression = compression;
    let was_cached = options.cache == Cache::Skip && file::cached_bytes(source.fd(), 0, 0) != Ok(0);
    let in_place = facts.in_place;
    // Servers may report a failed write only when asked to flush, or to a close(2) that no name may
    // depend on any more.
    let answers_late = facts.destination.is_network() || facts.destination.is_user();
    let digest = options.verify.filter(|_| facts.hashes);
    let mut digest = digest
        .map(|verify| Hasher::new(verify.algorithm))
        .transpose()
        .map_err(|errno| Error::system("hash", source.path, errno))?;
    let reached = match way {
        Conversion::Leave => {
            move_bytes(source, staging, (facts, digest.as_mut()), &mut receipt, observer)?
        }
        _ => transform_bytes(way, source, staging, &facts, &mut receipt, observer)?,
    };
    let written = Written { bytes: reached, way, digest: digest.map(Hasher::finish) };
    finish_contents(source, staging, written, options, &mut receipt, observer)?;
    if options.cache == Cache::Skip && !destination.is_stream() {
        drop_caches(source, staging, was_cached);
    }
    receipt.notes.extend(notes(destination, options));
    if destination.is_stream() {
        // A device or FIFO keeps what it has.
    } else if in_place {
        receipt.notes.extend(metadata::apply_in_place(staging.fd(), source, options.preserve));
    } else {
        receipt.notes.extend(metadata::apply(staging, source, destination, options.preserve));
    }
    if source.has_reliable_size() && !destination.is_stream() {
        receipt.flags_not_kept = metadata::flags_not_kept(source.fd(), staging.fd());
    }
    if options.durable || answers_late {
        flush(staging, reached, observer)?;
    }
    // Opened while there is still nothing to take back: descriptors may run out.
    let directory = if options.durable { Some(staging.open_directory()?) } else { None };
    if staging.commit()? == Commit::Skipped {
        return Ok(Outcome::exists());
    }
    receipt.leftovers = staging.leftovers();
    receipt.notes.extend(staging.give_last(options.durable)?);
    if let Some(directory) = directory {
        staging.sync_directory(&directory)?;
        receipt.durable = true;
    }
    Ok(Outcome::Copied(receipt))
}

/// Where the bytes are written first.
fn open_staging<'a>(
    source: &Source<'_>,
    destination: &'a Destination<'a>,
    noting: Noting<'a>,
    options: &CopyOptions,
    observer: &mut dyn Observer,
) -> Result<Staging<'a>> {
    if destination.is_stream() || (options.in_place && destination.found.is_some()) {
        return Staging::in_place(destination, observer);
    }
    let mode = metadata::creation_mode(&source.stat, destination.found.as_ref(), options.preserve);
    Staging::aside(destination, mode, options.existing, noting)
}

/// Moves the bytes and fills in the receipt. Returns the length of the destination.
fn move_bytes(
    source: &Source<'_>,
    staging: &Staging<'_>,
    (facts, digest): (CopyFacts, Option<&mut Hasher>),
    receipt: &mut Receipt,
    observer: &mut dyn Observer,
) -> Result<u64> {
    let reached = match facts.size {
        Some(size) if !facts.destination_is_stream => {
            transfer::transfer(source, staging, facts, size, receipt, observer)?
        }
        _ => {
            // Of nothing every way is as good as any other.
            let empty = source.stat.size == 0 && source.has_reliable_size();
            if plan::next(&facts, &[]) == PlanStep::GiveUp && !empty {
                return Err(Error::new("copy", source.path, plan::no_mechanism(&facts, &[])));
            }
            let mechanism = match plan::next(&facts, &[]) {
                PlanStep::Try(mechanism) => mechanism,
                PlanStep::GiveUp => Mechanism::ReadWrite,
            };
            receipt.refusals = plan::refusals(&facts, Some(mechanism));
            let how = (&facts, mechanism);
            let reached = stream::copy_to_end(source, staging, how, digest, receipt, observer)?;
            if empty && reached == 0 {
                receipt.refusals.clear();
            }
            if facts.in_place && !facts.destination_is_stream {
                file::truncate(staging.fd(), reached).map_err(|e| {
                    Error::destination("set the size of", staging.destination().given, e)
                })?;
            }
            reached
        }
    };
    if staging.is_kept() {
        // XFS lets a file keep what it allocated ahead if it was closed while it was dirty, as a kill does
        // (`XFS_EOFBLOCKS_RELEASED` and `XFS_IDIRTY_RELEASE` in `fs/xfs`): up to as much again.
        file::truncate(staging.fd(), reached)
            .map_err(|e| Error::destination("set the size of", staging.destination().given, e))?;
    }
    receipt.bytes = reached;
    Ok(reached)
}

/// Compresses or decompresses the bytes and fills in the receipt. Returns the length of the
/// destination.
fn transform_bytes(
    way: Conversion,
    source: &Source<'_>,
    staging: &Staging<'_>,
    facts: &CopyFacts,
    receipt: &mut Receipt,
    observer: &mut dyn Observer,
) -> Result<u64> {
    receipt.refusals = plan::refusals(facts, Some(Mechanism::ReadWrite));
    receipt.bytes = compress::write(way, source, staging, facts.sparse, receipt, observer)?;
    Ok(receipt.bytes)
}

/// New contents that nobody sees yet.
struct Written {
    bytes: u64,
    way: Conversion,
    /// Of what came from a source that cannot be read again.
    digest: Option<String>,
}

/// Everything that must hold before the new contents may be seen: flushed, equal, unchanged.
fn finish_contents(
    source: &Source<'_>,
    staging: &Staging<'_>,
    Written { bytes: reached, way, digest }: Written,
    options: &CopyOptions,
    receipt: &mut Receipt,
    observer: &mut dyn Observer,
) -> Result<()> {
    // A whole-file clone is a snapshot: what happens to the source afterwards is no matter.
    let snapshot = receipt.bytes_by(Mechanism::Reflink) == reached && reached > 0;
    if snapshot {
        receipt.mapped_writes = watch::of_snapshot(source.filesystem);
    }
    if let Some(wanted) = options.verify
        && !staging.destination().is_stream()
    {
        let read = receipt.compression.as_ref().filter(|_| way != Conversion::Leave);
        let source_bytes = read.map_or(reached, |compression| compression.source_bytes);
        if digest.is_some() {
            receipt.notes.push(Note::DigestAsItCame);
        }
        let is_read_again = digest.is_none();
        let original = digest.map_or(Original::Again(source_bytes), Original::AsItCame);
        let progress = Progress { phase: Phase::Flushing, done_bytes: 0, total_bytes: reached };
        observer::report(observer, progress, source.path)?;
        file::sync_data(staging.fd())
            .map_err(|e| Error::destination("flush", staging.destination().given, e))?;
        let (sides, how) = ((original, reached), (way, wanted));
        match verify::verify(source, staging, sides, how, options.gate.as_ref(), observer) {
            Err(error) if error.is_verification_failed() => {
                // The likelier reason, if there is one.
                check_change(source, options, receipt)?;
                return Err(error.with_doubt(doubt(receipt).filter(|_| is_read_again)));
            }
            other => receipt.verification = Some(other?),
        }
    }
    if snapshot { Ok(()) } else { check_change(source, options, receipt) }
}

fn check_change(source: &Source<'_>, options: &CopyOptions, receipt: &mut Receipt) -> Result<()> {
    let change = source.change().map_err(|e| Error::system("examine", source.path, e))?;
    match change {
        Some(what) if options.if_changed != IfChanged::Accept => {
            Err(Error::new("copy", source.path, Reason::SourceChanged { what }))
        }
        changed => {
            receipt.source_changed = changed.is_some();
            receipt.mapped_writes = match source.mapped_writes() {
                // Nobody looked at it while the other run copied.
                MappedWrites::NoneSeen if receipt.resumed_bytes > 0 => {
                    MappedWrites::Unknown(Unseen::Resumed)
                }
                known => known,
            };
            Ok(())
        }
    }
}

/// Why a source that was read twice may have been another one the second time.
fn doubt(receipt: &Receipt) -> Option<SourceDoubt> {
    match receipt.mapped_writes {
        _ if receipt.source_changed => Some(SourceDoubt::Changed),
        MappedWrites::NoneSeen => None,
        MappedWrites::Seen => Some(SourceDoubt::Changed),
        MappedWrites::Unknown(why) => Some(SourceDoubt::Unseen(why)),
    }
}

fn flush(staging: &Staging<'_>, size: u64, observer: &mut dyn Observer) -> Result<()> {
    let given = staging.destination().given;
    let progress = Progress { phase: Phase::Flushing, done_bytes: 0, total_bytes: size };
    if observer.progress(progress) == Control::Stop {
        return Err(Error::new("copy to", given, Reason::Cancelled));
    }
    match file::sync(staging.fd()) {
        // Pipes and character devices have nothing to flush (fsync(2)).
        Err(Errno::EINVAL) if staging.destination().is_stream() => Ok(()),
        other => other.map_err(|e| Error::destination("flush", given, e)),
    }
}

/// Takes the destination out of the page cache, and the source if it was not there before.
fn drop_caches(source: &Source<'_>, staging: &Staging<'_>, source_was_cached: bool) {
    // Only clean pages can be dropped.
    let _ = file::write_out(staging.fd(), 0, 0, true);
    let _ = file::drop_cache(staging.fd(), 0, 0);
    if !source_was_cached {
        let _ = file::drop_cache(source.fd(), 0, 0);
    }
}

fn notes(destination: &Destination<'_>, options: &CopyOptions) -> Vec<Note> {
    let Some(found) = &destination.found else { return Vec::new() };
    let regular = found.stat.file_type() == FileType::RegularFile;
    let mut notes = Vec::new();
    if options.in_place && regular {
        notes.push(Note::InPlace);
        if options.verify.is_some() {
            notes.push(Note::VerifiedInPlace);
        }
    } else if regular {
        notes.extend(Note::other_links(found.stat.links.into()));
    }
    notes
}
