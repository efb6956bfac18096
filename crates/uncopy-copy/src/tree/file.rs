//! Copies regular files of a tree: opens them in their directory, and copies them by the engine for
//! single files, or, if they are small, by the short path.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FileType, OFlags};

use super::admission::{self, Admission, check_file_admission};
use super::context::Context;
use super::early_start::EarlyStart;
use super::file_progress::FileProgress;
use super::job_control::JobControl;
use super::journal::{self, Finished, Journal, KeptPart};
use super::linked_unchanged::find_unchanged;
use super::other::{Linking, link_unchanged};
use super::partial::{self, LeftPart, Partial};
use super::place::{OpenFile, Place, changed_kind};
use super::removal;
use super::reporter::Reporter;
use super::resume::Resume;
use super::retry;
use super::small_files::Devices;
use super::unchanged::compare_contents;
use super::worker::Worker;
use crate::Outcome;
use crate::conversion::{Chosen, is_transformed};
use crate::destination::{Destination, ExistingEntry};
use crate::digest;
use crate::display_path::{DisplayPath, LazyPath};
use crate::facts::Target;
use crate::file_copy::CopyRequest;
use crate::file_plan::FilePlan;
use crate::jobs::{Action, EntryKind, EntryOutcome};
use crate::mechanism::Ends;
use crate::metadata;
use crate::observer::{self, Phase, Progress};
use crate::peer_file::PeerFile;
use crate::small::{self, NextSmallFile, SmallCopy};
use crate::source::{self, Source};
use crate::source_directory::SourceDirectory;
use crate::source_file::SourceFile;
use crate::staging::{Commit, Placing, Staging};
use crate::stale::{Noting, Sweeper};
use crate::{CopyOptions, IfChanged, Require, facts, watch};
use uncopy_core::{
    Cost, DigestedFrom, InodeFlags, Mechanism, Note, Portion, Receipt, SourceDigest,
};
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::capabilities::Filesystem;
use uncopy_os::directory;
use uncopy_os::file::{self, Stat};
use uncopy_os::{name, transfer};

