//! Copies sources that keep directories of their paths: all names of a job that lead down from one pair of directories
//! are one tree, whose directories are entered once, below open descriptors, and finished when all their names are
//! done.

mod ahead;
mod plan;

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};

use super::decide::{is_special, kind_of};
use super::directory::{Directory, Entered, Open, Parent, identity};
use super::earlier;
use super::enter::{begin, check_source, pair_of};
use super::entry::{copy_open, make_followed_special, push};
use super::finish::{end, give_metadata};
use super::list::{copied_contents, list_open};
use super::overlay;
use super::place::{OpenFile, Place, changed_kind, directory_not_opened};
use super::queue::{Batch, Task};
use super::removal::{self, remove_copied};
use super::root::refuse_pair;
use super::target::names_directory;
use super::worker::Worker;
use super::worker_loop::WorkerLoop;
use crate::entries_ahead::EntriesAhead;
use crate::guard::Guard;
use crate::guarded_entries::GuardedEntries;
use crate::guarded_source::GuardedSource;
use crate::jobs::{EntryKind, JobOptions, Links, Sources};
use crate::metadata::Made;
use crate::peer::PeerNamed;
use crate::source::refuse_entry;
use crate::source_directory::SourceDirectory;
use crate::source_file::SourceFile;
use crate::stale::Register;
use crate::{facts, stale};
use plan::{GivenSource, Node, Plan, Top};
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::directory::{self, Entry};
use uncopy_os::file::{self, Stat};
use uncopy_os::follow::{self, FollowError, FollowResult};
use uncopy_os::name;

/// Copies all sources of the job.
pub(super) fn copy(
    worker_loop: &mut WorkerLoop<'_, '_>,
    pairs: &[(PathBuf, PathBuf)],
    refused: &HashMap<usize, Error>,
) {
    let mut plan = Plan::default();
    for (index, (source, destination)) in pairs.iter().enumerate() {
        if let Some(error) = refused.get(&index) {
            refuse_pair(worker_loop, source, destination, error);
            continue;
        }
        let worker = worker_loop.worker();
        let added = look_at(worker.options, source).and_then(|(kind, named)| {
            plan.add(source, destination, &worker.options.parents, named)
                .map_err(|error| (kind, error))
        });
        if let Err((kind, error)) = added {
            let path = || (source.clone(), destination.clone());
            worker.reporter.fail_at(path, kind, error);
        }
    }
    for (top, root) in plan.into_trees() {
        copy_tree(worker_loop, &top, None, root);
    }
}

/// Copies entries that are listed with their kinds, below one pair of directories.
pub(super) fn copy_listed(worker_loop: &mut WorkerLoop<'_, '_>, listed: GuardedEntries<'_>) {
    let mut plan = Plan::default();
    let GuardedEntries { source, destination, entries, .. } = listed;
    for (entry, kind) in entries {
        let file_type = match kind {
            EntryKind::File => FileType::RegularFile,
            EntryKind::Directory => FileType::Directory,
            EntryKind::Symlink => FileType::Symlink,
            EntryKind::Special => FileType::Fifo,
        };
        let named = GivenSource { kind: file_type, followed: false };
        let path = || (source.join(entry), destination.join(entry));
        match entry.components().all(|part| matches!(part, Component::Normal(_))) {
            true => plan.add_listed(source, destination, entry, named),
            false => {
                let error = not_below(&source.join(entry));
                worker_loop.worker().reporter.fail_at(path, *kind, error);
            }
        }
    }
    for (top, root) in plan.into_trees() {
        copy_tree(worker_loop, &top, Some(listed), root);
    }
}

/// Examines a source before anything is made for it.
fn look_at(
    options: &JobOptions,
    source: &Path,
) -> std::result::Result<(EntryKind, GivenSource), (EntryKind, Error)> {
    let follow = options.links == Links::Follow || options.follow_roots || names_directory(source);
    let look = || -> FollowResult<(Stat, bool)> {
        let found = directory::stat_path(source)?;
        let is_link = found.file_type() == FileType::Symlink || names_directory(source);
        match follow && is_link {
            true => Ok((follow::stat(source)?, true)),
            false => Ok((found, false)),
        }
    };
    let (stat, followed) =
        look().map_err(|stopped| (EntryKind::File, stopped.error("examine", source)))?;
    let kind = stat.file_type();
    let is_refused = match kind {
        FileType::Directory => {
            options.sources == Sources::Entries && !plan::lists_directories(&options.parents)
        }
        FileType::RegularFile | FileType::Symlink => false,
        _ => options.sources == Sources::Entries && !options.specials,
    };
    match is_refused {
        true => Err((kind_of(kind), refuse_entry(source, kind))),
        false => Ok((kind_of(kind), GivenSource { kind, followed })),
    }
}

