//! Copies the roots of a job, which the caller named. A directory without an existing destination
//! is built under a temporary name in the same directory and renamed once, so that it appears when
//! it is complete.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};

use super::aside::Aside;
use super::decide::{is_special, kind_of};
use super::delete::delete_strangers;
use super::directory::{Directory, Entered, Open, Parent, filesystem_of, identity};
use super::earlier::{self, Earlier};
use super::entry::{copy_entry, copy_open, make_followed_special};
use super::finish::{end, give_metadata, made_directory};
use super::incomplete::Unfinished;
use super::job_control::JobControl;
use super::journal::{Journal, sweep};
use super::links;
use super::list::list_open;
use super::place::{OpenFile, Place, changed_kind};
use super::removal::{self, remove_copied};
use super::reporter::Reporter;
use super::resume::Resume;
use super::tally::Tally;
use super::target::{From, Target, names_directory, open_for_file, or_here, split};
use super::worker::Worker;
use super::worker_loop::WorkerLoop;
use crate::destination::follow_link;
use crate::jobs::{EntryKind, Links, Sources};
use crate::metadata::Made;
use crate::peer_directory::PeerDirectory;
use crate::peer_file::PeerFile;
use crate::peer_link::{PeerLink, PeerObject, root_not_opened};
use crate::source::refuse_entry;
use crate::source_directory::SourceDirectory;
use crate::source_file::SourceFile;
use crate::stale::{Register, Sweeper};
use crate::written::{WrittenFiles, identity as written_identity};
use crate::{CopyOptions, Existing};
use crate::{facts, flush, stale};
use uncopy_core::Note;
use uncopy_core::{Error, FileKind, Reason, Result};
use uncopy_os::capabilities::Filesystem;
use uncopy_os::file::Stat;
use uncopy_os::follow::{self, FollowResult, LinkTarget};
use uncopy_os::{Sys, directory, file};

/// Copies one root with its contents.
pub(super) fn copy(
    worker_loop: &mut WorkerLoop<'_, '_>,
    written: &mut WrittenFiles,
    source: RootSource<'_>,
    destination: &Path,
) {
    let options = worker_loop.worker().options;
    let RootSource { path: source, there } = source;
    let follow = options.links == Links::Follow || options.follow_roots || names_directory(source);
    let looked = match there {
        None => look_at(source, follow).map(|stat| (None, stat)),
        Some((link, number)) => link
            .open_root(number, follow, source)
            .map(|(object, stat)| (Some((number, object)), stat)),
    };
    let (opened, stat) = match looked {
        Ok(looked) => looked,
        Err(stopped) => {
            let error = match there {
                Some(_) => root_not_opened(source, stopped),
                None => stopped.error("open", source),
            };
            return fail(
                &mut worker_loop.worker().reporter,
                source,
                destination,
                EntryKind::File,
                error,
            );
        }
    };
    let kind = stat.file_type();
    let is_refused = match kind {
        FileType::Directory => true,
        FileType::RegularFile | FileType::Symlink => false,
        _ => !options.specials,
    };
    if options.sources == Sources::Entries && is_refused {
        let error = refuse_entry(source, kind);
        let reporter = &mut worker_loop.worker().reporter;
        return fail(reporter, source, destination, kind_of(kind), error);
    }
    if kind == FileType::Directory {
        let opened = opened.map(|(_, object)| {
            SourceDirectory::There(Arc::new(PeerDirectory::of_opened(object, stat)))
        });
        return copy_directory(worker_loop, source, opened, destination);
    }
    let single = Single { source, destination, stat, follow };
    copy_single(worker_loop, written, &single, opened);
}

/// Source of a root: its path, or one on another machine by its number.
#[derive(Clone, Copy)]
pub(super) struct RootSource<'a> {
    /// Path, or the name for people.
    pub(super) path: &'a Path,
    pub(super) there: Option<(&'a Arc<PeerLink>, u32)>,
}

/// A root that is no directory.
struct Single<'a> {
    source: &'a Path,
    destination: &'a Path,
    stat: Stat,
    /// Whether a symbolic link that it is was followed.
    follow: bool,
}

