//! Deletes entries of the destination that the source does not have (mirroring).
//!
//! Each entry of a finished destination is looked up in its source, so that no list of either has
//! to be kept.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::fs::FileType;

use super::backups::Backups;
use super::budget::Budget;
use super::context::Context;
use super::decide::{DeletionVerdict, kind_of, stranger};
use super::directory::{Directory, Open, identity};
use super::folding::{Mirrored, NotCompared, stood_for};
use super::job_control::JobControl;
use super::last_answer::LastAnswer;
use super::listing_buffer::ListingBuffer;
use super::place::Place;
use super::reporter::Reporter;
use super::visit::visit;
use crate::Skip;
use crate::compress::other_origin;
use crate::jobs::{Action, Delete, EntryKind, EntryOutcome, JobOptions};
use crate::ledger_name::is_ledger;
use crate::{remove, stale};
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::{Sys, directory, name};

/// Parts of a worker that deleting uses.
pub(super) struct Deleter<'w, 'env> {
    pub(super) context: &'env Context<'env>,
    pub(super) options: &'env JobOptions,
    pub(super) budget: &'env Budget,
    pub(super) control: &'env JobControl<'env>,
    pub(super) backups: Backups<'env>,
    pub(super) reporter: &'w mut Reporter<'env>,
    pub(super) listing: &'w mut ListingBuffer,
    pub(super) answer: &'w mut LastAnswer,
}

/// Removes what a directory of the destination has and its source has not.
pub(super) fn delete_strangers(deleter: &mut Deleter<'_, '_>, directory: &Directory, open: &Open) {
    let entered = &directory.entered;
    let delete = match &deleter.options.delete {
        // Leftovers of a killed run are no part of the tree.
        _ if entered.is_resumed() => Delete { most: None, empty_source: true },
        Some(delete) => delete.clone(),
        None => return,
    };
    // A new directory has no other entries; and nothing is known about a source that was not
    // listed.
    let leaves = deleter.options.one_filesystem
        && entered.destination.0 != directory.root().entered.destination.0;
    if entered.fresh
        || leaves
        || directory.listing_failed.load(Ordering::Relaxed)
        || deleter.control.is_over()
    {
        return;
    }
    let checked =
        check_removed(directory, open).and_then(|()| check_empty(directory, open, &delete));
    if let Err(error) = checked {
        return fail_directory(deleter.reporter, directory, error);
    }
    let mut from = Some(0);
    while let Some(place) = from.take().filter(|_| !deleter.control.is_over()) {
        let mut buffer = deleter.listing.take();
        let listed =
            strangers(directory, open, place, deleter.options, deleter.control, &mut buffer);
        deleter.listing.give_back(buffer);
        match listed {
            Ok(found) => {
                let names = found.strangers.iter().map(|(name, _)| name.as_os_str());
                let transform = deleter.options.copy.transform;
                let mut unknown = found.unknown;
                match stood_for(&Mirrored { open, transform }, names) {
                    Ok(kept) => {
                        for (name, kind) in &found.strangers {
                            match kept.contains(name.as_os_str()) {
                                true => keep_folded(deleter.reporter, directory, name, *kind),
                                false => delete_one(deleter, directory, open, &delete, name, *kind),
                            }
                        }
                    }
                    Err(NotCompared::Source(errno)) => unknown = Some(errno),
                    Err(NotCompared::Destination(errno)) => {
                        let path = directory.destination_path();
                        let error = Error::destination("look up names in", path, errno);
                        fail_directory(deleter.reporter, directory, error);
                    }
                }
                if let Some(errno) = unknown {
                    let path = directory.destination_path();
                    let error = Error::system("look up in the source what is in", path, errno);
                    fail_directory(deleter.reporter, directory, error);
                }
                from = found.next;
            }
            Err(errno) => {
                // A directory that this user may not read was opened to be entered alone (`O_PATH`).
                let errno = if errno == Errno::EBADF { Errno::EACCES } else { errno };
                let error = Error::destination("list", directory.destination_path(), errno);
                fail_directory(deleter.reporter, directory, error);
            }
        }
    }
}

/// Reports an entry whose name is spelled differently in the source.
fn keep_folded(reporter: &mut Reporter<'_>, directory: &Directory, name: &OsStr, kind: FileType) {
    let names = (directory.source_path().join(name), directory.destination_path().join(name));
    let outcome = EntryOutcome::Skipped { reason: Skip::FoldedName };
    reporter.finish_at(|| names, kind_of(kind), outcome);
}