/// Copies the names below one pair of directories. `listed`: entries of a source that is open.
fn copy_tree(
    worker_loop: &mut WorkerLoop<'_, '_>,
    top: &Top,
    listed: Option<GuardedEntries<'_>>,
    root: Node,
) {
    let worker = worker_loop.worker();
    worker.control.rest_if_paused();
    if worker.control.is_over() {
        return worker.control.leave_out(root.named_sources());
    }
    let (directory, open) = match open_top(worker, top, listed.map(|listed| listed.root)) {
        Ok(opened) => opened,
        Err(error) => return fail_all(worker, &top.source, &top.path(), &root, &error),
    };
    let directory = Arc::new(directory);
    let is_named = root.named.is_some();
    worker.context.forget_named();
    if is_named && worker.options.sources == Sources::Trees {
        if let Some(source) = open.source.here() {
            note_named_below(worker, source, &Below::of(&directory), &root.below);
        }
        list_open(worker, Arc::clone(&directory), &open, 0);
    } else {
        let mut ahead = listed.and_then(|listed| look_ahead(worker, &open, listed.guard, &root));
        copy_names(worker, &directory, root.below, &mut ahead);
        end(worker, Arc::clone(&directory));
    }
    worker_loop.work_on();
    directory.register().end();
    let worker = worker_loop.worker();
    match finish_top(worker, &directory, &open, is_named) {
        Ok(()) => remove_copied(worker, &directory, &open),
        Err(error) => {
            worker.reporter.fail_at(|| directory.names(), EntryKind::Directory, error);
            removal::forget(worker);
        }
    }
}

/// Begins to ask another machine for the entries that are going to be copied.
fn look_ahead(
    worker: &Worker<'_, '_>,
    open: &Open,
    guard: &dyn Guard,
    root: &Node,
) -> Option<EntriesAhead> {
    let source = open.source.there()?;
    let contents = copied_contents(worker);
    let names = ahead::groups(root, contents.up_to, &|entry| guard.expected_size(entry));
    source.look_ahead(names.into(), contents)
}

/// Gives the directory of the destination its metadata, if its source was named, and flushes it.
fn finish_top(
    worker: &Worker<'_, '_>,
    directory: &Directory,
    open: &Open,
    is_named: bool,
) -> Result<()> {
    let options = worker.options;
    if worker.control.is_over() {
        return Ok(());
    }
    if is_named {
        give_metadata(options, worker.resume, &worker.reporter, directory, open, Made::Found)?;
    } else if options.copy.durable && !options.dry_run {
        name::open_directory_for_reading(&*open.destination)
            .and_then(file::sync)
            .map_err(|errno| Error::destination("flush", directory.destination_path(), errno))?;
    }
    Ok(())
}

