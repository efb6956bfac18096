//! Copies the entries of a directory by their kinds, and makes hard links of further names of a
//! file.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};

use super::admission::{earlier_name, find};
use super::decide::{is_special, kind_of};
use super::directory::{Directory, identity};
use super::early_start::{self, EarlyStart};
use super::file::{copy_regular, examine, open_file, open_regular};
use super::finish::end;
use super::journal;
use super::links::{Claim, First, OwnedPlace};
use super::other::{
    Linking, is_replaced, look_at_other, make_hard_link, make_link_to_source, make_other,
};
use super::place::{OpenFile, Place, changed_kind};
use super::queue::{Batch, Task};
use super::removal;
use super::resume::Resume;
use super::retry;
use super::transform;
use super::worker::Worker;
use crate::Skip;
use crate::Transform;
use crate::jobs::{EntryKind, EntryOutcome, HardLinks, JobOptions, Links};
use crate::peer_directory::PeerDirectory;
use crate::peer_file::PeerFile;
use crate::peer_link::PeerObject;
use crate::source_directory::SourceDirectory;
use crate::source_file::SourceFile;
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::directory;
use uncopy_os::file::{self, Stat};
use uncopy_os::follow::{self, FollowError};
use uncopy_os::name;

/// Flags for opening the target of a symbolic link; opening a FIFO does not block.
const FOLLOWED: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Queues a task for another worker; if enough batches wait, a batch is copied at once.
pub(super) fn push(worker: &mut Worker<'_, '_>, directory: &Arc<Directory>, task: Task) {
    if let Err(batch) = worker.scheduler.push(directory, task) {
        copy_batch(worker, batch);
    }
}

/// Copies some entries of a directory that are no directories.
pub(super) fn copy_batch(worker: &mut Worker<'_, '_>, mut batch: Batch) {
    batch.sort();
    for (name, kind, listed) in batch.entries() {
        if worker.control.is_over() {
            worker.control.leave_out(1);
            continue;
        }
        let (directory, open) = (&batch.directory, &batch.open);
        copy_entry(worker, &Place { directory, open, name, target: name, listed }, kind);
    }
    let Batch { directory, open, .. } = batch;
    drop(open);
    worker.close_workshop();
    end(worker, directory);
}

/// Copies an entry that was listed as `kind`, and is no directory.
pub(super) fn copy_entry(worker: &mut Worker<'_, '_>, place: &Place<'_>, kind: FileType) {
    let kind = match kind {
        FileType::Unknown => match place.stat() {
            Ok(stat) => stat.file_type(),
            Err(errno) => {
                let error = Error::system("examine", place.source(), errno);
                return worker.reporter.fail(place, EntryKind::File, error);
            }
        },
        known => known,
    };
    match kind {
        FileType::Directory => go_into(worker, place, false),
        FileType::Symlink if worker.options.links == Links::Follow => follow(worker, place),
        _ if worker.options.link => link_source(worker, place, kind_of(kind)),
        FileType::RegularFile | FileType::Unknown => open_and_copy(worker, place),
        FileType::Symlink => match worker.options.links {
            Links::Preserve | Links::Follow => make_symlink(worker, place),
            Links::Skip => {
                let reason = Skip::SymbolicLink;
                worker.reporter.finish(place, EntryKind::Symlink, EntryOutcome::Skipped { reason });
            }
        },
        _ => make_special(worker, place),
    }
}

/// Handles a directory that was not listed as one, or that a link leads to.
fn go_into(worker: &mut Worker<'_, '_>, place: &Place<'_>, linked: bool) {
    let (parent, name) = (Arc::clone(place.directory), place.name.to_owned());
    push(worker, place.directory, Task::Enter { parent, name, linked });
}

fn open_and_copy(worker: &mut Worker<'_, '_>, place: &Place<'_>) {
    let (options, control, mut early) = (worker.options, worker.control, None);
    if let (Some(directory), Some(entry)) = (place.open.source.there(), place.listed) {
        // It is opened when its bytes are wanted.
        let file = SourceFile::There(PeerFile::listed(directory, entry));
        return copy_open(worker, place, OpenFile { file, stat: entry.stat.clone() }, None);
    }
    let opened = retry::persist(options, control, place.open.filesystems, || {
        let Some(source) = place.open.source.here() else { return open_file(place) };
        let fd = open_regular(source, place)?;
        early = early_start::begin(worker, place, &fd);
        examine(place, fd)
    });
    match opened {
        Ok(file) => copy_open(worker, place, file, early),
        Err(error) => worker.reporter.fail(place, EntryKind::File, error),
    }
}

