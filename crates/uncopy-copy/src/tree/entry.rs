//! Entries of a directory: each goes the way of its kind, and the names of one file become names of one
//! copy.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};

use super::directory::{Directory, identity};
use super::file::{copy_regular, look_at, open_file, open_regular};
use super::finish::end;
use super::journal;
use super::links::{Claim, First, Spot};
use super::other::{Linking, look_at_other, make_hard_link, make_other};
use super::place::{Place, changed_kind};
use super::queue::{Batch, Task};
use super::retry;
use super::step::Step;
use super::swift::{Begun, begin, copy_swiftly};
use super::transform::with_choice;
use crate::Skip;
use crate::Transform;
use crate::compress::Chosen;
use crate::jobs::{EntryKind, EntryOutcome, Links};
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::directory;
use uncopy_os::file::{self, Stat};
use uncopy_os::follow::{self, FollowError};

/// How what a symbolic link leads to is opened: no FIFO is waited for.
const FOLLOWED: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Hands a task to whoever is free; a batch is copied at once if enough of them wait.
pub(super) fn push(step: &mut Step<'_, '_>, directory: &Arc<Directory>, task: Task) {
    if let Err(batch) = step.push(directory, task) {
        copy_batch(step, batch);
    }
}

/// Copies some entries of a directory that are no directories.
pub(super) fn copy_batch(step: &mut Step<'_, '_>, mut batch: Batch) {
    batch.sort();
    for (name, kind) in batch.entries() {
        if step.job().is_over() {
            step.job().leave_out(1);
            continue;
        }
        let (directory, open) = (&batch.directory, &batch.open);
        copy_entry(step, &Place { directory, open, name, target: name }, kind);
    }
    let Batch { directory, open, .. } = batch;
    drop(open);
    step.close_workshop();
    end(step, directory);
}

/// Copies an entry that was listed as `kind`, and is no directory.
pub(super) fn copy_entry(step: &mut Step<'_, '_>, place: &Place<'_>, kind: FileType) {
    let kind = match kind {
        FileType::Unknown => match directory::stat_name(&place.open.source, place.name) {
            Ok(stat) => stat.file_type(),
            Err(errno) => {
                let error = Error::system("examine", place.source(), errno);
                return step.fail(place, EntryKind::File, error);
            }
        },
        known => known,
    };
    match kind {
        FileType::RegularFile | FileType::Unknown => open_and_copy(step, place),
        FileType::Symlink => match step.job().options().links {
            Links::Preserve => make_symlink(step, place),
            Links::Follow => follow(step, place),
            Links::Skip => {
                let reason = Skip::SymbolicLink;
                step.finish(place, EntryKind::Symlink, EntryOutcome::Skipped { reason });
            }
        },
        FileType::Directory => go_into(step, place, false),
        _ => make_special(step, place),
    }
}

/// A directory that was not listed as one, or that a link leads to.
fn go_into(step: &mut Step<'_, '_>, place: &Place<'_>, linked: bool) {
    let (parent, name) = (Arc::clone(place.directory), place.name.to_owned());
    push(step, place.directory, Task::Enter { parent, name, linked });
}

fn open_and_copy(step: &mut Step<'_, '_>, place: &Place<'_>) {
    let (job, mut begun) = (step.job(), None);
    let opened = retry::persist(job, place.open.filesystems, || {
        let fd = open_regular(place)?;
        begun = begin(step, place, &fd);
        look_at(place, fd)
    });
    match opened {
        Ok((fd, stat)) => copy_open(step, place, (fd, stat), begun),
        Err(error) => step.fail(place, EntryKind::File, error),
    }
}

