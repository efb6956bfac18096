//! Regular files of a tree: opened in their directory, and copied by the engine that copies single
//! files, small ones by its shortest way.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FileType, OFlags};

use super::admission::{Admission, check_admission};
use super::file_progress::FileProgress;
use super::job::Job;
use super::journal::{self, Finished, Journal, KeptPart};
use super::partial::{self, LeftPart, Partial};
use super::place::{Place, changed_kind};
use super::retry;
use super::small_files::Devices;
use super::transform::transforms;
use super::worker::Worker;
use crate::Outcome;
use crate::compress::Chosen;
use crate::destination::{Destination, Found};
use crate::display_path::{DisplayPath, LazyPath};
use crate::jobs::{EntryKind, EntryOutcome};
use crate::mechanism::Ends;
use crate::metadata;
use crate::observer::{self, Phase, Progress};
use crate::run::CopyRequest;
use crate::small::{self, SmallCopy};
use crate::source::{self, Source};
use crate::staging::{Commit, Placing, Staging};
use crate::stale::Noting;
use crate::{CopyOptions, IfChanged, facts};
use uncopy_core::{Cost, InodeFlags, Mechanism, Note, Portion, Receipt};
use uncopy_core::{Errno, Error, Result};
use uncopy_os::directory;
use uncopy_os::file::{self, Stat};
use uncopy_os::name;

/// Copies an open regular file, whatever other names it has, and if the filesystem `refused` a
/// link instead.
pub(super) fn copy_regular(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    (fd, stat): (OwnedFd, Stat),
    chosen: Option<&Chosen>,
    refused: Option<Errno>,
) {
    let journal = worker.job().resume().journal();
    let before = journal.is_some().then(|| stat.clone());
    if let (Some(journal), Some(before)) = (&journal, &before) {
        match is_done(worker, journal, place, (&fd, before)) {
            Ok(false) => {}
            Ok(true) => return worker.finish(place, EntryKind::File, EntryOutcome::Resumed),
            Err(error) => return worker.fail(place, EntryKind::File, error),
        }
    }
    let (job, mut opened, mut done) = (worker.job(), Some((fd, stat)), None);
    let options = job.context().copy_options(&place.directory.entered);
    let find = (|| place.source(), || place.destination());
    let (from, to) = (LazyPath::new(&find.0), LazyPath::new(&find.1));
    let path = || place.directory.path_from_root();
    let spare_threads = || job.spare_workers();
    let context = job.context().copy_context(&spare_threads);
    let copied = retry::repeated(job, place.open.filesystems, |flushes| {
        let (fd, stat) = opened.take().map_or_else(|| open_file(place), Ok)?;
        let filesystem = place.open.filesystem_of(&place.directory.entered.source, &fd, &stat);
        let source = Source::opened(DisplayPath::Lazy(&from), fd, stat, filesystem);
        let source = source.watched(options, flushes);
        let found = match check_admission(worker, place, EntryKind::File, source.stat.modified)? {
            Admission::Proceed { found, .. } => found,
            Admission::Done(outcome) => {
                done = Some(with_mechanism(outcome, place, &source, chosen, options));
                return Ok(Outcome::Copied(Receipt::default()));
            }
        };
        let destination =
            find_destination(place, (DisplayPath::Lazy(&to), found), &source, options)?;
        if !transforms(chosen)
            && let Some(outcome) = copy_small(worker, place, &source, &destination, chosen)?
        {
            return Ok(outcome);
        }
        // Of what is transformed another run cannot go on in the middle.
        let journal = journal.as_ref().filter(|_| !transforms(chosen));
        let placing = placing(job, place, &source, (journal, place.directory.noting(&path)));
        let watch = &mut FileProgress::new(job);
        let (source, destination) = (&source, &destination);
        let request = CopyRequest { source, destination, chosen, options, context: &context };
        request.carry_out(placing, watch)
    });
    if let Some(outcome) = done {
        return worker.finish(place, EntryKind::File, outcome);
    }
    match copied {
        Ok(Outcome::Skipped { reason, .. }) => {
            worker.finish(place, EntryKind::File, EntryOutcome::Skipped { reason });
        }
        Ok(Outcome::Copied(mut receipt)) => {
            receipt.notes.extend(refused.map(|errno| Note::NotLinked { errno }));
            if let Some(portion) = receipt.portions.last() {
                job.tally().note_mechanism(portion.mechanism);
            }
            if is_heavy(&receipt) {
                worker.end_light_work();
            }
            if let (Some(journal), Some(before)) = (journal, before) {
                note(worker, &journal, place, &before, receipt.bytes);
            }
            worker.finish_copied(place, receipt);
        }
        Err(error) => fail_file(worker, place, error),
    }
}