/// Copies the target of a symbolic link.
fn follow(worker: &mut Worker<'_, '_>, place: &Place<'_>) {
    let opened = open_link(worker.options, place);
    match opened {
        Ok(Followed { stat, .. }) if stat.file_type() == FileType::Directory => {
            go_into(worker, place, true);
        }
        Ok(Followed { file: Some(file), stat }) if stat.file_type() == FileType::RegularFile => {
            copy_open(worker, place, OpenFile { file, stat }, None);
        }
        Ok(Followed { file: Some(file), stat }) if is_special(stat.file_type()) => {
            make_followed_special(worker, place, OpenFile { file, stat });
        }
        Ok(Followed { stat, .. }) => {
            let error = changed_kind(place, stat.file_type());
            worker.reporter.fail(place, EntryKind::Symlink, error);
        }
        Err(error) => worker.reporter.fail(place, EntryKind::Symlink, error),
    }
}

/// Target of a symbolic link.
struct Followed {
    /// The open file; `None`: it is a directory.
    file: Option<SourceFile>,
    stat: Stat,
}

/// Opens the target of a symbolic link, which is in the tree unless the options allow more.
fn open_link(options: &JobOptions, place: &Place<'_>) -> Result<Followed> {
    match &place.open.source {
        SourceDirectory::Here(source) => {
            let fd = open_link_here(options, source, place)?;
            let stat = file::stat(&fd).map_err(|e| Error::system("examine", place.source(), e))?;
            Ok(Followed { file: Some(SourceFile::Here(fd)), stat })
        }
        SourceDirectory::There(directory) => {
            let (object, stat) = open_link_there(directory, place)?;
            let is_directory = stat.file_type() == FileType::Directory;
            let opened = (!is_directory).then(|| (object, stat.clone()));
            let file = opened.map(|opened| {
                SourceFile::There(PeerFile::opened(directory, place.name.to_owned(), opened))
            });
            Ok(Followed { file, stat })
        }
    }
}

/// Opens the directory that a symbolic link leads to, in the same way.
pub(super) fn open_linked_directory(
    options: &JobOptions,
    place: &Place<'_>,
) -> Result<SourceDirectory> {
    match &place.open.source {
        SourceDirectory::Here(source) => {
            Ok(SourceDirectory::Here(open_link_here(options, source, place)?))
        }
        SourceDirectory::There(directory) => {
            let (object, stat) = open_link_there(directory, place)?;
            match stat.file_type() {
                FileType::Directory => {
                    let opened = PeerDirectory::of_opened(object, stat);
                    Ok(SourceDirectory::There(Arc::new(opened)))
                }
                other => Err(changed_kind(place, other)),
            }
        }
    }
}

/// Opens it on this machine.
fn open_link_here(options: &JobOptions, source: &OwnedFd, place: &Place<'_>) -> Result<OwnedFd> {
    if options.follow_outside {
        return follow::open_at(source, place.name, FOLLOWED, 0)
            .map_err(|stopped| stopped.error("follow", place.source()));
    }
    let (root, path) = place.directory.way_from_root()?;
    let path: OsString = path.join(place.name).into();
    let root = root.source.fd().map_err(|e| Error::system("follow", place.source(), e))?;
    follow::open_beneath(root, &path, FOLLOWED).map_err(|stopped| not_followed(place, stopped))
}

/// Opens it on another machine, which decides what lies in the tree.
fn open_link_there(directory: &PeerDirectory, place: &Place<'_>) -> Result<(PeerObject, Stat)> {
    directory.follow(place.name).map_err(|stopped| not_followed(place, stopped))
}

fn not_followed(place: &Place<'_>, stopped: FollowError) -> Error {
    match stopped {
        FollowError::System(Errno::EXDEV) => {
            Error::new("follow", place.source(), Reason::Refused(Objection::LeadsOutside))
        }
        stopped => stopped.error("follow", place.source()),
    }
}

/// Copies an open regular file, or makes a link to the copy of another of its names.
pub(super) fn copy_open(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    file: OpenFile,
    early: Option<EarlyStart<'_>>,
) {
    if worker.options.link {
        return link_open_source(worker, place, EntryKind::File, &file);
    }
    let (file, chosen) = match transform::choose(worker.context, place, file) {
        Ok(chosen) => chosen,
        Err(error) => return worker.reporter.fail(place, EntryKind::File, error),
    };
    let (place, chosen) = (&transform::renamed(place, chosen.as_ref()), chosen.as_ref());
    if !keeps_names(worker, &file.stat) {
        return copy_regular(worker, place, file, chosen, early, None);
    }
    drop(early);
    let seen = file.stat.clone();
    first_or_link(worker, place, EntryKind::File, &seen, |worker| {
        copy_regular(worker, place, file, chosen, None, None);
    });
}