/// Reports a pair that may not be copied.
pub(super) fn refuse_pair(
    worker_loop: &mut WorkerLoop<'_, '_>,
    source: &Path,
    destination: &Path,
    error: &Error,
) {
    let reporter = &mut worker_loop.worker().reporter;
    fail(reporter, source, destination, EntryKind::Directory, error.clone());
}

fn look_at(source: &Path, follow: bool) -> FollowResult<Stat> {
    if follow { follow::stat(source) } else { Ok(directory::stat_path(source)?) }
}

fn fail(
    reporter: &mut Reporter<'_>,
    source: &Path,
    destination: &Path,
    kind: EntryKind,
    error: Error,
) {
    reporter.fail_at(|| (source.to_owned(), destination.to_owned()), kind, error);
}

/// Refuses a FIFO, a socket or a device at the name that a file was given: it is not in a tree that is made alike, and whoever
/// names a device wants to write to it. One that is to be removed, gets a backup, or is to stay is none of these.
fn refuse_special(end: &Path, options: &CopyOptions) -> Result<()> {
    if options.existing == Existing::Keep || options.replaces_name() {
        return Ok(());
    }
    match directory::stat_path(end).map(|stat| stat.file_type()) {
        Ok(kind) if is_special(kind) => {
            let reason = Reason::NotRegular { kind: kind.into() };
            Err(Error::new("write to", end, reason))
        }
        _ => Ok(()),
    }
}

/// Copies a root that is no directory, as an entry of its parent directory.
fn copy_single(
    worker_loop: &mut WorkerLoop<'_, '_>,
    written: &mut WrittenFiles,
    single: &Single<'_>,
    there: Option<(u32, PeerObject)>,
) {
    let &Single { source, destination, ref stat, follow } = single;
    let kind = stat.file_type();
    let worker = worker_loop.worker();
    let (options, resume, control) = (worker.options, worker.resume, worker.control);
    // Names of one file may be names of one file there too, where no copy is made.
    let tracks = !options.link && options.link_dest.is_none();
    let opened = split(source).and_then(|(above, name)| {
        // A link or special file takes the place of a link, as by `cp`.
        let follows = kind == FileType::RegularFile
            && !options.link
            && options.copy.existing != Existing::Keep
            && !options.copy.replaces_name();
        let (parent, beside, target) = resolve(destination, follows)?;
        let end = beside.join(&target);
        let is_link = |stat: Stat| stat.file_type() == FileType::Symlink;
        if tracks && !directory::stat_path(&end).is_ok_and(is_link) {
            written.check(&end, &options.copy)?;
        }
        if kind == FileType::RegularFile {
            refuse_special(&end, &options.copy)?;
        }
        let existing = written_identity(&end);
        let earlier = earlier::open_of_entry(options, &beside)?;
        let source_directory = match &there {
            None => SourceDirectory::Here(
                follow::open_before_last(above)
                    .map_err(|errno| Error::system("open", or_here(above), errno))?,
            ),
            Some((number, object)) => {
                let (link, stat) = (object.link(), stat.clone());
                let above = PeerDirectory::above_root(link, *number, follow, stat);
                SourceDirectory::There(Arc::new(above))
            }
        };
        let opened = open_place(above, source_directory, &beside, parent, &target, earlier)?;
        let (directory, open) = &opened;
        let (device, _) = directory.entered.destination;
        worker.context.check_shown(open.destination.as_fd(), device, or_here(&beside))?;
        Ok((opened, name.to_owned(), target, (end, existing)))
    });
    let ((directory, open), name, target, (end_path, existing)) = match opened {
        Ok(opened) => opened,
        Err(error) => return fail(&mut worker.reporter, source, destination, kind_of(kind), error),
    };
    let directory = Arc::new(directory);
    let place =
        Place { directory: &directory, open: &open, name: &name, target: &target, listed: None };
    let parent = open.destination.as_fd();
    let size = match there {
        None => look_at(source, follow).map_or(0, |stat| stat.size),
        Some(_) => stat.size,
    };
    let journal = match open_for_file(options, source, destination, parent, &target, size) {
        Ok(journal) => journal.filter(|_| kind == FileType::RegularFile).map(Arc::new),
        Err(error) => return fail(&mut worker.reporter, source, destination, kind_of(kind), error),
    };
    resume.set_journal(journal.clone());
    if let (Some((_, object)), Some(above)) = (there, open.source.there()) {
        copy_opened_there(worker, &place, above, (object, stat.clone()));
    } else if follow && kind == FileType::RegularFile {
        // The name may be a symbolic link that is to be followed.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = follow::open(source, flags).and_then(|fd| Ok((file::stat(&fd)?, fd)));
        match opened {
            Ok((stat, fd)) => {
                let file = SourceFile::Here(fd);
                copy_open(worker, &place, OpenFile { file, stat }, None);
            }
            Err(stopped) => {
                let error = stopped.error("open", source);
                worker.reporter.fail(&place, EntryKind::File, error);
            }
        }
    } else if follow && is_special(kind) {
        // The name may be a link to it.
        copy_followed_special(worker, &place, source);
    } else {
        copy_entry(worker, &place, kind);
    }
    worker.close_workshop();
    end(worker, Arc::clone(&directory));
    worker_loop.work_on();
    directory.register().end();
    remove_copied(worker_loop.worker(), &directory, &open);
    // A copy is another file than the one before it.
    if tracks && written_identity(&end_path) != existing {
        written.add(&end_path);
    }
    resume.set_journal(None);
    if let Some(journal) = journal
        && let Err(error) = close_journal(resume, control, &journal, parent, parent)
    {
        let error = Error::destination("write the journal for", destination, error);
        fail(&mut worker_loop.worker().reporter, source, destination, EntryKind::File, error);
    }
}

