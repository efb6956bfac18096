//! Enters directories: makes or finds their copies.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::context::Context;
use super::decide::{kind_of, policy_of, side_of};
use super::delete::{Deleter, make_room};
use super::directory::{Directory, Entered, Open, Parent, identity, make_fillable};
use super::entry::open_linked_directory;
use super::finish::end;
use super::list::list_open;
use super::overlay;
use super::place::{Place, directory_not_opened};
use super::reporter::Reporter;
use super::retry;
use super::worker::Worker;
use crate::jobs::{Decision, EntryKind, JobOptions, Sources, decide};
use crate::source_directory::SourceDirectory;
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::directory;
use uncopy_os::file::{self, Stat};

/// Goes into a directory: makes or finds its copy, and lists it.
pub(super) fn enter(
    worker: &mut Worker<'_, '_>,
    parent: &Arc<Directory>,
    name: &OsStr,
    linked: bool,
) {
    let open = match parent.open() {
        Ok(open) => open,
        Err(error) => return fail_below(&mut worker.reporter, parent, name, error),
    };
    let place = Place::new(parent, &open, name);
    match open_pair(worker.context, &mut worker.deleter(), &place, linked) {
        Ok((entered, pair)) => {
            let parent_device = parent.entered.source.device;
            let (directory, pair) = begin(worker, parent, name, entered, pair);
            let leaves = directory.entered.source.device != parent_device;
            drop(open);
            if worker.options.one_filesystem
                && leaves
                && !worker.context.leads_to_named(&directory.path_from_root())
            {
                // As one whose source could not be listed: nothing is deleted from it.
                directory.listing_failed.store(true, Ordering::Relaxed);
                return end(worker, directory);
            }
            list_open(worker, directory, &pair, 0);
        }
        Err(error) => worker.reporter.fail(&place, EntryKind::Directory, error),
    }
}

/// Begins a pair of directories, whose first task is its listing.
pub(super) fn begin(
    worker: &mut Worker<'_, '_>,
    parent: &Arc<Directory>,
    name: &OsStr,
    entered: Entered,
    pair: Open,
) -> (Arc<Directory>, Arc<Open>) {
    let pin = if entered.linked {
        worker.budget.must_pin();
        true
    } else {
        worker.budget.may_pin()
    };
    let pair = Arc::new(pair);
    let above = Parent::Child { parent: Arc::clone(parent), name: name.to_owned() };
    // A directory is not finished before its children.
    parent.begin();
    (Arc::new(Directory::new(above, entered, &pair, pin)), pair)
}

/// An entry cannot even be looked at, because its directory cannot.
fn fail_below(reporter: &mut Reporter<'_>, parent: &Arc<Directory>, name: &OsStr, error: Error) {
    let names = || (parent.source_path().join(name), parent.destination_path().join(name));
    reporter.fail_at(names, EntryKind::Directory, error);
}

fn open_pair(
    context: &Context<'_>,
    deleter: &mut Deleter<'_, '_>,
    place: &Place<'_>,
    linked: bool,
) -> Result<(Entered, Open)> {
    let options = deleter.options;
    let fail = |operation, errno| Error::system(operation, place.source(), errno);
    let (source, stat) = retry::persist(options, deleter.control, place.open.filesystems, || {
        let source = if linked {
            open_linked_directory(options, place)?
        } else {
            let opened = place.open.source.open_child(place.name);
            opened.map_err(|errno| directory_not_opened(place, errno))?
        };
        let stat = source.stat().map_err(|errno| fail("examine", errno))?;
        Ok((source, stat))
    })?;
    check_source(context, place, &source, &stat, linked)?;
    if source.there().is_some() {
        check_depth(place, &stat)?;
    }
    let (entered, open) = pair_of(deleter, place, source, stat, linked)?;
    if (options.delete.is_some() || options.remove_source) && context.is_source(entered.destination)
    {
        return Err(holds_source(place));
    }
    Ok((entered, open))
}

fn holds_source(place: &Place<'_>) -> Error {
    let reason = Reason::Refused(Objection::HoldsSource);
    Error::new("write to", place.destination(), reason)
}