/// Makes a further name of a file of the source.
fn link_source(worker: &mut Worker<'_, '_>, place: &Place<'_>, kind: EntryKind) {
    let from = &place.open.source;
    let made = from
        .stat_name(place.name)
        .map_err(|errno| Error::system("examine", place.source(), errno))
        .and_then(|stat| {
            make_link_to_source(worker, place, kind, &stat, |to, name| {
                directory::hard_link(from.fd()?, place.name, to, name)
            })
        });
    worker.reporter.finish_or_fail(place, kind, made);
}

/// Makes a further name of an open file that a link of the source leads to.
fn link_open_source(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    kind: EntryKind,
    file: &OpenFile,
) {
    let made = make_link_to_source(worker, place, kind, &file.stat, |to, name| {
        name::link_unnamed(file.file.fd()?, to, name)
    });
    worker.reporter.finish_or_fail(place, kind, made);
}

/// Whether the entry has further names, which are to be names of its copy, or had them until this job removed them.
fn keeps_names(worker: &Worker<'_, '_>, stat: &Stat) -> bool {
    let has_others = || stat.links > 1 || removal::is_known(worker, stat);
    worker.options.hard_links == HardLinks::Keep && has_others()
}

/// Has `make` copy an entry of this kind, unless another name of it is copied already, or is being
/// copied: then it becomes a link to that.
fn first_or_link(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    kind: EntryKind,
    stat: &Stat,
    make: impl FnOnce(&mut Worker<'_, '_>),
) {
    if !keeps_names(worker, stat) {
        return make(worker);
    }
    let file = identity(stat);
    let is_gone = |first: &First| !first.is_in_root_of(place) && is_replaced(first);
    let prior = match worker.links.claim(file, || OwnedPlace::new(place), is_gone) {
        Ok(Claim::First(prior)) => prior,
        Ok(Claim::Waits) => return place.directory.begin(),
        Ok(Claim::Copied(first)) => return link_to(worker, place, kind, &first),
        Err(error) => return worker.reporter.fail(place, kind, error),
    };
    let here = First::new(place);
    let prior =
        prior.filter(|p| p.path != here.path && was_copied(worker.resume, place, &p.path, stat));
    let earlier = || earlier_name(worker.context, place, stat);
    let prior = prior.or_else(|| earlier().map(|path| First { path, ..here.clone() }));
    let (not_copied, up_to_date) = (worker.reporter.not_copied(), worker.reporter.up_to_date());
    match &prior {
        Some(first) => {
            removal::note_known(worker, stat);
            link_to(worker, place, kind, first);
        }
        None => make(worker),
    }
    // The entry that a skipped one was skipped for may be newer, and of another kind.
    let is_other = || {
        let copy = directory::stat_name(&*place.open.destination, place.target);
        let is_newer = |copy: &Stat| worker.options.update && copy.modified > stat.modified;
        !copy.is_ok_and(|copy| copy.file_type() == stat.file_type() && !is_newer(&copy))
    };
    let is_left = worker.reporter.not_copied() > not_copied && !is_placed(worker, place, stat);
    if is_left || (worker.reporter.up_to_date() > up_to_date && is_other()) {
        // One of the waiting names becomes the first.
        for waiting in worker.links.failed(file) {
            go_on_at(worker, &waiting, kind, |worker, place| {
                copy_entry(worker, place, FileType::Unknown);
            });
        }
        return;
    }
    let first = prior.unwrap_or_else(|| First {
        copy: directory::stat_name(&*place.open.destination, place.target)
            .ok()
            .map(|copy| copy.id()),
        ..here
    });
    // A link that is followed leads to a name once more.
    let follows = worker.options.links == Links::Follow;
    let names = if follows { u32::MAX } else { stat.links };
    let (waiting, noted) = worker.links.copied(file, names, &first);
    for waiting in waiting {
        go_on_at(worker, &waiting, kind, |worker, place| link_to(worker, place, kind, &first));
    }
    if let Err(error) = noted {
        worker.reporter.fail(place, kind, error);
    }
}

/// Whether the entry that has the name was placed by an earlier run, which did not note it.
fn is_placed(worker: &mut Worker<'_, '_>, place: &Place<'_>, source: &Stat) -> bool {
    let backups = worker.deleter().backups;
    find(place).is_ok_and(|found| found.is_some_and(|f| backups.has_placed(place, source, &f)))
}

/// Whether an earlier run copied this file to `path` in the root, and neither has changed since.
fn was_copied(resume: &Resume, place: &Place<'_>, path: &Path, source: &Stat) -> bool {
    let Some(journal) = resume.journal() else { return false };
    let above: Vec<&OsStr> = path.parent().map_or(Vec::new(), |above| above.iter().collect());
    let copy = path.file_name().ok_or(Errno::EINVAL).and_then(|name| {
        let (root, _) = place.directory.way_from_root().map_err(|_| Errno::ESTALE)?;
        let directory = directory::open_beneath(&*root.destination, &above, true)?;
        directory::stat_name(directory, name)
    });
    copy.is_ok_and(|copy| journal.has(&journal::done(path, source, &copy)))
}