/// Copies an open root of another machine that is no directory.
fn copy_opened_there(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    above: &Arc<PeerDirectory>,
    opened: (PeerObject, Stat),
) {
    let kind = opened.1.file_type();
    match kind {
        FileType::RegularFile => {
            let stat = opened.1.clone();
            let file = PeerFile::opened(above, place.name.to_owned(), opened);
            copy_open(worker, place, OpenFile { file: SourceFile::There(file), stat }, None);
        }
        _ => copy_entry(worker, place, kind),
    }
}

/// Copies a FIFO or device that a root is, or leads to as a link.
fn copy_followed_special(worker: &mut Worker<'_, '_>, place: &Place<'_>, source: &Path) {
    let opened = follow::open(source, OFlags::PATH).and_then(|fd| Ok((file::stat(&fd)?, fd)));
    match opened {
        Ok((stat, fd)) if is_special(stat.file_type()) => {
            make_followed_special(worker, place, OpenFile { file: SourceFile::Here(fd), stat });
        }
        Ok((stat, _)) => {
            let error = changed_kind(place, stat.file_type());
            worker.reporter.fail(place, EntryKind::Special, error);
        }
        Err(stopped) => {
            let error = stopped.error("open", source);
            worker.reporter.fail(place, EntryKind::Special, error);
        }
    }
}

/// Finishes the root, or keeps the journal if the job is over and another run resumes it.
fn close_journal(
    resume: &Resume,
    control: &JobControl<'_>,
    journal: &Journal,
    parent: BorrowedFd<'_>,
    root: BorrowedFd<'_>,
) -> Sys<()> {
    if control.is_over() {
        return journal.flush();
    }
    sweep(journal, root);
    // The journal is kept until the other roots are done too.
    journal.catch_up()?;
    resume.finished_with(journal, parent)
}