/// Copies an open regular file, regardless of its other names. `early`: work done for it already;
/// `link_refused`: why the filesystem refused a hard link instead.
pub(super) fn copy_regular(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    file: OpenFile,
    chosen: Option<&Chosen>,
    early: Option<EarlyStart<'_>>,
    mut link_refused: Option<Errno>,
) {
    let (context, control) = (worker.context, worker.control);
    let journal = worker.resume.journal();
    let before = journal.is_some().then(|| file.stat.clone());
    if let (Some(journal), Some(before)) = (&journal, &before) {
        let source = (file.file.here(), before);
        match is_done(&mut worker.file_progress(), control, journal, place, source) {
            Ok(false) => {}
            Ok(true) => {
                removal::note_copied(worker, place, Some(before));
                return worker.reporter.finish(place, EntryKind::File, EntryOutcome::Resumed);
            }
            Err(error) => return worker.reporter.fail(place, EntryKind::File, error),
        }
    }
    let (mut opened, mut early, mut done, mut as_copied) = (Some(file), early, None, None);
    let options = context.copy_options(&place.directory.entered);
    let find = (|| place.source(), || place.destination());
    let (from, to) = (LazyPath::new(&find.0), LazyPath::new(&find.1));
    let path = || place.directory.path_from_root();
    let spare_threads = worker.scheduler.spare_workers();
    let (guarded, throttle) = (context.guarded(place), context.throttle());
    let copy_context = &context.copy_context(&spare_threads, guarded.as_ref());
    let copied = retry::repeated(worker.options, control, place.open.filesystems, |flushes| {
        let OpenFile { file, stat } = opened.take().map_or_else(|| open_file(place), Ok)?;
        let filesystem = place.open.filesystem_of(&place.directory.entered.source, &file, &stat);
        let source = Source::opened(DisplayPath::Lazy(&from), file, stat, filesystem);
        let mut source = source.watched(options, flushes);
        let mut progress = worker.file_progress();
        let (mut compared, mut compared_bytes) = (0, 0);
        let mut count = |same_bytes| {
            compared += 1;
            compared_bytes += same_bytes;
        };
        let admission = check_file_admission(&mut worker.deleter(), place, &source.stat, |found| {
            let contents = compare_contents(place, &source, found, throttle, &mut progress)?;
            count(contents.same_bytes);
            Ok(contents.are_same)
        });
        let unchanged = match &admission {
            Ok(Admission::Proceed { .. } | Admission::Done(EntryOutcome::Planned { .. })) => {
                find_unchanged(worker.options, place, &source, throttle, &mut progress, count)
            }
            _ => Ok(None),
        };
        let summary = worker.reporter.summary();
        summary.compared += compared;
        summary.compared_bytes += compared_bytes;
        let unchanged = unchanged?;
        let (found, decision, keeps_old) = match (admission?, &unchanged) {
            (Admission::Proceed { found, decision, keeps_old }, _) => (found, decision, keeps_old),
            (Admission::Done(EntryOutcome::Planned { .. }), Some(_)) => {
                let action = Action::Link;
                done = Some(EntryOutcome::Planned { action, mechanism: None });
                return Ok(Outcome::Copied(Receipt::default()));
            }
            (Admission::Done(outcome), _) => {
                if let EntryOutcome::Planned { .. } = outcome {
                    // One of this machine is open already.
                    source.open_there()?;
                }
                if let EntryOutcome::Planned { action: Action::Replace, .. } = outcome {
                    // The copy itself would be refused here.
                    let (given, found) = (DisplayPath::Lazy(&to), admission::find(place)?);
                    find_destination(place, given, found, &source, options)?;
                }
                source.is_foreseen = true;
                done = Some(with_mechanism(outcome, place, &source, chosen, options)?);
                return Ok(Outcome::Copied(Receipt::default()));
            }
        };
        let options = &*options.after_asking(found.is_some());
        let options = &*options.after_killed_run(keeps_old);
        if let Some(unchanged) = &unchanged {
            match link_unchanged(context, place, unchanged, found.as_ref(), &decision, keeps_old)? {
                Linking::Done(outcome) => {
                    done = Some(outcome);
                    return Ok(Outcome::Copied(Receipt::default()));
                }
                Linking::Refused(errno) => link_refused = errno,
            }
        }
        source.open_there()?;
        // It may be another one than was listed.
        if let Some(guarded) = guarded.as_ref().filter(|_| source.there().is_some()) {
            guarded
                .check_source(&source.stat)
                .map_err(|why| Error::new("copy", place.source(), Reason::Refused(why)))?;
        }
        let (source, given) = (&source, DisplayPath::Lazy(&to));
        let destination = &find_destination(place, given, found, source, options)?;
        let request = CopyRequest { source, destination, chosen, options, context: copy_context };
        let mut facts = request.file_facts();
        facts.small_below_bytes = match source.there() {
            // Without its contents there is more to ask than a small file is worth.
            Some(file) if file.contents().is_none() => 0,
            _ => small::below_bytes(filesystem, place.open.filesystems.1, options),
        };
        facts.resumable_from_bytes = journal.as_ref().map(|_| partial::MIN_BYTES);
        let plan = FilePlan::decide(&facts);
        if plan == FilePlan::Left {
            return Ok(Outcome::exists());
        }
        let noting = place.directory.noting(&path);
        if plan == FilePlan::Small
            && let Some(outcome) = copy_small(worker, place, request, noting, early.take())?
        {
            as_copied = Some(source.as_begun().clone());
            return Ok(outcome);
        }
        // An early start may have created the file; dropping it removes that.
        drop(early.take());
        let journal = journal.as_ref().filter(|_| plan == FilePlan::Resumable);
        let placing = placing(context, control, place, source, journal, noting);
        let outcome = request.carry_out(placing, &mut worker.file_progress())?;
        as_copied = Some(source.as_begun().clone());
        Ok(outcome)
    });
    if let Some(outcome) = done {
        return worker.reporter.finish(place, EntryKind::File, outcome);
    }
    match copied {
        Ok(Outcome::Skipped { reason, .. }) => {
            worker.reporter.finish(place, EntryKind::File, EntryOutcome::Skipped { reason });
        }
        Ok(Outcome::Copied(mut receipt)) => {
            receipt.notes.extend(link_refused.map(|errno| Note::NotLinked { errno }));
            if let Some(portion) = receipt.portions.last() {
                worker.tally.note_mechanism(portion.mechanism);
            }
            if is_heavy(&receipt) {
                worker.scheduler.end_light_work();
            }
            if let (Some(journal), Some(before)) = (journal, before) {
                note(control, &journal, place, &before, receipt.bytes);
            }
            let as_copied = as_copied.filter(|_| !receipt.source_changed);
            removal::note_copied(worker, place, as_copied.as_ref());
            worker.reporter.finish_copied(place, receipt);
        }
        Err(error) => fail_file(worker.resume, &mut worker.reporter, place, error),
    }
}

