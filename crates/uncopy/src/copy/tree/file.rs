//! Regular files of a tree: opened in their directory, and copied by the engine that copies single
//! files, small ones by its shortest way.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::{FileType, OFlags};

use super::ask::Asked;
use super::directory::{Open, identity};
use super::enter::changed_kind;
use super::journal::{self, Finished, Journal, KeptPart};
use super::links::{Claim, First, Spot};
use super::other::{self, Linking};
use super::queue::Task;
use super::retry;
use super::run::Job;
use super::swift::Begun;
use super::transform::transforms;
use super::watch::Watch;
use super::worker::{Devices, Place, Worker};
use crate::capabilities::Filesystem;
use crate::copy::born::Siblings;
use crate::copy::compress::Chosen;
use crate::copy::destination::{Destination, Found};
use crate::copy::job::{EntryKind, Links, Outcome};
use crate::copy::mechanism::Ends;
use crate::copy::metadata;
use crate::copy::named::{Late, Named};
use crate::copy::observer::{self, Phase, Progress};
use crate::copy::small::{self, Small};
use crate::copy::source::{self, Source};
use crate::copy::staging::{Commit, Placing, Staging};
use crate::copy::stale::Noting;
use crate::copy::{CopyOptions, IfChanged, Transform, facts, partial, run};
use crate::error::{Errno, Error, Reason, Result};
use crate::receipt::{Cost, InodeFlags, Mechanism, Portion, Receipt};
use crate::sys::directory;
use crate::sys::file::{self, Stat};
use crate::sys::follow::{self, Stopped};
use crate::sys::name;

