//! Removes files of the source when their copies are in place: after their root is finished, so that a kill at
//! any moment leaves one whole file, and no directory is changed while it is listed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::directory::{Directory, Open, identity};
use super::place::Place;
use super::removals::{Copied, SourceState};
use super::worker::Worker;
use crate::jobs::EntryKind;
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::file::{self, Stat};
use uncopy_os::{directory, name};

/// Notes a file whose copy is made. `stat`: its status when its bytes were read; `None` if it changed meanwhile.
pub(super) fn note_copied(worker: &Worker<'_, '_>, place: &Place<'_>, stat: Option<&Stat>) {
    if !worker.options.remove_source || worker.options.dry_run {
        return;
    }
    let removals = worker.context.removals();
    let state = stat.map(SourceState::of);
    if let (Some(stat), Some(state)) = (stat, state)
        && stat.links > 1
    {
        removals.remember(state);
    }
    removals.add(place.way(), state, &*place.open.destination);
}

/// Notes that an earlier run copied a file with several names, which is in this state.
pub(super) fn note_known(worker: &Worker<'_, '_>, stat: &Stat) {
    if worker.options.remove_source {
        worker.context.removals().remember(SourceState::of(stat));
    }
}

/// Whether this job copied the file under another one of its names, and it is still in the same state.
pub(super) fn is_known(worker: &Worker<'_, '_>, stat: &Stat) -> bool {
    let known = || worker.context.removals().state_of(identity(stat));
    worker.options.remove_source && known().is_some_and(|state| state.is_of(stat))
}

/// Notes a further name of a file of which another name was copied. If that was skipped, or changed meanwhile, this one stays
/// as it does.
pub(super) fn note_linked(worker: &Worker<'_, '_>, place: &Place<'_>) {
    if !worker.options.remove_source || worker.options.dry_run {
        return;
    }
    let removals = worker.context.removals();
    let state = place.stat().ok().and_then(|stat| removals.state_of(identity(&stat)));
    if state.is_some() {
        removals.add(place.way(), state, &*place.open.destination);
    }
}

/// Removes the files that were noted, of a root whose copy has its name and is flushed if wanted.
pub(super) fn remove_copied(worker: &mut Worker<'_, '_>, root: &Directory, open: &Open) {
    let spool = worker.context.removals().take();
    if spool.is_empty() || worker.control.is_over() || !worker.tally.may_remove() {
        return;
    }
    let fail = |worker: &mut Worker<'_, '_>, path: &Path, error| {
        let names = || (root.source_path().join(path), root.destination_path().join(path));
        worker.reporter.fail_at(names, EntryKind::File, error);
    };
    // The directories of a tree are flushed with it.
    if worker.options.copy.durable
        && !root.entered.whole
        && let Err(errno) =
            name::open_directory_for_reading(&*open.destination).and_then(file::sync)
    {
        let error = Error::destination("flush the directory of", root.destination_path(), errno);
        return fail(worker, Path::new(""), error);
    }
    let mut reader = spool.into_reader();
    let mut above: Option<(PathBuf, OwnedFd)> = None;
    loop {
        match reader.read_next() {
            _ if worker.control.is_over() => return,
            Ok(None) => return,
            Ok(Some(copied)) => {
                let path = Path::new(&copied.path);
                match remove(root, open, &copied, &mut above) {
                    Ok(removed) => worker.reporter.summary().sources_removed += u64::from(removed),
                    Err(error) => fail(worker, path, error),
                }
            }
            Err(errno) => {
                let subject = root.destination_path();
                let error =
                    Error::destination("keep a list of sources to remove at", subject, errno);
                return fail(worker, Path::new(""), error);
            }
        }
    }
}

/// Forgets the files of a root that is not finished: they stay.
pub(super) fn forget(worker: &Worker<'_, '_>) {
    drop(worker.context.removals().take());
}

/// Removes a file, if its name still refers to what was copied. Returns whether it was there.
fn remove(
    root: &Directory,
    open: &Open,
    copied: &Copied,
    above: &mut Option<(PathBuf, OwnedFd)>,
) -> Result<bool> {
    let path = Path::new(&copied.path);
    let (parent, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    let subject = || root.source_path().join(path);
    let fail = |errno| Error::system("remove the source", subject(), errno);
    if above.as_ref().is_none_or(|(known, _)| known != parent) {
        let names: Vec<&OsStr> = parent.iter().collect();
        let opened =
            open.source.fd().and_then(|source| directory::open_beneath(source, &names, true));
        *above = Some((parent.to_owned(), opened.map_err(fail)?));
    }
    let Some((_, directory)) = above else { return Ok(false) };
    // The kernel may keep the state before the copy, where the source is a view of the destination.
    match directory::stat_name_anew(directory.as_fd(), name) {
        Err(Errno::ENOENT) => Ok(false),
        Err(errno) => Err(fail(errno)),
        Ok(now) if copied.state.is_some_and(|state| state.is_of(&now)) => {
            match name::unlink(directory.as_fd(), name) {
                Err(Errno::ENOENT) => Ok(false),
                other => other.map(|()| true).map_err(fail),
            }
        }
        Ok(_) => {
            let reason = Reason::Refused(Objection::SourceNotAsCopied);
            Err(Error::new("remove the source", subject(), reason))
        }
    }
}