/// Handles a name that waited for another one of its file.
fn go_on_at(
    worker: &mut Worker<'_, '_>,
    waiting: &OwnedPlace,
    kind: EntryKind,
    make: impl FnOnce(&mut Worker<'_, '_>, &Place<'_>),
) {
    match waiting.directory.open() {
        _ if worker.control.is_over() => worker.control.leave_out(1),
        Ok(open) => {
            let (name, target) = (&waiting.name, &waiting.target);
            let directory = &waiting.directory;
            make(worker, &Place { directory, open: &open, name, target, listed: None });
        }
        Err(error) => worker.reporter.fail_at(|| waiting.names(), kind, error),
    }
    worker.close_workshop();
    end(worker, Arc::clone(&waiting.directory));
}

/// Makes a hard link in the destination to a file that this job copied.
fn link_to(worker: &mut Worker<'_, '_>, place: &Place<'_>, kind: EntryKind, first: &First) {
    // Names also decide what is compressed, so a link to a file that was treated otherwise would be
    // wrong.
    let transform = worker.options.copy.transform;
    let alike = transform == Transform::None || first.renamed == place.is_renamed();
    // A file that exists keeps its bytes, which a link to another one would take away. What a killed run made has none.
    let is_made = |worker: &mut Worker<'_, '_>| {
        place.directory.entered.private
            || place.stat().is_ok_and(|stat| is_placed(worker, place, &stat))
    };
    let keeps_bytes = kind == EntryKind::File
        && worker.options.copy.attributes_only
        && directory::stat_name(&*place.open.destination, place.target).is_ok()
        && !is_made(worker);
    let refused = match (alike && !keeps_bytes)
        .then(|| make_hard_link(worker.context, &mut worker.deleter(), place, kind, first))
    {
        Some(Ok(Linking::Done(outcome))) => {
            if kind == EntryKind::File && matches!(outcome, EntryOutcome::Linked { .. }) {
                removal::note_linked(worker, place);
            }
            return worker.reporter.finish(place, kind, outcome);
        }
        Some(Ok(Linking::Refused(errno))) => errno,
        Some(Err(error)) => return worker.reporter.fail(place, kind, error),
        None => None,
    };
    if kind != EntryKind::File {
        return make_instead_of_link(worker, place, kind, refused);
    }
    let opened = open_file(place).and_then(|file| transform::choose(worker.context, place, file));
    match opened {
        Ok((file, chosen)) => {
            let place = &transform::renamed(place, chosen.as_ref());
            copy_regular(worker, place, file, chosen.as_ref(), None, refused);
        }
        Err(error) => worker.reporter.fail(place, EntryKind::File, error),
    }
}

/// Makes a symbolic link that leads where the source's does.
fn make_symlink(worker: &mut Worker<'_, '_>, place: &Place<'_>) {
    make_or_link_other(worker, place, EntryKind::Symlink);
}

/// Makes a FIFO, socket or device file like the source's.
fn make_special(worker: &mut Worker<'_, '_>, place: &Place<'_>) {
    if !worker.options.specials {
        let outcome = EntryOutcome::Skipped { reason: Skip::Special };
        return worker.reporter.finish(place, EntryKind::Special, outcome);
    }
    make_or_link_other(worker, place, EntryKind::Special);
}

/// Makes a FIFO or device file like the one that a link of the source leads to.
pub(super) fn make_followed_special(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    found: OpenFile,
) {
    let kind = EntryKind::Special;
    if worker.options.link {
        return link_open_source(worker, place, kind, &found);
    }
    if !worker.options.specials {
        let outcome = EntryOutcome::Skipped { reason: Skip::Special };
        return worker.reporter.finish(place, kind, outcome);
    }
    let OpenFile { stat, .. } = found;
    first_or_link(worker, place, kind, &stat, |worker| {
        make_other(worker, place, kind, &stat, None);
    });
}

fn make_or_link_other(worker: &mut Worker<'_, '_>, place: &Place<'_>, kind: EntryKind) {
    match look_at_other(place, kind) {
        Ok(stat) => first_or_link(worker, place, kind, &stat, |worker| {
            make_other(worker, place, kind, &stat, None);
        }),
        Err(error) => worker.reporter.fail(place, kind, error),
    }
}

/// Copies a name that could not be made a hard link.
fn make_instead_of_link(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    kind: EntryKind,
    refused: Option<Errno>,
) {
    match look_at_other(place, kind) {
        Ok(stat) => make_other(worker, place, kind, &stat, refused),
        Err(error) => worker.reporter.fail(place, kind, error),
    }
}