fn delete_one(
    deleter: &mut Deleter<'_, '_>,
    directory: &Directory,
    open: &Open,
    delete: &Delete,
    name: &OsStr,
    kind: FileType,
) {
    let entry = kind_of(kind);
    // The claim is kept until the entry is removed: a run may have made it since it was listed.
    let claim = stale::claim(open.destination.as_fd(), name);
    if claim.is_none() && !directory.entered.is_resumed() {
        return;
    }
    match try_delete(deleter, directory, open, delete, name, kind) {
        Ok(outcome) => {
            let source = directory.source_path().join(name);
            let destination = directory.destination_path().join(name);
            deleter.reporter.finish_at(|| (source, destination), entry, outcome);
        }
        Err(error) => fail_stranger(deleter.reporter, directory, name, entry, error),
    }
}

/// Removes the existing entry of a source entry's name if it is of another kind: a leftover of a
/// killed run, or an entry that mirroring would delete anyway.
pub(super) fn make_room(
    deleter: &mut Deleter<'_, '_>,
    place: &Place<'_>,
    kind: FileType,
) -> Result<()> {
    let Place { directory, open, target, .. } = *place;
    let names = || (place.source(), place.destination());
    let Some(delete) = deleter.options.delete.as_ref().filter(|_| !directory.entered.private)
    else {
        return remove_stale(place, kind);
    };
    let refuse = |why| Err(Error::new("replace", place.destination(), Reason::Refused(why)));
    let Some(_claim) = stale::claim(open.destination.as_fd(), target) else {
        return refuse(Objection::AtWork);
    };
    let is_directory = kind == FileType::Directory;
    let way = directory.path_from_root().join(target);
    if !deleter.options.selection.selects(&way, is_directory) {
        return refuse(Objection::OtherKindExcluded);
    }
    match try_delete(deleter, directory, open, delete, target, kind)? {
        EntryOutcome::Skipped { .. } => refuse(Objection::KeepsExcluded),
        outcome => {
            deleter.reporter.finish_at(names, kind_of(kind), outcome);
            Ok(())
        }
    }
}

fn try_delete(
    deleter: &Deleter<'_, '_>,
    directory: &Directory,
    open: &Open,
    delete: &Delete,
    name: &OsStr,
    kind: FileType,
) -> Result<EntryOutcome> {
    let path = directory.destination_path().join(name);
    let fail = |errno| Error::destination("delete", &path, errno);
    let parent = open.destination.as_fd();
    let way = directory.path_from_root().join(name);
    let selection = &deleter.options.selection;
    let resumed = directory.entered.is_resumed();
    let refuse = |path, why| Err(Error::new("delete", path, Reason::Refused(why)));
    let mut entries = 1;
    if kind == FileType::Directory {
        let found = directory::stat_name(parent, name);
        let (device, mut left_out) = (directory.entered.destination.0, false);
        let is_source = |directory| deleter.context.is_source(directory);
        let mut holds_source = found.is_ok_and(|stat| is_source(identity(&stat)));
        let count = |inside: &Path, inode: u64, is_directory: bool| {
            entries += 1;
            holds_source |= is_directory && is_source((device, inode));
            left_out |= !resumed && !selection.selects(&way.join(inside), is_directory);
        };
        let mounted = visit(parent, name, count).map_err(fail)?;
        if holds_source {
            return refuse(path, Objection::HoldsSource);
        }
        if let Some(mounted) = mounted {
            let path = if mounted.as_os_str().is_empty() { path } else { path.join(mounted) };
            return refuse(path, Objection::HoldsMount);
        }
        if left_out {
            return Ok(EntryOutcome::Skipped { reason: Skip::HoldsExcluded });
        }
    } else if directory::stat_name(parent, name).is_ok_and(|stat| stat.mount_root) {
        return refuse(path, Objection::HoldsMount);
    }
    if !deleter.budget.may_delete(entries, delete.most) {
        return refuse(path, Objection::TooManyDeleted);
    }
    if deleter.options.dry_run {
        return Ok(EntryOutcome::Planned { action: Action::Delete { entries }, mechanism: None });
    }
    let removed = match kind {
        FileType::Directory => remove::tree(parent, name),
        _ => name::unlink(parent, name),
    };
    match removed {
        Ok(()) | Err(Errno::ENOENT) => Ok(EntryOutcome::Deleted { entries }),
        Err(errno) => Err(fail(errno)),
    }
}

