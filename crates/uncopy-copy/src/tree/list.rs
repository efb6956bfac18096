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
use super::folding::{Folding, folding};
use super::queue::{Batch, Task};
use super::reporter::Reporter;
use super::worker::Worker;
use crate::jobs::EntryKind;
use crate::ledger_name::is_ledger;
use crate::peer::{PeerContents, PeerEntry, PeerFailedEntry};
use crate::peer_directory::{ListedThere, PeerDirectory};
use crate::source_directory::SourceDirectory;
use uncopy_core::{Error, Objection, Reason};
use uncopy_os::Sys;
use uncopy_os::directory::{self, Entry};

/// Number of waiting directories above which a listing pauses, so that a million names of subdirectories
/// need not be remembered.
const MAX_WAITING: usize = 50_000;

/// Minimum number of subdirectories that a listing finds before it pauses, so that it makes
/// progress.
const MIN_FOUND: usize = 64;

/// Maximum length of files whose contents come with the listing of another machine.
const MAX_LISTED_CONTENTS: u32 = 64 << 10;

/// Entry of a listing.
enum ListedEntry<'a> {
    Here(Entry<'a>),
    There(PeerEntry),
}

/// Finding of a listing.
enum Found<'a> {
    Entry(ListedEntry<'a>),
    /// The other machine could not look at it.
    Failed(PeerFailedEntry),
}

impl ListedEntry<'_> {
    /// Returns its name, its kind, and the place of the next one.
    fn facts(&self) -> (&OsStr, FileType, u64) {
        match self {
            ListedEntry::Here(entry) => {
                (OsStr::from_bytes(entry.name.to_bytes()), entry.kind, entry.next)
            }
            // The other machine remembers the place.
            ListedEntry::There(entry) => (&entry.name, entry.stat.file_type(), 1),
        }
    }

    /// Adds it to a batch; `true`: the batch is full.
    fn add_to(self, batch: &mut Batch) -> bool {
        match self {
            ListedEntry::Here(entry) => batch.add(entry),
            ListedEntry::There(entry) => batch.add_there(entry),
        }
    }
}

/// Passes on the entries of a directory of another machine until `take` returns `false`. Returns whether all were
/// passed on.
fn list_there(
    source: &PeerDirectory,
    contents: PeerContents,
    mut take: impl FnMut(Found<'_>) -> bool,
) -> Sys<bool> {
    while let Some(listed) = source.next(contents)? {
        let found = match listed {
            ListedThere::Seen(entry) => Found::Entry(ListedEntry::There(entry)),
            ListedThere::Failed(entry) => Found::Failed(entry),
        };
        if !take(found) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns what is to come with the listing of another machine: nothing where something else may have to be found out
/// before entries are copied, or a rate is to be kept.
fn listed_contents(worker: &Worker<'_, '_>, directory: &Directory) -> PeerContents {
    let entered = &directory.entered;
    match entered.fresh && !entered.absent {
        true => copied_contents(worker),
        false => PeerContents::default(),
    }
}

/// Returns the same for entries that are going to be copied.
pub(super) fn copied_contents(worker: &Worker<'_, '_>) -> PeerContents {
    let options = worker.options;
    let are_copied = !options.dry_run
        && !options.copy.attributes_only
        && options.link_dest.is_none()
        && worker.context.throttle().is_none();
    let preserve = options.copy.preserve;
    match are_copied {
        true => PeerContents {
            up_to: MAX_LISTED_CONTENTS,
            with_attributes: preserve.xattr || preserve.acl,
        },
        false => PeerContents::default(),
    }
}

/// Lists a directory from a place on.
pub(super) fn list(
    worker: &mut Worker<'_, '_>,
    directory: Arc<Directory>,
    from: u64,
    open: Option<Arc<Open>>,
) {
    match open.map_or_else(|| directory.open(), Ok) {
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
    if let Some(source) = open.source.there().filter(|_| from == 0)
        && (worker.options.delete.is_some() || directory.entered.is_resumed())
        && folding(open) != Folding::No
    {
        source.keep_names();
    }
    let contents = listed_contents(worker, &directory);
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
    let mut entries = 0;
    let mut take = |found_entry: Found<'_>| {
        let entry = match found_entry {
            Found::Entry(entry) => entry,
            Found::Failed(failed) => {
                if way
                    .as_ref()
                    .is_none_or(|way| worker.context.selects(&way.join(&failed.name), false))
                {
                    entries += 1;
                    fail_entry(&mut worker.reporter, &directory, &failed);
                }
                return !worker.control.is_over();
            }
        };
        let (name, kind, next) = entry.facts();
        if is_ledger(name, kind == FileType::Directory) {
            return !worker.control.is_over();
        }
        if let Some(way) = &way
            && !worker.context.selects(&way.join(name), kind == FileType::Directory)
        {
            return !worker.control.is_over();
        }
        entries += 1;
        if directory.is_doubled(name) {
            doubled.push((name.to_owned(), kind));
        } else if kind == FileType::Directory {
            found.push((name.to_owned(), false));
        } else if entry.add_to(&mut batch) {
            let full = std::mem::replace(&mut batch, Batch::new(&directory, open));
            push(worker, &directory, Task::Copy(full));
        }
        if found.len() >= most {
            go_on_from = Some(next);
        }
        go_on_from.is_none() && !worker.control.is_over()
    };
    let listed = match &open.source {
        SourceDirectory::Here(source) => {
            // The directory was just opened, so its position is the beginning.
            let rewound = if from == 0 { Ok(()) } else { directory::rewind_to(source, from) };
            rewound.and_then(|()| {
                directory::list(source, &mut buffer, |entry| {
                    take(Found::Entry(ListedEntry::Here(entry)))
                })
            })
        }
        SourceDirectory::There(source) => list_there(source, contents, take),
    };
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
        let open = open.source.there().map(|_| Arc::clone(open));
        push(worker, &directory.clone(), Task::List { directory, from, open });
    }
    for (name, linked) in found.into_iter().rev() {
        let parent = Arc::clone(&directory);
        push(worker, &directory, Task::Enter { parent, name, linked });
    }
    end(worker, directory);
}

/// Reports an entry that the other machine could not look at.
fn fail_entry(reporter: &mut Reporter<'_>, directory: &Arc<Directory>, failed: &PeerFailedEntry) {
    let PeerFailedEntry { name, errno } = failed;
    let names = || (directory.source_path().join(name), directory.destination_path().join(name));
    let error = Error::system("examine", directory.source_path().join(name), *errno);
    reporter.fail_at(names, EntryKind::File, error);
}

fn listing_failed(reporter: &mut Reporter<'_>, directory: &Arc<Directory>, error: Error) {
    directory.listing_failed.store(true, Ordering::Relaxed);
    reporter.fail_at(|| directory.names(), EntryKind::Directory, error);
}