/// Whether a directory of the destination is the source of the tree: what is copied would change before or behind its turn.
fn is_source_of_tree(place: &Place<'_>, destination: &Stat) -> bool {
    let root = &place.directory.root().entered.source;
    place.open.source.stat_here(root).is_same_file(destination)
}

/// Makes or finds the copy of an open directory of the source.
pub(super) fn pair_of(
    deleter: &mut Deleter<'_, '_>,
    place: &Place<'_>,
    source: SourceDirectory,
    stat: Stat,
    linked: bool,
) -> Result<(Entered, Open)> {
    let above = &place.directory.entered;
    let destination = open_destination(deleter, place, &stat)?;
    let absent = destination.is_none();
    let fresh = destination.as_ref().is_none_or(|(fresh, _)| *fresh);
    let mut remade = false;
    let (made, destination) = match destination {
        Some((_, fd)) => {
            let fail = |operation, errno| Error::destination(operation, place.destination(), errno);
            let mut fd = fd;
            let made = file::stat(&fd).map_err(|errno| fail("examine", errno))?;
            if is_source_of_tree(place, &made) {
                return Err(holds_source(place));
            }
            if made.mount_root && source.here().is_some() {
                check_mounted(deleter.context, place, &fd)?;
            }
            if made.mount_root || made.device != above.destination.0 {
                let path = place.destination();
                deleter.context.check_shown(fd.as_fd(), made.device, &path)?;
            }
            let earlier = deleter.backups.resume.earlier();
            remade = !fresh && earlier.is_some_and(|earlier| earlier.may_have_made(&made));
            if (fresh || remade || above.is_resumed()) && !deleter.options.dry_run {
                match make_fillable(&fd, &made) {
                    Ok(opened) => fd = opened.unwrap_or(fd),
                    Err(errno) if above.is_resumed() && !fresh => {
                        return Err(fail("set the mode of", errno));
                    }
                    // Filling it shows what cannot be done.
                    Err(_) => {}
                }
            }
            (identity(&made), Some((fd, made.device == above.destination.0)))
        }
        None => (above.destination, None),
    };
    let same_source = stat.device == above.source.device;
    let open = Open::below(place.open, (source, same_source), destination);
    let private = above.private;
    if !same_source && !private {
        check_overlay(deleter.context, place, &open)?;
    }
    // Other jobs may make entries in it.
    let fresh = fresh && !deleter.context.is_guarded();
    let (source, destination, whole) = (stat, made, true);
    let entered = Entered { source, destination, fresh, remade, absent, private, whole, linked };
    Ok((entered, open))
}

/// Refuses an overlay in the source that shows the destination. Single names in it, and what is not entered, have an end.
fn check_overlay(context: &Context<'_>, place: &Place<'_>, open: &Open) -> Result<()> {
    let options = context.options();
    let is_whole = options.sources == Sources::Trees && !context.is_guarded();
    let Some(overlay) = open.overlay().filter(|_| is_whole && !options.one_filesystem) else {
        return Ok(());
    };
    let root = place.directory.root().open_destination()?;
    match overlay::shows(overlay, &root, OsStr::new(""), options.dry_run) {
        true => Err(refused_source(place, Objection::IsDestination)),
        false => Ok(()),
    }
}

fn refused_source(place: &Place<'_>, why: Objection) -> Error {
    Error::new("copy", place.source(), Reason::Refused(why))
}

/// Refuses a part of the source that is mounted in the destination.
fn check_mounted(context: &Context<'_>, place: &Place<'_>, mounted: &OwnedFd) -> Result<()> {
    let refused = context.source_places().check_mounted(mounted);
    refused.map_err(|why| Error::new("copy to", place.destination(), Reason::Refused(why)))
}