/// Copies what a symbolic link leads to.
fn follow(step: &mut Step<'_, '_>, place: &Place<'_>) {
    let opened = open_link(step, place).and_then(|fd| {
        let stat = file::stat(&fd).map_err(|e| Error::system("examine", place.source(), e))?;
        Ok((fd, stat))
    });
    match opened {
        Ok((_, stat)) if stat.file_type() == FileType::Directory => go_into(step, place, true),
        Ok((fd, stat)) if stat.file_type() == FileType::RegularFile => {
            copy_open(step, place, (fd, stat), None);
        }
        Ok((_, stat)) => {
            let error = changed_kind(place, stat.file_type());
            step.fail(place, EntryKind::Symlink, error);
        }
        Err(error) => step.fail(place, EntryKind::Symlink, error),
    }
}

/// Opens what a symbolic link leads to: in the tree, unless more is allowed.
pub(super) fn open_link(step: &Step<'_, '_>, place: &Place<'_>) -> Result<OwnedFd> {
    if step.job().options().follow_outside {
        return follow::open_at(&place.open.source, place.name, FOLLOWED, 0)
            .map_err(|stopped| stopped.error("follow", place.source()));
    }
    let (root, path) = place.directory.way_from_root()?;
    let path: OsString = path.join(place.name).into();
    follow::open_beneath(&root.source, &path, FOLLOWED).map_err(|stopped| match stopped {
        FollowError::System(Errno::EXDEV) => {
            Error::new("follow", place.source(), Reason::Refused(Objection::LeadsOutside))
        }
        stopped => stopped.error("follow", place.source()),
    })
}

/// Copies an open regular file, or makes a link to its copy. If it was `begun`, what was read of it is
/// in the buffer.
pub(super) fn copy_open(
    step: &mut Step<'_, '_>,
    place: &Place<'_>,
    (fd, stat): (OwnedFd, Stat),
    begun: Option<Begun<'_>>,
) {
    let transforms = step.job().options().copy.transform != Transform::None;
    let begun = (!transforms && stat.links <= 1).then_some(begun);
    let is_done = begun.is_some_and(|begun| copy_swiftly(step, place, (&fd, &stat), begun));
    if !is_done {
        with_choice(step, place, fd, stat, copy_or_link);
    }
}

fn copy_or_link(
    step: &mut Step<'_, '_>,
    place: &Place<'_>,
    (fd, stat): (OwnedFd, Stat),
    chosen: Option<&Chosen>,
) {
    if stat.links <= 1 {
        return copy_regular(step, place, (fd, stat), chosen, None);
    }
    let seen = stat.clone();
    first_or_link(step, place, EntryKind::File, &seen, |step| {
        copy_regular(step, place, (fd, stat), chosen, None);
    });
}

/// Has `make` copy an entry of this kind, unless another name of it is copied already, or is being
/// copied: then it becomes a link to that.
fn first_or_link(
    step: &mut Step<'_, '_>,
    place: &Place<'_>,
    kind: EntryKind,
    stat: &Stat,
    make: impl FnOnce(&mut Step<'_, '_>),
) {
    if stat.links <= 1 {
        return make(step);
    }
    let file = identity(stat);
    let prior = match step.job().links().claim(file, || Spot::new(place)) {
        Ok(Claim::First(prior)) => prior,
        Ok(Claim::Waits) => return place.directory.begin(),
        Ok(Claim::Copied(first)) => return link_to(step, place, kind, &first),
        Err(error) => return step.fail(place, kind, error),
    };
    let here = First::new(place);
    let prior = prior.filter(|p| p.path != here.path && was_copied(step, place, &p.path, stat));
    let not_copied = step.not_copied();
    match &prior {
        Some(first) => link_to(step, place, kind, first),
        None => make(step),
    }
    if step.not_copied() > not_copied {
        // One of the names that wait is the first now.
        for spot in step.job().links().failed(file) {
            go_on_at(step, &spot, kind, |step, place| {
                copy_entry(step, place, FileType::Unknown);
            });
        }
        return;
    }
    let first = prior.unwrap_or(here);
    let (waiting, noted) = step.job().links().copied(file, stat.links, &first);
    for spot in waiting {
        go_on_at(step, &spot, kind, |step, place| link_to(step, place, kind, &first));
    }
    if let Err(error) = noted {
        step.fail(place, kind, error);
    }
}