/// How what a symbolic link leads to is opened: no FIFO is waited for.
const FOLLOWED: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl Worker<'_, '_> {
    /// Copies an entry that was listed as `kind`, and is no directory.
    pub(super) fn copy_entry(&mut self, place: &Place<'_>, kind: FileType) {
        let kind = match kind {
            FileType::Unknown => match directory::stat_name(&place.open.source, place.name) {
                Ok(stat) => stat.file_type(),
                Err(errno) => {
                    let error = Error::system("examine", place.source(), errno);
                    return self.fail(place, EntryKind::File, error);
                }
            },
            known => known,
        };
        match kind {
            FileType::RegularFile | FileType::Unknown => self.open_and_copy(place),
            FileType::Symlink => match self.job.options.links {
                Links::Preserve => self.make_symlink(place),
                Links::Follow => self.follow(place),
                Links::Skip => {
                    let reason = "it is a symbolic link (--links=skip)";
                    self.finish(place, EntryKind::Symlink, Outcome::Skipped { reason });
                }
            },
            FileType::Directory => self.go_into(place, false),
            _ => self.make_special(place),
        }
    }

    /// A directory that was not listed as one, or that a link leads to.
    fn go_into(&mut self, place: &Place<'_>, linked: bool) {
        let (parent, name) = (Arc::clone(place.directory), place.name.to_owned());
        self.push(place.directory, Task::Enter { parent, name, linked });
    }

    fn open_and_copy(&mut self, place: &Place<'_>) {
        let (job, mut begun) = (self.job, None);
        let opened = retry::persist(job, place.open.filesystems, || {
            let fd = open_regular(place)?;
            begun = self.begin(place, &fd);
            look_at(place, fd)
        });
        match opened {
            Ok((fd, stat)) => self.copy_open(place, (fd, stat), begun),
            Err(error) => self.fail(place, EntryKind::File, error),
        }
    }

    /// Copies what a symbolic link leads to.
    fn follow(&mut self, place: &Place<'_>) {
        let opened = self.open_link(place).and_then(|fd| {
            let stat = file::stat(&fd).map_err(|e| Error::system("examine", place.source(), e))?;
            Ok((fd, stat))
        });
        match opened {
            Ok((_, stat)) if stat.file_type() == FileType::Directory => self.go_into(place, true),
            Ok((fd, stat)) if stat.file_type() == FileType::RegularFile => {
                self.copy_open(place, (fd, stat), None);
            }
            Ok((_, stat)) => {
                let error = changed_kind(place, stat.file_type());
                self.fail(place, EntryKind::Symlink, error);
            }
            Err(error) => self.fail(place, EntryKind::Symlink, error),
        }
    }

    /// Opens what a symbolic link leads to: in the tree, unless more is allowed.
    pub(super) fn open_link(&self, place: &Place<'_>) -> Result<OwnedFd> {
        if self.job.options.follow_outside {
            return follow::open_at(&place.open.source, place.name, FOLLOWED, 0)
                .map_err(|stopped| stopped.error("follow", place.source()));
        }
        let (root, path) = place.directory.way_from_root()?;
        let path: OsString = path.join(place.name).into();
        follow::open_beneath(&root.source, &path, FOLLOWED).map_err(|stopped| match stopped {
            Stopped::System(Errno::EXDEV) => Error::new(
                "follow",
                place.source(),
                Reason::Refused(
                    "it leads out of the tree, or by an absolute path; pass --follow-outside to \
                     follow it all the same"
                        .into(),
                ),
            ),
            stopped => stopped.error("follow", place.source()),
        })
    }

    /// Copies an open regular file, or makes a link to its copy. If it was `begun`, what was read of it is
    /// in the buffer.
    pub(super) fn copy_open(
        &mut self,
        place: &Place<'_>,
        (fd, stat): (OwnedFd, Stat),
        begun: Option<Begun<'_>>,
    ) {
        let transforms = self.job.options.copy.transform != Transform::None;
        let begun = (!transforms && stat.links <= 1).then_some(begun);
        let is_done = begun.is_some_and(|begun| self.copy_swiftly(place, (&fd, &stat), begun));
        if !is_done {
            self.with_choice(place, fd, stat, Worker::copy_or_link);
        }
    }

    fn copy_or_link(
        &mut self,
        place: &Place<'_>,
        (fd, stat): (OwnedFd, Stat),
        chosen: Option<&Chosen>,
    ) {
        if stat.links <= 1 {
            return self.copy_regular(place, (fd, stat), chosen, None);
        }
        let seen = stat.clone();
        self.first_or_link(place, EntryKind::File, &seen, |worker| {
            worker.copy_regular(place, (fd, stat), chosen, None);
        });
    }

    /// Has `make` copy an entry of this kind, unless another name of it is copied already, or is being
    /// copied: then it becomes a link to that.
    pub(super) fn first_or_link(
        &mut self,
        place: &Place<'_>,
        kind: EntryKind,
        stat: &Stat,
        make: impl FnOnce(&mut Self),
    ) {
        if stat.links <= 1 {
            return make(self);
        }
        let file = identity(stat);
        let prior = match self.job.links.claim(file, || place.spot()) {
            Ok(Claim::First(prior)) => prior,
            Ok(Claim::Waits) => return place.directory.begin(),
            Ok(Claim::Copied(first)) => return self.link_to(place, kind, &first),
            Err(error) => return self.fail(place, kind, error),
        };
        let here = First::new(place);
        let prior = prior.filter(|p| p.path != here.path && self.was_copied(place, &p.path, stat));
        let failed = self.summary.failed + self.summary.skipped;
        match &prior {
            Some(first) => self.link_to(place, kind, first),
            None => make(self),
        }
        if self.summary.failed + self.summary.skipped > failed {
            // One of the names that wait is the first now.
            for spot in self.job.links.failed(file) {
                self.copy_spot(&spot, kind);
            }
            return;
        }
        let first = prior.unwrap_or(here);
        let (waiting, noted) = self.job.links.copied(file, stat.links, &first);
        for spot in waiting {
            self.link_spot(&spot, kind, &first);
        }
        if let Err(error) = noted {
            self.fail(place, kind, error);
        }
    }

    /// An earlier run copied this file to `path` in the root, and neither has changed since.
    fn was_copied(&self, place: &Place<'_>, path: &Path, source: &Stat) -> bool {
        let Some(journal) = self.job.journal() else { return false };
        let above: Vec<&OsStr> = path.parent().map_or(Vec::new(), |above| above.iter().collect());
        let copy = path.file_name().ok_or(Errno::EINVAL).and_then(|name| {
            let (root, _) = place.directory.way_from_root().map_err(|_| Errno::ESTALE)?;
            let directory = directory::open_beneath(&*root.destination, &above, true)?;
            directory::stat_name(directory, name)
        });
        copy.is_ok_and(|copy| journal.has(&journal::done(path, source, &copy)))
    }

    /// Copies a name that waited, in vain, for another one of its file.
    fn copy_spot(&mut self, spot: &Spot, kind: EntryKind) {
        match spot.directory.open() {
            _ if self.job.is_over() => self.job.leave_out(1),
            Ok(open) => {
                let (name, target) = (&spot.name, &spot.target);
                let place = Place { directory: &spot.directory, open: &open, name, target };
                self.copy_entry(&place, FileType::Unknown);
            }
            Err(error) => self.fail_at(|| spot.names(), kind, error),
        }
        self.close_workshop();
        self.end(Arc::clone(&spot.directory));
    }

    /// Makes a name that waited for another one of its file.
    fn link_spot(&mut self, spot: &Spot, kind: EntryKind, first: &First) {
        match spot.directory.open() {
            _ if self.job.is_over() => self.job.leave_out(1),
            Ok(open) => {
                let (name, target) = (&spot.name, &spot.target);
                let place = Place { directory: &spot.directory, open: &open, name, target };
                self.link_to(&place, kind, first);
            }
            Err(error) => self.fail_at(|| spot.names(), kind, error),
        }
        self.close_workshop();
        self.end(Arc::clone(&spot.directory));
    }

    /// Makes a name of the destination another one of a file that this job copied.
    fn link_to(&mut self, place: &Place<'_>, kind: EntryKind, first: &First) {
        // Names decide too what is compressed: links to a file that went another way do not help.
        let transform = self.job.options.copy.transform;
        let alike = transform == Transform::None || first.renamed == place.is_renamed();
        let refused = match alike.then(|| self.make_hard_link(place, kind, first)) {
            Some(Ok(Linking::Done(outcome))) => return self.finish(place, kind, outcome),
            Some(Ok(Linking::Refused(errno))) => Some(errno),
            Some(Err(error)) => return self.fail(place, kind, error),
            None => None,
        };
        if kind != EntryKind::File {
            return self.make_instead_of_link(place, kind, refused);
        }
        match open_file(place) {
            Ok((fd, stat)) => self.with_choice(place, fd, stat, |worker, place, opened, chosen| {
                worker.copy_regular(place, opened, chosen, refused);
            }),
            Err(error) => self.fail(place, EntryKind::File, error),
        }
    }

    /// Copies an open regular file, whatever other names it has, and if the filesystem `refused` a
    /// link instead.
    fn copy_regular(
        &mut self,
        place: &Place<'_>,
        (fd, stat): (OwnedFd, Stat),
        chosen: Option<&Chosen>,
        refused: Option<Errno>,
    ) {
        let journal = self.job.journal();
        let before = journal.is_some().then(|| stat.clone());
        if let (Some(journal), Some(before)) = (&journal, &before) {
            match self.is_done(journal, place, (&fd, before)) {
                Ok(false) => {}
                Ok(true) => return self.finish(place, EntryKind::File, Outcome::Resumed),
                Err(error) => return self.fail(place, EntryKind::File, error),
            }
        }
        let (job, mut opened, mut done) = (self.job, Some((fd, stat)), None);
        let options = job.copy_options(&place.directory.entered);
        let find = (|| place.source(), || place.destination());
        let (from, to) = (Late::new(&find.0), Late::new(&find.1));
        let path = || place.directory.path_from_root();
        let copied = retry::repeated(job, place.open.filesystems, |flushes| {
            let (fd, stat) = opened.take().map_or_else(|| open_file(place), Ok)?;
            let filesystem = filesystem_of(place.open, &place.directory.entered.source, &fd, &stat);
            let source = Source::opened(Named::Late(&from), fd, stat, filesystem);
            let source = source.watched(options, flushes);
            let found = match self.ask(place, EntryKind::File, source.stat.modified)? {
                Asked::Go { found, .. } => found,
                Asked::Done(outcome) => {
                    done = Some(with_mechanism(outcome, place, &source, chosen, options));
                    return Ok(Receipt::default());
                }
            };
            let destination = find_destination(place, (Named::Late(&to), found), &source, options)?;
            if !transforms(chosen)
                && let Some(receipt) = self.copy_small(place, &source, &destination)?
            {
                let compression = chosen.map(|chosen| chosen.compression.clone());
                return Ok(Receipt { compression, ..receipt });
            }
            // Of what is transformed another run cannot go on in the middle.
            let journal = journal.as_ref().filter(|_| !transforms(chosen));
            let placing = placing(job, place, &source, (journal, place.directory.noting(&path)));
            let watch = &mut Watch::new(job);
            run::copy_opened(&source, &destination, placing, chosen, options, watch)
        });
        if let Some(outcome) = done {
            return self.finish(place, EntryKind::File, outcome);
        }
        match copied {
            Ok(receipt) if receipt.skipped => {
                let reason = "the destination exists";
                self.finish(place, EntryKind::File, Outcome::Skipped { reason });
            }
            Ok(mut receipt) => {
                receipt.notes.extend(refused.map(other::copied_for));
                if let Some(portion) = receipt.portions.last() {
                    job.note_mechanism(portion.mechanism);
                }
                if is_toil(&receipt) {
                    self.note_toil();
                }
                if let (Some(journal), Some(before)) = (journal, before) {
                    self.note(&journal, place, &before, receipt.bytes);
                }
                self.finish_copied(place, receipt);
            }
            Err(error) => self.fail_file(place, error),
        }
    }

    /// A file was not copied, and may have its name all the same: it could not be removed.
    fn fail_file(&mut self, place: &Place<'_>, error: Error) {
        let is_unseen = place.directory.entered.is_unseen();
        if is_unseen && directory::stat_name(&*place.open.destination, place.target).is_ok() {
            self.job.leave_remnants();
        }
        self.fail(place, EntryKind::File, error);
    }

    /// An earlier run copied this file, and neither side has changed since.
    fn is_done(
        &self,
        journal: &Journal,
        place: &Place<'_>,
        (source, stat): (&OwnedFd, &Stat),
    ) -> Result<bool> {
        let directory = place.open.destination.as_fd();
        let is_noted = journal.is_continued()
            && directory::stat_name(directory, place.target)
                .is_ok_and(|copy| journal.has(&journal::done(&place.way(), stat, &copy)));
        // In a tree that nobody sees yet it gets its temporary name back.
        if is_noted || stat.size < partial::LEAST_BYTES || place.directory.entered.private {
            return Ok(is_noted);
        }
        let (opened, name) = ((source.as_fd(), stat), (directory, place.target));
        let mut watch = Watch::new(self.job);
        let is_ended = journal::is_ended(journal, &place.way(), opened, name, |done_bytes| {
            let (phase, total_bytes) = (Phase::Verifying, stat.size);
            let progress = Progress { phase, done_bytes, total_bytes };
            observer::tell(&mut watch, progress, place.source())
        })?;
        if is_ended {
            self.note(journal, place, stat, stat.size);
        }
        Ok(is_ended)
    }

    /// Notes a finished file in the journal.
    fn note(&self, journal: &Journal, place: &Place<'_>, source: &Stat, bytes: u64) {
        let destination = place.open.destination.as_fd();
        let noted = directory::stat_name(destination, place.target).and_then(|copy| {
            let (path, copy, directory) = (&place.way(), &copy, destination);
            journal.add(&Finished { path, source, copy, bytes, directory })
        });
        if let Err(errno) = noted {
            let error = Error::destination("write the journal for", place.destination(), errno);
            self.job.stop(error);
        }
    }

    /// Copies a file the small way; `None`: it is not small, or something about it is odd.
    fn copy_small(
        &mut self,
        place: &Place<'_>,
        source: &Source<'_>,
        destination: &Destination<'_>,
    ) -> Result<Option<Receipt>> {
        let options = self.job.copy_options(&place.directory.entered);
        let filesystems = (source.filesystem, place.open.filesystems.1);
        let directory = &place.directory;
        if destination.found.is_some() || !small::is_small(&source.stat, filesystems, options) {
            return Ok(None);
        }
        let (job, size) = (self.job, source.stat.size);
        if job.throttle.as_ref().is_some_and(|throttle| size > throttle.piece_bytes()) {
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
        let mut staging = staging.among(siblings(job, place), mode);
        let devices =
            Devices { source: source.stat.device, destination: directory.entered.destination.0 };
        let ends = Ends { source: source.fd(), destination: staging.fd() };
        self.settle_small_unless(devices);
        let read = (&mut *self.buffer, None);
        let way = self.small.way(devices, filesystems, options);
        let copied = way.copy(ends, &source.stat, options, read, || job.admits(size));
        let (mechanism, cost, mapped_writes) = match copied {
            Small::Copied(mechanism, cost, mapped_writes) => (mechanism, cost, mapped_writes),
            Small::StoredInto if options.if_changed != IfChanged::Accept => {
                return Err(source::stored_into(place.source()));
            }
            Small::StoredInto | Small::Odd => return Ok(None),
        };
        let mut notes = metadata::apply(&staging, source, destination, options.preserve);
        if staging.commit()? == Commit::Skipped {
            return Ok(Some(Receipt { skipped: true, ..Receipt::default() }));
        }
        notes.extend(staging.give_last(options.durable)?);
        self.job.counters.bytes.fetch_add(size, Ordering::Relaxed);
        let flags = match self.wants_records || source.stat.is_flagged {
            true => metadata::flags_not_kept(source.fd(), staging.fd()),
            false => InodeFlags::default(),
        };
        let receipt = self.small_receipt((size, mechanism, cost), (notes, flags));
        Ok(Some(Receipt { mapped_writes, ..receipt }))
    }
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
    match journal.filter(|_| source.size().is_some_and(|size| size >= partial::LEAST_BYTES)) {
        Some(journal) => {
            let keep = KeptPart::new(job, journal, &place.way(), &source.stat);
            let ended = place.directory.entered.private.then_some(place.target);
            let begun = keep.begun(place.open.destination.as_fd(), ended);
            Placing::Kept { keep: Box::new(keep), begun, is_unseen, is_swept }
        }
        None if is_unseen => Placing::Private { siblings: siblings(job, place) },
        None => Placing::Aside { is_swept, siblings: siblings(job, place), noting },
    }
}

/// Copying it took more than sharing blocks does.
fn is_toil(receipt: &Receipt) -> bool {
    /// A hundred times what it usually takes.
    const LONG: Duration = Duration::from_millis(5);
    let is_shared = |portion: &Portion| matches!(portion.cost, Cost::Shared | Cost::Hole);
    receipt.duration >= LONG || !receipt.portions.iter().all(is_shared)
}

/// The new files of the directory that a copy goes to.
pub(super) fn siblings<'a>(job: &'a Job<'a>, place: &Place<'a>) -> Siblings<'a> {
    Siblings { born: &place.directory.born, umask: &job.umask }
}