/// Refuses a source that is a destination, and a link to a directory that contains it.
pub(super) fn check_source(
    context: &Context<'_>,
    place: &Place<'_>,
    directory: &SourceDirectory,
    source: &Stat,
    linked: bool,
) -> Result<()> {
    let is_destination = context.is_destination(identity(&directory.stat_here(source)));
    if is_destination || context.is_built(place.name) {
        return Err(refused_source(place, Objection::IsDestination));
    }
    if linked && place.directory.lies_in(identity(source)) {
        return Err(refused_source(place, Objection::EndlessLink));
    }
    Ok(())
}

/// Maximum depth of a tree on another machine, which could make one up without end. Paths of 4,096 bytes (`PATH_MAX`)
/// reach no deeper.
const MAX_DEPTH_THERE: usize = 2048;

/// Maximum number of times that a directory of another machine lies in itself: bind mounts show one so, and not without end.
const MAX_TIMES_IN_ITSELF: usize = 8;

/// Refuses a directory of another machine that lies in itself without end, or deeper than any.
fn check_depth(place: &Place<'_>, source: &Stat) -> Result<()> {
    let parent = place.directory;
    if parent.times_in(identity(source)) >= MAX_TIMES_IN_ITSELF {
        return Err(Error::system("enter", place.source(), Errno::ELOOP));
    }
    if parent.depth() >= MAX_DEPTH_THERE {
        let reason = Reason::Refused(Objection::TooDeep { levels: MAX_DEPTH_THERE as u64 });
        return Err(Error::new("enter", place.source(), reason));
    }
    Ok(())
}

/// Makes or finds the destination directory. Returns `true` if it was made, and `None` if it would
/// be made, in a dry run.
fn open_destination(
    deleter: &mut Deleter<'_, '_>,
    place: &Place<'_>,
    source: &Stat,
) -> Result<Option<(bool, OwnedFd)>> {
    let fail = |operation, errno| Error::destination(operation, place.destination(), errno);
    let in_directory = &*place.open.destination;
    let above = &place.directory.entered;
    let options = deleter.options;
    let dry_run = options.dry_run;
    let mode = creation_mode(options, place.directory, source);
    let mut made = match dry_run {
        true => Err(if above.absent { Errno::ENOENT } else { Errno::EEXIST }),
        false => directory::make(in_directory, place.target, mode),
    };
    match made {
        Ok(()) => {}
        Err(Errno::ENOENT) if dry_run => return Ok(None),
        Err(Errno::EEXIST) if above.fresh => {
            return Err(Error::new(
                "make",
                place.destination(),
                Reason::Refused(Objection::NameTaken),
            ));
        }
        Err(Errno::EEXIST) => {
            let stat = match directory::stat_name(in_directory, place.target) {
                Err(Errno::ENOENT) if dry_run => return Ok(None),
                other => other.map_err(|errno| fail("examine", errno))?,
            };
            let found = side_of(kind_of(stat.file_type()), &stat);
            let directory = side_of(EntryKind::Directory, source);
            let policy = policy_of(options, above);
            match decide(directory, Some(found), policy) {
                Decision::MakeRoom => {
                    make_room(deleter, place, stat.file_type())?;
                    if dry_run {
                        return Ok(None);
                    }
                    made = directory::make(in_directory, place.target, mode);
                    made.map_err(|errno| fail("make the directory", errno))?;
                }
                Decision::Refuse(why) => {
                    let reason = Reason::Refused(why);
                    return Err(Error::new("write to", place.destination(), reason));
                }
                _ => {}
            }
        }
        Err(errno) => return Err(fail("make the directory", errno)),
    }
    let opened = directory::open_child(in_directory, place.target).or_else(|errno| match errno {
        Errno::EACCES => directory::open_child_path(in_directory, place.target),
        errno => Err(errno),
    });
    opened.map(|fd| Some((made.is_ok(), fd))).map_err(|errno| fail("open", errno))
}

/// Returns the mode of a new directory until it is finished: it has to be filled first.
fn creation_mode(options: &JobOptions, parent: &Directory, source: &Stat) -> u32 {
    let given = options.copy.given();
    let given_later = given.changes.is_some() || given.has_mode() && !parent.entered.private;
    if given_later { 0o700 } else { source.permissions() & 0o1777 | 0o700 }
}