/// Notes that a file was not copied and may have its name anyway, because it could not be removed.
fn fail_file(resume: &Resume, reporter: &mut Reporter<'_>, place: &Place<'_>, error: Error) {
    let is_unseen = place.directory.entered.is_unseen();
    if is_unseen && directory::stat_name(&*place.open.destination, place.target).is_ok() {
        resume.leave_remnants();
    }
    reporter.fail(place, EntryKind::File, error);
}

/// Whether an earlier run copied this file, and neither side has changed since.
fn is_done(
    progress: &mut FileProgress<'_>,
    control: &JobControl<'_>,
    journal: &Journal,
    place: &Place<'_>,
    source: (Option<BorrowedFd<'_>>, &Stat),
) -> Result<bool> {
    let (source, stat) = source;
    let directory = place.open.destination.as_fd();
    let is_noted = journal.is_continued()
        && directory::stat_name(directory, place.target)
            .is_ok_and(|copy| journal.has(&journal::done(&place.way(), stat, &copy)));
    // In a tree without its final name the file gets its temporary name back.
    if is_noted || stat.size < partial::MIN_BYTES || place.directory.entered.private {
        return Ok(is_noted);
    }
    let is_ended = journal::is_ended(
        journal,
        &place.way(),
        source,
        stat,
        directory,
        place.target,
        |done_bytes| {
            let (phase, total_bytes) = (Phase::Verifying, stat.size);
            let verified = Progress { phase, done_bytes, total_bytes };
            observer::report(progress, verified, place.source())
        },
    )?;
    if is_ended {
        note(control, journal, place, stat, stat.size);
    }
    Ok(is_ended)
}

/// Notes a finished file in the journal.
fn note(control: &JobControl<'_>, journal: &Journal, place: &Place<'_>, source: &Stat, bytes: u64) {
    let destination = place.open.destination.as_fd();
    let noted = directory::stat_name(destination, place.target).and_then(|copy| {
        let (path, copy, directory) = (&place.way(), &copy, destination);
        journal.add(&Finished { path, source, copy, bytes, directory })
    });
    if let Err(errno) = noted {
        let error = Error::destination("write the journal for", place.destination(), errno);
        control.stop(error);
    }
}

/// Copies a small file by one read and one write, or by shared blocks. Returns `None` if it is
/// unusual, so that the engine has to copy it.
fn copy_small(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    request: CopyRequest<'_>,
    noting: Noting<'_>,
    early: Option<EarlyStart<'_>>,
) -> Result<Option<Outcome>> {
    let CopyRequest { source, destination, options, .. } = request;
    let (context, control) = (worker.context, worker.control);
    let (stat, size, mut progress) = (&source.stat, source.stat.size, worker.file_progress());
    let devices = Devices {
        source: stat.device,
        destination: place.directory.entered.destination.0,
        is_elsewhere: source.there().is_some(),
    };
    let filesystems = (source.filesystem, place.open.filesystems.1);
    // A filesystem mounted on this name may use another clock.
    let early = early.filter(|_| NextSmallFile::is_possible(source.filesystem));
    let (path, buffer) = worker.small_file_path(devices, filesystems);
    let (mut staging, copied) = match early {
        Some(EarlyStart::Shared(shared)) if shared.is_of(stat) => {
            let mapped_writes = watch::of_snapshot(source.filesystem);
            let copied = SmallCopy::Copied(Mechanism::Reflink, Cost::Shared, mapped_writes);
            let Some(fd) = shared.take() else { return Ok(None) };
            let mode = stat.permissions() & 0o777;
            let defaults = Some(context.directory_defaults(place.directory));
            (Staging::adopt_private(destination, fd).among(defaults, mode), copied)
        }
        early => {
            // A new file with shared blocks is removed before it is made again.
            let read = early.and_then(EarlyStart::into_read);
            let placing = placing(context, control, place, source, None, noting);
            let staging = request.stage(placing, &mut progress)?;
            let wait_for_budget = || control.wait_for_budget(size);
            let copied = match &source.file {
                SourceFile::Here(fd) => {
                    let ends = Ends { source: fd.as_fd(), destination: staging.fd() };
                    path.copy(ends, stat, options, buffer, read, wait_for_budget)
                }
                SourceFile::There(file) => small::write_listed(file, staging.fd(), wait_for_budget),
            };
            (staging, copied)
        }
    };
    let (mechanism, cost, mapped_writes) = match copied {
        SmallCopy::Copied(mechanism, cost, mapped_writes) => (mechanism, cost, mapped_writes),
        SmallCopy::StoredInto if options.if_changed != IfChanged::Accept => {
            return Err(source::stored_into(place.source()));
        }
        SmallCopy::StoredInto | SmallCopy::Odd => return Ok(None),
    };
    let contents = source.there().and_then(PeerFile::contents);
    let digest = match contents {
        Some(contents) => digest_bytes(contents, DigestedFrom::Streamed, options),
        None => digest_small(&staging, size, mechanism, options, worker.buffer()),
    };
    let Some(digest) = digest else { return Ok(None) };
    if contents.is_none() {
        worker.set_next_small(NextSmallFile::after(mechanism, stat));
    }
    let mut notes = metadata::apply(&staging, source, destination, options.given())
        .map_err(|lacks| lacks.error(place.destination()))?;
    source.check_connected()?;
    if staging.commit()? == Commit::Skipped {
        return Ok(Some(Outcome::exists()));
    }
    notes.extend(staging.give_last(options.durable)?);
    worker.tally.count_bytes(size);
    let looks = worker.reporter.wants_records() || stat.is_flagged;
    let flags = match source.here().filter(|_| looks) {
        Some(fd) => metadata::flags_not_kept(fd, staging.fd()),
        None => InodeFlags::default(),
    };
    let mut receipt = worker.small_receipt(size, mechanism, cost, notes, flags);
    receipt.mapped_writes = mapped_writes;
    receipt.source_digest = digest;
    receipt.compression = request.chosen.map(|chosen| chosen.compression.clone());
    Ok(Some(Outcome::Copied(receipt)))
}

/// Computes the digest of a small file, if one is wanted, from the bytes in the buffer or, if its blocks
/// are shared, from the copy. `None`: the copy could not be read.
fn digest_small(
    staging: &Staging<'_>,
    size: u64,
    mechanism: Mechanism,
    options: &CopyOptions,
    buffer: &mut [u8],
) -> Option<Option<SourceDigest>> {
    let length = size as usize;
    let from = match mechanism {
        _ if options.digest.is_none() => return Some(None),
        Mechanism::ReadWrite => DigestedFrom::Streamed,
        _ if transfer::read_at(staging.fd(), buffer, 0) == Ok(length) => DigestedFrom::ReadFromCopy,
        _ => return None,
    };
    digest_bytes(&buffer[..length], from, options)
}

/// Computes the digest of the bytes of a small file, if one is wanted.
fn digest_bytes(
    bytes: &[u8],
    from: DigestedFrom,
    options: &CopyOptions,
) -> Option<Option<SourceDigest>> {
    let Some(algorithm) = options.digest else { return Some(None) };
    digest::of_bytes(algorithm, bytes, from).ok().map(Some)
}

/// Decides where a file is written first: in a directory that gets its final name when it is
/// complete, under its own name at once; with a journal, where another run finds it; else under a
/// temporary name.
fn placing<'a>(
    context: &'a Context<'a>,
    control: &'a JobControl<'a>,
    place: &Place<'a>,
    source: &Source<'_>,
    journal: Option<&Arc<Journal>>,
    noting: Noting<'a>,
) -> Placing<'a> {
    let is_unseen = place.directory.entered.is_unseen();
    // A directory that is copied with all its entries is swept after them.
    let names: &dyn Sweeper = context.temporary_names();
    let sweeper = (!place.directory.entered.whole).then_some(names);
    let directory_defaults = context.directory_defaults(place.directory);
    // A file that does not meet the requirement never gets a name.
    let requires = context.copy_options(&place.directory.entered).require != Require::Nothing;
    match journal {
        Some(journal) => {
            let stop = move |error| control.stop(error);
            let keep = KeptPart::new(stop, journal, &place.way(), &source.stat);
            let ended = place.directory.entered.private.then_some(place.target);
            let begun = keep.begun(place.open.destination.as_fd(), ended);
            let (begun, noted) = begun
                .map_or_else(Default::default, |LeftPart { file, chunks }| (Some(file), chunks));
            let parts = Partial::new(Box::new(keep), source.stat.size, noted);
            let named_late = requires;
            Placing::Kept { parts: Box::new(parts), begun, is_unseen, sweeper, named_late }
        }
        None if is_unseen && !requires => Placing::Private { directory_defaults },
        None => {
            let directory_defaults = Some(directory_defaults);
            Placing::Aside { sweeper, is_unseen, directory_defaults, noting }
        }
    }
}

