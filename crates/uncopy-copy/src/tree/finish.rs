//! Finishes directories when all their entries are done.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::delete::delete_strangers;
use super::directory::{Directory, Open};
use super::journal::sweep_directory;
use super::reporter::Reporter;
use super::resume::Resume;
use super::worker::Worker;
use crate::jobs::{Action, EntryKind, EntryOutcome, JobOptions};
use crate::metadata::{self, Made};
use crate::{flush, stale};
use uncopy_core::{Error, InodeFlags, Note, Result};
use uncopy_os::{file, name};

/// Counts one task of the directory as done; the last one finishes it, and perhaps its ancestors.
pub(super) fn end(worker: &mut Worker<'_, '_>, directory: Arc<Directory>) {
    let mut ended = Some(directory);
    while let Some(directory) = ended.take_if(|directory| directory.end()) {
        if !worker.control.is_over() {
            finish_directory(worker, &directory);
        }
        if directory.parent().is_some() && directory.unpin() {
            worker.budget.unpinned();
        }
        ended = directory.parent().cloned();
    }
}

/// Gives a directory its metadata when all its entries are done.
fn finish_directory(worker: &mut Worker<'_, '_>, directory: &Arc<Directory>) {
    if directory.parent().is_none() {
        // A root is finished by the worker that began it.
        return;
    }
    let finished = directory.open().and_then(|open| {
        delete_strangers(&mut worker.deleter(), directory, &open);
        let made = match directory.entered.is_ours() {
            true => Made::AsSource(worker.context.umask()),
            false => Made::Found,
        };
        if worker.context.is_guarded() {
            return flush_guarded(worker, directory, &open);
        }
        give_metadata(worker.options, worker.resume, &worker.reporter, directory, &open, made)
    });
    match finished {
        Ok(given) => {
            let outcome = made_directory(directory, given);
            worker.reporter.finish_at(|| directory.names(), EntryKind::Directory, outcome);
        }
        Err(error) => worker.reporter.fail_at(|| directory.names(), EntryKind::Directory, error),
    }
}

/// Removes leftovers from a directory that other jobs work in too, and flushes it. Its metadata is given later.
fn flush_guarded(worker: &Worker<'_, '_>, directory: &Directory, open: &Open) -> Result<Given> {
    sweep_leftovers(&worker.reporter, directory, open);
    if worker.options.copy.durable {
        name::open_directory_for_reading(&*open.destination)
            .and_then(flush::directory)
            .map_err(|e| Error::destination("flush", directory.destination_path(), e))?;
    }
    Ok(Given::default())
}

/// Removes the leftovers of killed runs from a directory of the destination.
fn sweep_leftovers(reporter: &Reporter<'_>, directory: &Directory, open: &Open) {
    let in_source = |path: &OsStr, name: &OsStr| open.source.look_up_below(path, name);
    let unproven = stale::sweep(open.destination.as_fd(), &in_source);
    let path = |name: &OsStr| directory.destination_path().join(name);
    reporter.add_unproven(unproven, path);
}

pub(super) fn give_metadata(
    options: &JobOptions,
    resume: &Resume,
    reporter: &Reporter<'_>,
    directory: &Directory,
    open: &Open,
    made: Made<'_>,
) -> Result<Given> {
    if options.dry_run {
        return Ok(Given::default());
    }
    if let Some(journal) = resume.journal() {
        let path = || directory.path_from_root();
        sweep_directory(&journal, path, open.destination.as_fd());
    }
    if !directory.entered.fresh && !directory.entered.private {
        sweep_leftovers(reporter, directory, open);
    }
    let options = &options.copy;
    let destination = open.destination.as_fd();
    let nothing = matches!(made, Made::Found) && options.given().is_nothing();
    let notes = if nothing {
        Vec::new()
    } else {
        let attributes = &open.source.attributes(options.given().preserve);
        let source = (attributes, &directory.entered.source);
        metadata::apply_to_directory(destination, source, made, options.given())
            .map_err(|lacks| lacks.error(directory.destination_path()))?
    };
    if options.durable {
        file::sync(destination)
            .map_err(|e| Error::destination("flush", directory.destination_path(), e))?;
    }
    open.source.check_connected()?;
    let looks = reporter.wants_records() || directory.entered.source.is_flagged;
    let flags_not_kept = match open.source.here().filter(|_| looks) {
        Some(source) => metadata::flags_not_kept(source.as_fd(), destination),
        None => InodeFlags::default(),
    };
    Ok(Given { notes, flags_not_kept })
}

/// Returns metadata of a directory that its copy lacks.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) notes: Vec<Note>,
    flags_not_kept: InodeFlags,
}

/// Makes the outcome of a directory that is done.
pub(super) fn made_directory(directory: &Directory, given: Given) -> EntryOutcome {
    let Given { notes, flags_not_kept } = given;
    match directory.entered.absent {
        true => EntryOutcome::Planned { action: Action::Make, mechanism: None },
        false => EntryOutcome::Made { notes, flags_not_kept },
    }
}