/// Opens the directories that the names lead down from. The caller named them, or a directory that was just made there
/// leads to them, so that only what lies below the destination must not be a link.
fn open_top(
    worker: &Worker<'_, '_>,
    top: &Top,
    from: Option<&GuardedSource>,
) -> Result<(Directory, Arc<Open>)> {
    let (options, path) = (worker.options, top.path());
    let named = match top.source.as_os_str().is_empty() {
        true => Path::new("."),
        false => &top.source,
    };
    let source = match from {
        Some(from) => from.reopen().map_err(|errno| Error::system("open", named, errno))?,
        None => follow::open_root(named)
            .or_else(|_| follow::open_directory(named))
            .map(SourceDirectory::Here)
            .map_err(|stopped| stopped.error("open", named))?,
    };
    let at_destination = |errno| Error::destination("open", &path, errno);
    let mut destination = follow::open_root(&top.destination)
        .or_else(|_| follow::open_directory(&top.destination))
        .map_err(|stopped| stopped.at_destination("open", &top.destination))?;
    if !top.below.is_empty() {
        let names: Vec<&OsStr> = top.below.iter().map(OsString::as_os_str).collect();
        destination =
            directory::open_beneath(&destination, &names, false).map_err(at_destination)?;
    }
    let stat = source.examine().map_err(|errno| Error::system("examine", named, errno))?;
    let found = identity(&file::stat(&destination).map_err(at_destination)?);
    worker.context.add_destination(found);
    worker.context.check_shown(destination.as_fd(), found.0, &path)?;
    let open = Arc::new(Open::new(source, destination));
    let is_whole = options.sources == Sources::Trees && !worker.context.is_guarded();
    if is_whole
        && let Some(overlay) = open.overlay()
        && overlay::shows(overlay, &open.destination, OsStr::new(""), options.dry_run)
    {
        let reason = Reason::Refused(Objection::InsideSource { tree: named.to_owned() });
        return Err(Error::new("copy to", path, reason));
    }
    let (from, to) = open.filesystems;
    worker.budget.expect_light_work(facts::are_shared_in_turn(from, to, &options.copy));
    let name = path.file_name().unwrap_or_default();
    let register = match options.dry_run {
        true => Register::none(),
        false => Register::new(Arc::clone(&open.destination), name),
    };
    if !options.dry_run {
        let in_source = |path: &OsStr, name: &OsStr| open.source.look_up_below(path, name);
        stale::sweep_proven(open.destination.as_fd(), &in_source);
    }
    // A name with `..` would be looked for in another place of an earlier copy.
    let earlier = match top.has_dots {
        true => Vec::new(),
        false => earlier::open_of_entry(options, &path)?,
    };
    let above = Parent::Root {
        source: top.source.clone(),
        destination: path,
        register,
        earlier: earlier.into_boxed_slice(),
    };
    let entered = Entered {
        source: stat,
        destination: found,
        fresh: false,
        remade: false,
        absent: false,
        private: false,
        whole: true,
        linked: false,
    };
    Ok((Directory::new(above, entered, &open, true), open))
}

/// Copies names of an open pair of directories.
fn copy_names(
    worker: &mut Worker<'_, '_>,
    directory: &Arc<Directory>,
    names: BTreeMap<OsString, Node>,
    ahead: &mut Option<EntriesAhead>,
) {
    let mut above = BTreeMap::new();
    match directory.open() {
        Ok(open) => copy_here(worker, directory, &open, names, &mut above, ahead),
        Err(error) => {
            let (source, destination) = directory.names();
            for (name, node) in names {
                fail_all(worker, &source.join(&name), &destination.join(&name), &node, &error);
            }
        }
    }
    // Only the directories that lead to the current one are open.
    for (name, node) in above {
        if worker.control.is_over() {
            worker.control.leave_out(node.named_sources());
            continue;
        }
        enter_above(worker, directory, &name, node, ahead);
    }
}

/// Copies the names that lie in this directory, and returns those of directories that lie above others in `above`.
fn copy_here(
    worker: &mut Worker<'_, '_>,
    directory: &Arc<Directory>,
    open: &Arc<Open>,
    names: BTreeMap<OsString, Node>,
    above: &mut BTreeMap<OsString, Node>,
    ahead: &mut Option<EntriesAhead>,
) {
    let mut batch = Batch::new(directory, open);
    let way = if ahead.is_some() { directory.path_from_root() } else { PathBuf::new() };
    let way: Vec<&OsStr> = way.iter().collect();
    expect_directories(open, &names);
    for (name, node) in names {
        if worker.control.is_over() {
            worker.control.leave_out(node.named_sources());
            continue;
        }
        let place = Place::new(directory, open, &name);
        let Some(GivenSource { kind, followed }) = node.named else {
            above.insert(name, node);
            continue;
        };
        worker.tally.count_found(1);
        if kind == FileType::Directory {
            match worker.options.sources {
                // Everything below it is copied too.
                Sources::Trees => enter_whole(worker, &place, followed, &node.below),
                _ => drop(above.insert(name, node)),
            }
            continue;
        }
        match (followed, CString::new(name.as_bytes())) {
            (false, Ok(listed)) => {
                let come = match ahead {
                    Some(ahead) if way.len() <= ahead::MAX_WAY => ahead.take(&way, &name),
                    _ => Ok(None),
                };
                let is_full = match come {
                    Ok(Some(PeerNamed::Seen(entry)))
                        if kind_of(entry.stat.file_type()) == kind_of(kind) =>
                    {
                        batch.add_there(entry)
                    }
                    // It is looked at once more: errors and other kinds are reported as of entries that were not asked for.
                    _ => batch.add(Entry { name: &listed, kind, inode: 0, next: 0 }),
                };
                if is_full {
                    let full = std::mem::replace(&mut batch, Batch::new(directory, open));
                    push(worker, directory, Task::Copy(full));
                }
            }
            _ => copy_followed(worker, &place),
        }
        if !node.below.is_empty() {
            above.insert(name, Node { named: None, below: node.below });
        }
    }
    if !batch.is_empty() {
        push(worker, directory, Task::Copy(batch));
    }
}