/// Whether copying it took longer than sharing blocks does.
fn is_heavy(receipt: &Receipt) -> bool {
    /// A hundred times what it usually takes.
    const LONG: Duration = Duration::from_millis(5);
    let is_shared = |portion: &Portion| matches!(portion.cost, Cost::Shared | Cost::Hole);
    receipt.duration >= LONG || !receipt.portions.iter().all(is_shared)
}

/// Makes the destination of a file. An existing entry that is no regular file passes nothing on to
/// it.
fn find_destination<'a>(
    place: &Place<'a>,
    given: DisplayPath<'a>,
    found: Option<ExistingEntry>,
    source: &Source<'_>,
    options: &CopyOptions,
) -> Result<Destination<'a>> {
    // A leftover of a killed run is not the caller's either.
    let taken_over = !place.directory.entered.private;
    let found = found.filter(|f| taken_over && f.stat.file_type() == FileType::RegularFile);
    let (directory, filesystem) = (Arc::clone(&place.open.destination), place.open.filesystems.1);
    Destination::beneath(directory, filesystem, place.target, given, found, source, options)
}

/// Adds to a dry run's plan the mechanism that would copy the file.
///
/// # Errors
/// None would.
fn with_mechanism(
    outcome: EntryOutcome,
    place: &Place<'_>,
    source: &Source<'_>,
    chosen: Option<&Chosen>,
    options: &CopyOptions,
) -> Result<EntryOutcome> {
    Ok(match outcome {
        EntryOutcome::Planned { action, .. } if is_transformed(chosen) => {
            EntryOutcome::Planned { action, mechanism: Some(Mechanism::ReadWrite) }
        }
        EntryOutcome::Planned { action, .. } => {
            let entered = &place.directory.entered;
            let device = match source.filesystem {
                // Its files have another device than its directories.
                Filesystem::OVERLAYFS => entered.source.device,
                _ => source.stat.device,
            };
            let target = Target {
                filesystem: place.open.filesystems.1,
                device: entered.destination.0,
                is_of_source: device == entered.destination.0,
            };
            let mechanism = match facts::foreseen(source, target, options) {
                Ok(mechanism) => mechanism,
                // The existing file may lie elsewhere.
                Err(_) if options.in_place && action == Action::Replace => None,
                Err(reason) => return Err(Error::new("copy", place.source(), reason)),
            };
            EntryOutcome::Planned { action, mechanism }
        }
        other => other,
    })
}

