//! Lists directories: entries go into batches, and directories are queued to be entered.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::FileType;

use super::decide::kind_of;
use super::directory::{Directory, Open};
use super::doubled::find_doubled;
use super::entry::push;
use super::finish::end;
use super::queue::{Batch, Task};
use super::reporter::Reporter;
use super::worker::Worker;
use crate::jobs::EntryKind;
use uncopy_core::{Error, Objection, Reason};
use uncopy_os::directory;

/// Number of waiting directories above which a listing pauses, so that a million names of subdirectories
/// need not be remembered.
const MAX_WAITING: usize = 50_000;

/// Minimum number of subdirectories that a listing finds before it pauses, so that it makes
/// progress.
const MIN_FOUND: usize = 64;

/// Lists a directory from a place on.
pub(super) fn list(worker: &mut Worker<'_, '_>, directory: Arc<Directory>, from: u64) {
    match directory.open() {
        Ok(open) => list_open(worker, directory, &open, from),
        Err(error) => {
            listing_failed(&mut worker.reporter, &directory, error);
            end(worker, directory);
        }
    }
}

/// Lists an open directory: entries go into batches, directories wait to be entered.
pub(super) fn list_open(
    worker: &mut Worker<'_, '_>,
    directory: Arc<Directory>,
    open: &Arc<Open>,
    from: u64,
) {
    if from == 0 {
        find_doubled(worker.context, &mut worker.reporter, &directory, open);
    }
    let mut doubled: Vec<(OsString, FileType)> = Vec::new();
    let mut found: Vec<(OsString, bool)> = Vec::new();
    let room = MAX_WAITING.saturating_sub(worker.scheduler.waiting_directories());
    let most = room.max(MIN_FOUND);
    let mut go_on_from = None;
    let mut batch = Batch::new(&directory, open);
    let mut buffer = worker.listing.take();
    let way = (!worker.context.selects_everything()).then(|| directory.path_from_root());
    // The directory was just opened, so its position is the beginning.
    let rewound = if from == 0 { Ok(()) } else { directory::rewind_to(&open.source, from) };
    let mut entries = 0;
    let listed = rewound.and_then(|()| {
        directory::list(&open.source, &mut buffer, |entry| {
            let name = OsStr::from_bytes(entry.name.to_bytes());
            if let Some(way) = &way
                && !worker.context.selects(&way.join(name), entry.kind == FileType::Directory)
            {
                return !worker.control.is_over();
            }
            entries += 1;
            if directory.is_doubled(name) {
                doubled.push((name.to_owned(), entry.kind));
            } else if entry.kind == FileType::Directory {
                found.push((name.to_owned(), false));
            } else if batch.add(entry) {
                let full = std::mem::replace(&mut batch, Batch::new(&directory, open));
                push(worker, &directory, Task::Copy(full));
            }
            if found.len() >= most {
                go_on_from = Some(entry.next);
            }
            go_on_from.is_none() && !worker.control.is_over()
        })
    });
    worker.tally.count_found(entries);
    worker.listing.give_back(buffer);
    for (name, kind) in doubled {
        let names = (directory.source_path().join(&name), directory.destination_path().join(&name));
        let error = Error::new("make", &names.1, Reason::Refused(Objection::NameTaken));
        worker.reporter.fail_at(|| names, kind_of(kind), error);
    }
    if let Err(errno) = listed {
        let error = Error::system("list", directory.source_path(), errno);
        listing_failed(&mut worker.reporter, &directory, error);
    }
    if !batch.is_empty() {
        push(worker, &directory, Task::Copy(batch));
    }
    if let Some(from) = go_on_from {
        // The rest of the listing is queued below the found directories, so that they come first.
        let directory = Arc::clone(&directory);
        push(worker, &directory.clone(), Task::List { directory, from });
    }
    for (name, linked) in found.into_iter().rev() {
        let parent = Arc::clone(&directory);
        push(worker, &directory, Task::Enter { parent, name, linked });
    }
    end(worker, directory);
}

fn listing_failed(reporter: &mut Reporter<'_>, directory: &Arc<Directory>, error: Error) {
    directory.listing_failed.store(true, Ordering::Relaxed);
    reporter.fail_at(|| directory.names(), EntryKind::Directory, error);
}