/// Says to another machine which directories are going to be opened.
fn expect_directories(open: &Open, names: &BTreeMap<OsString, Node>) {
    let Some(source) = open.source.there() else { return };
    let is_above = |node: &Node| !node.below.is_empty();
    let directories = names.iter().filter(|(_, node)| is_above(node)).map(|(name, _)| name.clone());
    source.expect_directories(directories.collect());
}

/// Copies the file that a named link leads to, wherever that is.
fn copy_followed(worker: &mut Worker<'_, '_>, place: &Place<'_>) {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = place
        .open
        .source
        .fd()
        .map_err(FollowError::System)
        .and_then(|source| follow::open_at(source, place.name, flags, 0))
        .and_then(|fd| Ok((file::stat(&fd)?, SourceFile::Here(fd))));
    match opened {
        Ok((stat, file)) if is_special(stat.file_type()) => {
            make_followed_special(worker, place, OpenFile { file, stat });
        }
        Ok((stat, _)) if stat.file_type() != FileType::RegularFile => {
            let error = changed_kind(place, stat.file_type());
            worker.reporter.fail(place, EntryKind::Symlink, error);
        }
        Ok((stat, file)) => copy_open(worker, place, OpenFile { file, stat }, None),
        Err(stopped) => {
            let error = stopped.error("open", place.source());
            worker.reporter.fail(place, EntryKind::File, error);
        }
    }
    worker.close_workshop();
}

/// Copies a named directory with all that is in it.
fn enter_whole(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    followed: bool,
    below: &BTreeMap<OsString, Node>,
) {
    let entered = open_source(place, followed).and_then(|(source, stat, must_pin)| {
        check_source(worker.context, place, &source, &stat, must_pin)?;
        pair_of(&mut worker.deleter(), place, source, stat, must_pin)
    });
    match entered {
        Ok((entered, pair)) => {
            let (child, open) = begin(worker, place.directory, place.name, entered, pair);
            if let Some(source) = open.source.here() {
                note_named_below(worker, source, &Below::of(&child), below);
            }
            list_open(worker, child, &open, 0);
        }
        Err(error) => worker.reporter.fail(place, EntryKind::Directory, error),
    }
}

/// Sees to sources below a directory that is copied as a whole: those that the selection leaves out, or that lie in a
/// directory that it leaves out or on another filesystem, are copied all the same, and those that links lead to are
/// reported, if these are copied as links.
fn note_named_below(
    worker: &mut Worker<'_, '_>,
    directory: &OwnedFd,
    at: &Below,
    names: &BTreeMap<OsString, Node>,
) {
    let (options, context) = (worker.options, worker.context);
    for (name, node) in names {
        let at = at.child(name);
        // One that cannot be looked at is reported when it is copied.
        let Ok(stat) = directory::stat_name(directory, name) else { continue };
        let is_followed = stat.file_type() == FileType::Symlink && options.links == Links::Follow;
        let inside = match stat.file_type() {
            FileType::Directory => directory::open_child_path(directory, name).ok(),
            _ if is_followed => {
                follow::open_at(directory, name, OFlags::PATH | OFlags::DIRECTORY, 0).ok()
            }
            _ => None,
        };
        let device = inside
            .as_ref()
            .and_then(|fd| file::stat(fd).ok())
            .map_or(at.device, |stat| stat.device);
        let is_directory = stat.file_type() == FileType::Directory;
        let is_left_out = at.is_left_out
            || !options.selection.selects(&at.way, is_directory)
            || options.one_filesystem && device != at.device;
        let is_above = node.named.is_none();
        if is_left_out && !is_above {
            context.add_named(at.way.clone());
        } else if is_left_out && (is_directory || is_followed) {
            context.add_above_named(at.way.clone());
        }
        if let Some(inside) = inside {
            let at = Below { device, is_left_out: is_left_out && is_above, ..at };
            note_named_below(worker, &inside, &at, &node.below);
        } else if stat.file_type() == FileType::Symlink && !is_followed {
            for (name, node) in &node.below {
                let Below { source, destination, .. } = at.child(name);
                let reason = Reason::Refused(Objection::BehindLink);
                let error = Error::new("copy", &source, reason);
                fail_all(worker, &source, &destination, node, &error);
            }
        }
    }
}