/// Opens a regular file of a directory, and nothing else.
pub(super) fn open_file(place: &Place<'_>) -> Result<OpenFile> {
    match &place.open.source {
        SourceDirectory::Here(source) => examine(place, open_regular(source, place)?),
        SourceDirectory::There(directory) => {
            let opened =
                directory.open(place.name, false).map_err(|errno| not_opened(place, errno))?;
            let stat = opened.1.clone();
            check_regular(place, &stat)?;
            let file = PeerFile::opened(directory, place.name.to_owned(), opened);
            Ok(OpenFile { file: SourceFile::There(file), stat })
        }
    }
}

/// Opens a file of this machine that must be a regular one.
pub(super) fn open_regular(source: &OwnedFd, place: &Place<'_>) -> Result<OwnedFd> {
    let open = |flags| name::open_existing(source, place.name, flags);
    let fd = match open(OFlags::RDONLY) {
        // Another process holds a lease: wait for it (fcntl(2), F_SETLEASE).
        Err(Errno::EAGAIN) => {
            open(OFlags::RDONLY).and_then(|fd| file::set_blocking(&fd).map(|()| fd))
        }
        other => other,
    };
    fd.map_err(|errno| not_opened(place, errno))
}

fn not_opened(place: &Place<'_>, errno: Errno) -> Error {
    match errno {
        Errno::ELOOP => changed_kind(place, FileType::Symlink),
        Errno::ENXIO => changed_kind(place, FileType::Socket),
        errno => Error::system("open", place.source(), errno),
    }
}

/// Looks up the status of an open file, which must be a regular one.
pub(super) fn examine(place: &Place<'_>, fd: OwnedFd) -> Result<OpenFile> {
    let stat = file::stat(&fd).map_err(|e| Error::system("examine", place.source(), e))?;
    check_regular(place, &stat)?;
    Ok(OpenFile { file: SourceFile::Here(fd), stat })
}

fn check_regular(place: &Place<'_>, stat: &Stat) -> Result<()> {
    match stat.file_type() {
        FileType::RegularFile => Ok(()),
        other => Err(changed_kind(place, other)),
    }
}