/// The destination of a file. Nothing is taken over from what is no regular file.
fn find_destination<'a>(
    place: &Place<'a>,
    (given, found): (Named<'a>, Option<Found>),
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
    outcome: Outcome,
    place: &Place<'_>,
    source: &Source<'_>,
    chosen: Option<&Chosen>,
    options: &CopyOptions,
) -> Outcome {
    match outcome {
        Outcome::Planned { action, .. } if transforms(chosen) => {
            Outcome::Planned { action, mechanism: Some(Mechanism::ReadWrite) }
        }
        Outcome::Planned { action, .. } => {
            let same_device = source.stat.device == place.directory.entered.destination.0;
            let filesystem = place.open.filesystems.1;
            let mechanism = facts::foreseen(source, filesystem, same_device, options);
            Outcome::Planned { action, mechanism }
        }
        other => other,
    }
}

/// Opens a regular file of a directory, and nothing else.
fn open_file(place: &Place<'_>) -> Result<(OwnedFd, Stat)> {
    look_at(place, open_regular(place)?)
}

/// Opens what is to be a regular file.
fn open_regular(place: &Place<'_>) -> Result<OwnedFd> {
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
fn look_at(place: &Place<'_>, fd: OwnedFd) -> Result<(OwnedFd, Stat)> {
    let stat = file::stat(&fd).map_err(|e| Error::system("examine", place.source(), e))?;
    match stat.file_type() {
        FileType::RegularFile => Ok((fd, stat)),
        other => Err(changed_kind(place, other)),
    }
}

/// A file on the device of its directory lies on its filesystem.
pub(super) fn filesystem_of(
    open: &Open,
    directory: &Stat,
    fd: &OwnedFd,
    stat: &Stat,
) -> Filesystem {
    if stat.device == directory.device {
        return open.filesystems.0;
    }
    Filesystem::from_magic(file::filesystem_magic(fd).unwrap_or(0))
}