/// A file was not copied, and may have its name all the same: it could not be removed.
fn fail_file(worker: &mut Worker<'_, '_>, place: &Place<'_>, error: Error) {
    let is_unseen = place.directory.entered.is_unseen();
    if is_unseen && directory::stat_name(&*place.open.destination, place.target).is_ok() {
        worker.job().resume().leave_remnants();
    }
    worker.fail(place, EntryKind::File, error);
}

/// An earlier run copied this file, and neither side has changed since.
fn is_done(
    worker: &Worker<'_, '_>,
    journal: &Journal,
    place: &Place<'_>,
    (source, stat): (&OwnedFd, &Stat),
) -> Result<bool> {
    let directory = place.open.destination.as_fd();
    let is_noted = journal.is_continued()
        && directory::stat_name(directory, place.target)
            .is_ok_and(|copy| journal.has(&journal::done(&place.way(), stat, &copy)));
    // In a tree that nobody sees yet it gets its temporary name back.
    if is_noted || stat.size < partial::MIN_BYTES || place.directory.entered.private {
        return Ok(is_noted);
    }
    let (opened, name) = ((source.as_fd(), stat), (directory, place.target));
    let mut watch = FileProgress::new(worker.job());
    let is_ended = journal::is_ended(journal, &place.way(), opened, name, |done_bytes| {
        let (phase, total_bytes) = (Phase::Verifying, stat.size);
        let progress = Progress { phase, done_bytes, total_bytes };
        observer::report(&mut watch, progress, place.source())
    })?;
    if is_ended {
        note(worker, journal, place, stat, stat.size);
    }
    Ok(is_ended)
}

/// Notes a finished file in the journal.
fn note(worker: &Worker<'_, '_>, journal: &Journal, place: &Place<'_>, source: &Stat, bytes: u64) {
    let destination = place.open.destination.as_fd();
    let noted = directory::stat_name(destination, place.target).and_then(|copy| {
        let (path, copy, directory) = (&place.way(), &copy, destination);
        journal.add(&Finished { path, source, copy, bytes, directory })
    });
    if let Err(errno) = noted {
        let error = Error::destination("write the journal for", place.destination(), errno);
        worker.job().stop(error);
    }
}

/// Copies a file the small way; `None`: it is not small, or something about it is odd.
fn copy_small(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    source: &Source<'_>,
    destination: &Destination<'_>,
    chosen: Option<&Chosen>,
) -> Result<Option<Outcome>> {
    let options = worker.job().context().copy_options(&place.directory.entered);
    let filesystems = (source.filesystem, place.open.filesystems.1);
    let directory = &place.directory;
    if destination.found.is_some() || !small::is_small(&source.stat, filesystems, options) {
        return Ok(None);
    }
    let (job, size) = (worker.job(), source.stat.size);
    if job.context().throttle().is_some_and(|throttle| size > throttle.piece_bytes()) {
        return Ok(None);
    }
    // Nobody can open it before it has its name; where it needs one for that, it is 0600.
    let mode = source.stat.permissions() & 0o777;
    let path = || directory.path_from_root();
    let staging = if directory.entered.is_unseen() {
        Staging::private(destination, mode)?
    } else {
        let noting = directory.noting(&path);
        let staging = Staging::aside(destination, mode, options.existing, noting)?;
        staging.swept(directory.entered.whole)
    };
    let mut staging = staging.among(Some(job.context().directory_defaults(place.directory)), mode);
    let devices =
        Devices { source: source.stat.device, destination: directory.entered.destination.0 };
    let ends = Ends { source: source.fd(), destination: staging.fd() };
    let (way, buffer) = worker.small_file_path(devices, filesystems, options);
    let copied =
        way.copy(ends, &source.stat, options, (buffer, None), || job.wait_for_budget(size));
    let (mechanism, cost, mapped_writes) = match copied {
        SmallCopy::Copied(mechanism, cost, mapped_writes) => (mechanism, cost, mapped_writes),
        SmallCopy::StoredInto if options.if_changed != IfChanged::Accept => {
            return Err(source::stored_into(place.source()));
        }
        SmallCopy::StoredInto | SmallCopy::Odd => return Ok(None),
    };
    let mut notes = metadata::apply(&staging, source, destination, options.preserve);
    if staging.commit()? == Commit::Skipped {
        return Ok(Some(Outcome::exists()));
    }
    notes.extend(staging.give_last(options.durable)?);
    worker.job().tally().count_bytes(size);
    let flags = match worker.wants_records() || source.stat.is_flagged {
        true => metadata::flags_not_kept(source.fd(), staging.fd()),
        false => InodeFlags::default(),
    };
    let mut receipt = worker.small_receipt((size, mechanism, cost), (notes, flags));
    receipt.mapped_writes = mapped_writes;
    receipt.compression = chosen.map(|chosen| chosen.compression.clone());
    Ok(Some(Outcome::Copied(receipt)))
}