/// Opens the directory that a single file is written to, and returns its path and the file's name
/// in it; if the caller names a symbolic link that is to be followed, those of its target.
fn resolve(destination: &Path, follows: bool) -> Result<(OwnedFd, PathBuf, OsString)> {
    if names_directory(destination) && !destination.as_os_str().is_empty() {
        let reason = Reason::NotRegular { kind: FileKind::Directory };
        return Err(Error::new("write to", destination, reason));
    }
    let (above, name) = split(destination)?;
    let directory = follow::open_directory(or_here(above))
        .map_err(|stopped| stopped.at_destination("open", or_here(above)))?;
    let is_link = |stat: &Stat| stat.file_type() == FileType::Symlink;
    if follows && directory::stat_name(&directory, name).is_ok_and(|stat| is_link(&stat)) {
        let found = follow::look(&directory, name)
            .map_err(|errno| Error::destination("examine", destination, errno))?;
        if let Some(link) = found.filter(|(_, stat)| is_link(stat)) {
            let (LinkTarget { directory, name, path, .. }, _) =
                follow_link(directory, link, destination)?;
            let above = path.parent().unwrap_or(Path::new("")).to_owned();
            return Ok((directory, above, name));
        }
    }
    Ok((directory, above.to_owned(), name.to_owned()))
}

/// Source and destination of a single file. The source is resolved with the file's name as the last
/// component; the destination is open.
fn open_place(
    source: &Path,
    source_directory: SourceDirectory,
    destination: &Path,
    destination_fd: OwnedFd,
    target: &OsStr,
    earlier: Vec<Earlier>,
) -> Result<(Directory, Arc<Open>)> {
    let source_stat = source_directory
        .stat()
        .map_err(|errno| Error::system("examine", or_here(source), errno))?;
    let destination_stat = file::stat(&destination_fd)
        .map_err(|errno| Error::destination("examine", or_here(destination), errno))?;
    let open = Arc::new(Open::new(source_directory, destination_fd));
    let register = Register::new(Arc::clone(&open.destination), target);
    let (source, destination) = (source.to_owned(), destination.to_owned());
    let earlier = earlier.into_boxed_slice();
    let above = Parent::Root { source, destination, register, earlier };
    let entered = Entered {
        source: source_stat,
        destination: identity(&destination_stat),
        fresh: false,
        remade: false,
        absent: false,
        private: false,
        whole: false,
        linked: false,
    };
    Ok((Directory::new(above, entered, &open, true), open))
}

/// Copies a directory. `there`: it is on another machine, and open.
fn copy_directory(
    worker_loop: &mut WorkerLoop<'_, '_>,
    source: &Path,
    there: Option<SourceDirectory>,
    destination: &Path,
) {
    let worker = worker_loop.worker();
    let (options, resume) = (worker.options, worker.resume);
    let opened = there
        .map_or_else(|| follow::open_root(source).map(SourceDirectory::Here), Ok)
        .and_then(|fd| Ok((fd.stat()?, fd)))
        .map_err(|stopped| stopped.error("open", source))
        .and_then(|(stat, fd)| {
            let earlier = earlier::open_of_tree(options, destination)?;
            let filesystem = filesystem_of(fd.here());
            let overlay = fd.here().filter(|_| filesystem == Filesystem::OVERLAYFS);
            let from = From { path: source, stat: &fd.stat_here(&stat), overlay };
            let target = Target::open(worker.context, &from, destination)?;
            Ok((fd, filesystem, stat, target, earlier))
        });
    let (fd, filesystem, stat, target, earlier) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            return fail(&mut worker.reporter, source, destination, EntryKind::Directory, error);
        }
    };
    let Target { fd: target_fd, stat: target_stat, aside, absent, resumed, remade, journal } =
        target;
    worker.context.add_source(identity(&fd.stat_here(&stat)));
    if !absent {
        worker.context.add_destination(identity(&target_stat));
        let shown = worker.context.check_shown(target_fd.as_fd(), target_stat.device, destination);
        // A tree that is built has no other name yet.
        if let Some(error) = shown.err().filter(|_| aside.is_none()) {
            return fail(&mut worker.reporter, source, destination, EntryKind::Directory, error);
        }
    }
    let built = aside.as_ref().map(|aside| (aside.temporary.as_os_str(), aside.is_own));
    worker.context.begin_root(built);
    let kept = journal.map(|(journal, parent)| (Arc::new(journal), parent));
    if let Some((journal, _)) = &kept
        && let Err(errno) = journal.reach(target_stat.device, target_fd.as_fd())
    {
        let error = Error::destination("open to flush it", destination, errno);
        return fail(&mut worker.reporter, source, destination, EntryKind::Directory, error);
    }
    resume.set_journal(kept.as_ref().map(|(journal, _)| Arc::clone(journal)));
    let done_before = worker.tally.done_entries();
    if aside.is_some() {
        worker.settle();
        worker.tally.begin_tree();
    }
    let open = Arc::new(Open::known(fd, filesystem, target_fd));
    worker.budget.expect_light_work(facts::are_shared_in_turn(
        open.filesystems.0,
        open.filesystems.1,
        &options.copy,
    ));
    let is_merged = aside.is_none() && !absent;
    let register = open_register(&open, destination, is_merged);
    if is_merged && !options.dry_run {
        // Done before directories get their times, and before mirroring would see it as an entry
        // that the source does not have.
        let in_source = |path: &OsStr, name: &OsStr| open.source.look_up_below(path, name);
        stale::sweep_proven(open.destination.as_fd(), &in_source);
    }
    let (from, to) = (source.to_owned(), destination.to_owned());
    let above = Parent::Root {
        source: from,
        destination: to,
        register,
        earlier: earlier.into_boxed_slice(),
    };
    let entered = Entered {
        source: stat,
        destination: identity(&target_stat),
        fresh: (aside.is_some() && !resumed) || absent,
        remade,
        absent,
        private: aside.is_some(),
        whole: true,
        linked: false,
    };
    let directory = Arc::new(Directory::new(above, entered, &open, true));
    if let Some((journal, _)) = &kept
        && let Err(errno) = remember_links(worker.links, journal, &directory)
    {
        resume.set_journal(None);
        let error = Error::destination("read the journal for", destination, errno);
        return fail(&mut worker.reporter, source, destination, EntryKind::Directory, error);
    }
    list_open(worker, Arc::clone(&directory), &open, 0);
    worker_loop.work_on();
    let root = Finished { directory, open, aside, kept, done_before };
    end_root(root, worker_loop.worker(), source, destination);
}