/// An earlier run copied this file to `path` in the root, and neither has changed since.
fn was_copied(step: &Step<'_, '_>, place: &Place<'_>, path: &Path, source: &Stat) -> bool {
    let Some(journal) = step.job().resume().journal() else { return false };
    let above: Vec<&OsStr> = path.parent().map_or(Vec::new(), |above| above.iter().collect());
    let copy = path.file_name().ok_or(Errno::EINVAL).and_then(|name| {
        let (root, _) = place.directory.way_from_root().map_err(|_| Errno::ESTALE)?;
        let directory = directory::open_beneath(&*root.destination, &above, true)?;
        directory::stat_name(directory, name)
    });
    copy.is_ok_and(|copy| journal.has(&journal::done(path, source, &copy)))
}

/// Goes on with a name that waited for another one of its file.
fn go_on_at(
    step: &mut Step<'_, '_>,
    spot: &Spot,
    kind: EntryKind,
    make: impl FnOnce(&mut Step<'_, '_>, &Place<'_>),
) {
    match spot.directory.open() {
        _ if step.job().is_over() => step.job().leave_out(1),
        Ok(open) => {
            let (name, target) = (&spot.name, &spot.target);
            make(step, &Place { directory: &spot.directory, open: &open, name, target });
        }
        Err(error) => step.fail_at(|| spot.names(), kind, error),
    }
    step.close_workshop();
    end(step, Arc::clone(&spot.directory));
}

/// Makes a name of the destination another one of a file that this job copied.
fn link_to(step: &mut Step<'_, '_>, place: &Place<'_>, kind: EntryKind, first: &First) {
    // Names decide too what is compressed: links to a file that went another way do not help.
    let transform = step.job().options().copy.transform;
    let alike = transform == Transform::None || first.renamed == place.is_renamed();
    let refused = match alike.then(|| make_hard_link(step, place, kind, first)) {
        Some(Ok(Linking::Done(outcome))) => return step.finish(place, kind, outcome),
        Some(Ok(Linking::Refused(errno))) => Some(errno),
        Some(Err(error)) => return step.fail(place, kind, error),
        None => None,
    };
    if kind != EntryKind::File {
        return make_instead_of_link(step, place, kind, refused);
    }
    match open_file(place) {
        Ok((fd, stat)) => with_choice(step, place, fd, stat, |step, place, opened, chosen| {
            copy_regular(step, place, opened, chosen, refused);
        }),
        Err(error) => step.fail(place, EntryKind::File, error),
    }
}

/// Makes a symbolic link that leads where the source's does.
fn make_symlink(step: &mut Step<'_, '_>, place: &Place<'_>) {
    make_or_link_other(step, place, EntryKind::Symlink);
}

/// Makes a FIFO, socket or device file like the source's.
fn make_special(step: &mut Step<'_, '_>, place: &Place<'_>) {
    if !step.job().options().specials {
        let outcome = EntryOutcome::Skipped { reason: Skip::Special };
        return step.finish(place, EntryKind::Special, outcome);
    }
    make_or_link_other(step, place, EntryKind::Special);
}

fn make_or_link_other(step: &mut Step<'_, '_>, place: &Place<'_>, kind: EntryKind) {
    match look_at_other(place, kind) {
        Ok(stat) => first_or_link(step, place, kind, &stat, |step| {
            make_other(step, place, kind, &stat, None);
        }),
        Err(error) => step.fail(place, kind, error),
    }
}

/// Makes what another name could not be a link to.
fn make_instead_of_link(
    step: &mut Step<'_, '_>,
    place: &Place<'_>,
    kind: EntryKind,
    refused: Option<Errno>,
) {
    match look_at_other(place, kind) {
        Ok(stat) => make_other(step, place, kind, &stat, refused),
        Err(error) => step.fail(place, kind, error),
    }
}