/// Where a file is written first: in a directory that appears under its own name when it is complete,
/// under its name at once; and if it is large and there is a journal, where another run finds it.
fn placing<'a>(
    job: &'a Job<'a>,
    place: &Place<'a>,
    source: &Source<'_>,
    (journal, noting): (Option<&Arc<Journal>>, Noting<'a>),
) -> Placing<'a> {
    let is_unseen = place.directory.entered.is_unseen();
    let is_swept = place.directory.entered.whole;
    match journal.filter(|_| source.size().is_some_and(|size| size >= partial::MIN_BYTES)) {
        Some(journal) => {
            let keep = KeptPart::new(|error| job.stop(error), journal, &place.way(), &source.stat);
            let ended = place.directory.entered.private.then_some(place.target);
            let begun = keep.begun(place.open.destination.as_fd(), ended);
            let (begun, noted) = begun
                .map_or_else(Default::default, |LeftPart { file, chunks }| (Some(file), chunks));
            let parts = Partial::new(Box::new(keep), source.stat.size, noted);
            Placing::Kept { parts: Box::new(parts), begun, is_unseen, is_swept }
        }
        None if is_unseen => Placing::Private {
            directory_defaults: job.context().directory_defaults(place.directory),
        },
        None => Placing::Aside {
            is_swept,
            directory_defaults: Some(job.context().directory_defaults(place.directory)),
            noting,
        },
    }
}

/// Copying it took more than sharing blocks does.
fn is_heavy(receipt: &Receipt) -> bool {
    /// A hundred times what it usually takes.
    const LONG: Duration = Duration::from_millis(5);
    let is_shared = |portion: &Portion| matches!(portion.cost, Cost::Shared | Cost::Hole);
    receipt.duration >= LONG || !receipt.portions.iter().all(is_shared)
}

/// The destination of a file. Nothing is taken over from what is no regular file.
fn find_destination<'a>(
    place: &Place<'a>,
    (given, found): (DisplayPath<'a>, Option<Found>),
    source: &Source<'_>,
    options: &CopyOptions,
) -> Result<Destination<'a>> {
    // And what a killed run left is not the caller's.
    let taken_over = !place.directory.entered.private;
    let found = found.filter(|f| taken_over && f.stat.file_type() == FileType::RegularFile);
    let directory = (Arc::clone(&place.open.destination), place.open.filesystems.1);
    Destination::beneath(directory, place.target, given, found, source, options)
}

/// Adds to a plan by which mechanism the file would go.
fn with_mechanism(
    outcome: EntryOutcome,
    place: &Place<'_>,
    source: &Source<'_>,
    chosen: Option<&Chosen>,
    options: &CopyOptions,
) -> EntryOutcome {
    match outcome {
        EntryOutcome::Planned { action, .. } if transforms(chosen) => {
            EntryOutcome::Planned { action, mechanism: Some(Mechanism::ReadWrite) }
        }
        EntryOutcome::Planned { action, .. } => {
            let same_device = source.stat.device == place.directory.entered.destination.0;
            let filesystem = place.open.filesystems.1;
            let mechanism = facts::foreseen(source, filesystem, same_device, options);
            EntryOutcome::Planned { action, mechanism }
        }
        other => other,
    }
}

/// Opens a regular file of a directory, and nothing else.
pub(super) fn open_file(place: &Place<'_>) -> Result<(OwnedFd, Stat)> {
    look_at(place, open_regular(place)?)
}

/// Opens what is to be a regular file.
pub(super) fn open_regular(place: &Place<'_>) -> Result<OwnedFd> {
    let open = |flags| name::open_existing(&place.open.source, place.name, flags);
    let fd = match open(OFlags::RDONLY) {
        // Somebody holds a lease: wait for it (fcntl(2), F_SETLEASE).
        Err(Errno::EAGAIN) => {
            open(OFlags::RDONLY).and_then(|fd| file::set_blocking(&fd).map(|()| fd))
        }
        other => other,
    };
    fd.map_err(|errno| match errno {
        Errno::ELOOP => changed_kind(place, FileType::Symlink),
        Errno::ENXIO => changed_kind(place, FileType::Socket),
        errno => Error::system("open", place.source(), errno),
    })
}

/// What an open file is like, if it is a regular one.
pub(super) fn look_at(place: &Place<'_>, fd: OwnedFd) -> Result<(OwnedFd, Stat)> {
    let stat = file::stat(&fd).map_err(|e| Error::system("examine", place.source(), e))?;
    match stat.file_type() {
        FileType::RegularFile => Ok((fd, stat)),
        other => Err(changed_kind(place, other)),
    }
}