fn fail_stranger(
    reporter: &mut Reporter<'_>,
    directory: &Directory,
    name: &OsStr,
    kind: EntryKind,
    error: Error,
) {
    let names = || (directory.source_path().join(name), directory.destination_path().join(name));
    reporter.fail_at(names, kind, error);
}

fn fail_directory(reporter: &mut Reporter<'_>, directory: &Directory, error: Error) {
    reporter.fail_at(|| directory.names(), EntryKind::Directory, error);
}

/// Removes the copy that a killed run made of an entry whose kind has changed since.
fn remove_stale(place: &Place<'_>, kind: FileType) -> Result<()> {
    let from = &*place.open.destination;
    let removed = match kind {
        FileType::Directory => remove::tree(from, place.target),
        _ => name::unlink(from, place.target),
    };
    removed
        .map_err(|errno| Error::destination("remove what was begun of", place.destination(), errno))
}

/// An empty root may be a filesystem that is not mounted.
fn check_empty(directory: &Directory, open: &Open, delete: &Delete) -> Result<()> {
    if directory.parent().is_some() || delete.empty_source {
        return Ok(());
    }
    let fail = |errno| Error::system("list", directory.source_path(), errno);
    let is_empty = open.source.is_empty().map_err(fail)?;
    if !is_empty {
        return Ok(());
    }
    let reason = Reason::Refused(Objection::EmptySource);
    Err(Error::new("delete from", directory.destination_path(), reason))
}

/// A removed directory has no entries, so every entry of the destination would be deleted.
fn check_removed(directory: &Directory, open: &Open) -> Result<()> {
    let stat = open
        .source
        .examine()
        .map_err(|errno| Error::system("examine", directory.source_path(), errno))?;
    if stat.links > 0 {
        return Ok(());
    }
    let reason = Reason::Refused(Objection::SourceRemoved);
    Err(Error::new("delete from", directory.destination_path(), reason))
}

/// Result of one part of a listing.
#[derive(Default)]
struct StrangerList {
    /// Entries to delete.
    strangers: Vec<(OsString, FileType)>,
    /// Error of an entry that stays because its source could not be looked up.
    unknown: Option<Errno>,
    /// Position at which the listing continues.
    next: Option<u64>,
}

/// Maximum number of entries remembered at a time.
const MAX_STRANGERS: usize = 4096;

/// Returns the entries of the destination to delete, from a position of its listing on.
fn strangers(
    directory: &Directory,
    open: &Open,
    from: u64,
    options: &JobOptions,
    control: &JobControl<'_>,
    buffer: &mut [MaybeUninit<u8>],
) -> Sys<StrangerList> {
    let selection = &options.selection;
    let transform = options.copy.transform;
    let way = directory.path_from_root();
    let resumed = directory.entered.is_resumed();
    let mut found = StrangerList::default();
    directory::rewind_to(&*open.destination, from)?;
    directory::list(&*open.destination, buffer, |entry| {
        let name = OsStr::from_bytes(entry.name.to_bytes());
        let kind = entry.kind;
        let is_directory = kind == FileType::Directory;
        if is_ledger(name, is_directory) {
            return !control.is_over();
        }
        let selects = |name: &OsStr| selection.selects(&way.join(name), is_directory);
        let look_up = |name: &OsStr| open.source.look_up(name);
        // The entry may be the copy of a file that was compressed or decompressed.
        let other = other_origin(name, transform).filter(|_| !is_directory);
        // Leftovers of a killed run are selected, whatever they are called.
        let selected = || resumed || selects(name) && other.as_deref().is_none_or(selects);
        let in_source = match (look_up(name), &other) {
            (Err(Errno::ENOENT), Some(other)) => look_up(other),
            (looked_up, _) => looked_up,
        };
        let at_work = || !resumed && stale::claim(open.destination.as_fd(), name).is_none();
        match stranger(in_source, selected, at_work) {
            DeletionVerdict::Goes => found.strangers.push((name.to_owned(), kind)),
            DeletionVerdict::Stays => {}
            DeletionVerdict::Unknown(errno) => found.unknown = Some(errno),
        }
        found.next = (found.strangers.len() >= MAX_STRANGERS).then_some(entry.next);
        found.next.is_none() && !control.is_over()
    })?;
    Ok(found)
}