/// Loads from the journal the names of files with several names that an earlier run copied.
fn remember_links(links: &links::Links, journal: &Journal, directory: &Arc<Directory>) -> Sys<()> {
    let mut remembered = Ok(());
    let read = journal.links(&mut |inode, path| {
        remembered = remembered.and_then(|()| links.was_copied(inode, directory, path.as_ref()));
    });
    read.and(remembered)
}

/// Finishes a root whose entries are done, or decides whether to keep it if the job ended early.
fn end_root(root: Finished, worker: &mut Worker<'_, '_>, source: &Path, destination: &Path) {
    let ended = root.end(worker, source, destination);
    // Those of a finished root are removed by now.
    removal::forget(worker);
    // The job ended early.
    root.directory.register().end();
    worker.resume.set_journal(None);
    let ended = match ended {
        Ok(true) => return,
        Ok(false) => root.leave(worker, source, destination),
        Err(error) => {
            // Whether it ends the job decides what becomes of the tree.
            fail(&mut worker.reporter, source, destination, EntryKind::Directory, error);
            root.leave(worker, source, destination)
        }
    };
    if let Err(error) = ended {
        fail(&mut worker.reporter, source, destination, EntryKind::Directory, error);
    }
}

/// Reports that all entries of a new tree are gone again.
fn discard(worker: &mut Worker<'_, '_>, source: &Path, destination: &Path) {
    worker.settle();
    let lost = worker.tally.take_made();
    if lost.made_entries() > 0 {
        worker.reporter.discarded(source.to_owned(), destination.to_owned(), lost);
    }
}

/// Notes temporary names in an existing directory that is merged into; a tree without its final
/// name is noted as a whole.
fn open_register(open: &Open, destination: &Path, is_merged: bool) -> Register {
    let name = destination.file_name().unwrap_or_default();
    match is_merged {
        true => Register::new(Arc::clone(&open.destination), name),
        false => Register::none(),
    }
}

/// Removes the leftovers of a run that was killed while it built this directory, or just after
/// that.
fn sweep_beside(sweeper: &dyn Sweeper, tally: &Tally<'_>, destination: &Path) {
    let Ok((above, name)) = split(destination) else { return };
    if let Ok(parent) = follow::open_directory(or_here(above)) {
        let unproven = sweeper.remove_leftovers(parent.as_fd(), name);
        tally.add_unproven(unproven, |name| destination.with_file_name(name));
    }
}