/// An entry below the root.
struct Below {
    way: PathBuf,
    source: PathBuf,
    destination: PathBuf,
    /// Filesystem of the directory, or the one that an entry lies in.
    device: (u32, u32),
    /// Whether the directory, or the one that an entry lies in, is copied only since it leads to named entries.
    is_left_out: bool,
}

impl Below {
    fn of(directory: &Directory) -> Below {
        let (source, destination) = directory.names();
        let (way, device) = (directory.path_from_root(), directory.entered.source.device);
        Below { way, source, destination, device, is_left_out: false }
    }

    fn child(&self, name: &OsStr) -> Below {
        let Below { way, source, destination, device, is_left_out } = self;
        Below {
            way: way.join(name),
            source: source.join(name),
            destination: destination.join(name),
            device: *device,
            is_left_out: *is_left_out,
        }
    }
}

/// Enters a directory above named ones: makes or finds its copy.
fn enter_above(
    worker: &mut Worker<'_, '_>,
    directory: &Arc<Directory>,
    name: &OsStr,
    node: Node,
    ahead: &mut Option<EntriesAhead>,
) {
    let entered = directory.open().and_then(|open| {
        let place = Place::new(directory, &open, name);
        let (source, stat, must_pin) = open_source(&place, !worker.context.is_guarded())?;
        pair_of(&mut worker.deleter(), &place, source, stat, must_pin)
    });
    match entered {
        Ok((entered, pair)) => {
            let (child, open) = begin(worker, directory, name, entered, pair);
            drop(open);
            copy_names(worker, &child, node.below, ahead);
            end(worker, child);
        }
        Err(error) => {
            let (source, destination) = directory.names();
            fail_all(worker, &source.join(name), &destination.join(name), &node, &error);
        }
    }
}

/// Opens a directory of the source. Returns `true` if it cannot be opened again without following a link, or for
/// reading.
fn open_source(place: &Place<'_>, follows: bool) -> Result<(SourceDirectory, Stat, bool)> {
    let fail = |errno| directory_not_opened(place, errno);
    let (name, at) = (place.name, &place.open.source);
    let Some(above) = at.here() else {
        let there = at.open_child(name).and_then(|there| Ok((there.stat()?, there)));
        return there.map(|(stat, there)| (there, stat, false)).map_err(fail);
    };
    let (fd, must_pin) = match directory::open_child(above, name) {
        Ok(fd) => (fd, false),
        // Names in it can be opened all the same.
        Err(Errno::EACCES) => (directory::open_child_path(above, name).map_err(fail)?, true),
        Err(Errno::ENOTDIR | Errno::ELOOP) if follows => {
            let opened = follow::open_at(above, name, OFlags::RDONLY | OFlags::DIRECTORY, 0);
            (opened.map_err(|stopped| stopped.error("open", place.source()))?, true)
        }
        Err(errno) => return Err(fail(errno)),
    };
    let stat = file::stat(&fd).map_err(|errno| Error::system("examine", place.source(), errno))?;
    Ok((SourceDirectory::Here(fd), stat, must_pin))
}

/// Reports the failure of each source at and below a name.
fn fail_all(
    worker: &mut Worker<'_, '_>,
    source: &Path,
    destination: &Path,
    node: &Node,
    error: &Error,
) {
    if let Some(named) = &node.named {
        let names = || (source.to_owned(), destination.to_owned());
        worker.reporter.fail_at(names, kind_of(named.kind), error.clone());
    }
    for (name, node) in &node.below {
        fail_all(worker, &source.join(name), &destination.join(name), node, error);
    }
}

/// Refuses a source that does not lie below the directory that it should.
fn not_below(source: &Path) -> Error {
    Error::new("copy", source, Reason::Refused(Objection::NotBelow))
}