/// A root whose entries are all done, or whose job is over.
struct Finished {
    directory: Arc<Directory>,
    open: Arc<Open>,
    aside: Option<Aside>,
    kept: Option<(Arc<Journal>, OwnedFd)>,
    /// Entries that were done before it was begun.
    done_before: u64,
}

impl Finished {
    /// Finishes it, and gives it its name. Returns `false` if the job ended early.
    fn end(&self, worker: &mut Worker<'_, '_>, source: &Path, destination: &Path) -> Result<bool> {
        let (options, control) = (worker.options, worker.control);
        let Finished { directory, open, aside, kept, .. } = self;
        if control.is_over() {
            return Ok(false);
        }
        // No more temporary names are made, and the directory is about to get its times.
        directory.register().end();
        delete_strangers(&mut worker.deleter(), directory, open);
        if control.is_over() {
            return Ok(false);
        }
        let made = match aside {
            Some(_) => Made::Private(worker.context.umask()),
            None if directory.entered.remade => Made::AsSource(worker.context.umask()),
            None => Made::Found,
        };
        let mut given =
            give_metadata(options, worker.resume, &worker.reporter, directory, open, made)?;
        if options.copy.durable && !options.dry_run {
            flush::links(&*open.destination)
                .map_err(|e| Error::destination("flush", destination, e))?;
        }
        if let Some(aside) = aside {
            if let Some((journal, _)) = kept {
                // Otherwise a resuming run would copy into the tree that has this name.
                journal
                    .catch_up()
                    .map_err(|e| Error::destination("write the journal for", destination, e))?;
            }
            aside.put_in_place(&open.destination, destination)?;
            let names = worker.context.temporary_names();
            let unproven = aside.remove_leftovers(names, kept.is_some());
            worker.tally.add_unproven(unproven, |name| destination.with_file_name(name));
            if options.copy.durable
                && let Err(error) = aside.flush_name(destination)
            {
                // It has its name anyway, and a journal that says so.
                fail(&mut worker.reporter, source, destination, EntryKind::Directory, error);
                return Ok(true);
            }
        } else if !options.dry_run {
            sweep_beside(worker.context.temporary_names(), worker.tally, destination);
        }
        if let Some((journal, parent)) = kept {
            if journal.was_cut {
                given.notes.push(Note::JournalCut);
            }
            // If it stays, the next run finds that all is done.
            let _ = close_journal(
                worker.resume,
                control,
                journal,
                parent.as_fd(),
                open.destination.as_fd(),
            );
        }
        let outcome = made_directory(directory, given);
        let names = || (source.to_owned(), destination.to_owned());
        worker.reporter.finish_at(names, EntryKind::Directory, outcome);
        remove_copied(worker, directory, open);
        Ok(true)
    }

    /// Removes what was made, or keeps it for a run that continues it.
    fn leave(self, worker: &mut Worker<'_, '_>, source: &Path, destination: &Path) -> Result<()> {
        let Finished { directory, open, aside, kept, done_before } = self;
        let (options, resume, tally) = (worker.options, worker.resume, worker.tally);
        match (kept, aside) {
            (kept, Some(aside)) if worker.control.keeps_incomplete() => {
                let journal = kept.as_ref().map(|(journal, _)| &**journal);
                let (open, aside, inode) = (&open, &aside, directory.entered.source.inode);
                let entries = tally.done_entries().saturating_sub(done_before);
                let unfinished =
                    Unfinished { options, resume, tally, source, inode, destination, open, aside };
                resume.keep(unfinished.keep(journal, entries));
                Ok(())
            }
            (Some((journal, _)), _) => journal
                .flush()
                .map_err(|errno| Error::destination("write the journal for", destination, errno)),
            (None, Some(aside)) => {
                let removal = move || aside.remove(&open.destination);
                match &options.remover {
                    Some(remover) => remover.run(removal),
                    None => removal(),
                }
                discard(worker, source, destination);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }
}
