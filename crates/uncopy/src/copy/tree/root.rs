//! The roots of a job: what the caller named. A directory that has no destination yet is built
//! beside where it will be and renamed once, so that it appears when it is complete.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};

use super::decide::kind_of;
use super::directory::{Above, Directory, Entered, Identity, Open, identity};
use super::run::Job;
use super::worker::{Place, Worker};
use crate::copy::job::{EntryKind, Links};
use crate::copy::metadata::Made;
use crate::copy::{remove, stale};
use crate::error::{Errno, Error, Reason, Result};
use crate::sys::file::Stat;
use crate::sys::{directory, file, name};

/// Copies one root, and all that is in it.
pub(super) fn copy(worker: &mut Worker<'_, '_>, source: &Path, destination: &Path) {
    let follow = worker.job.options.links == Links::Follow || names_directory(source);
    let kind = match directory::stat_path(source, follow) {
        Ok(stat) => stat.file_type(),
        Err(errno) => {
            let error = Error::system("open", source, errno);
            return fail(worker, source, destination, EntryKind::File, error);
        }
    };
    if kind == FileType::Directory {
        copy_directory(worker, source, destination);
    } else {
        copy_single(worker, source, destination, kind, follow);
    }
}

fn fail(
    worker: &mut Worker<'_, '_>,
    source: &Path,
    destination: &Path,
    kind: EntryKind,
    error: Error,
) {
    worker.fail_at(|| (source.to_owned(), destination.to_owned()), kind, error);
}

/// A path that can only be meant for a directory: it ends in `/`, `.` or `..`.
fn names_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.") || path.file_name().is_none()
}

/// Copies a root that is no directory, as an entry of the directory that it lies in.
fn copy_single(
    worker: &mut Worker<'_, '_>,
    source: &Path,
    destination: &Path,
    kind: FileType,
    follow: bool,
) {
    let opened = resolve(destination).and_then(|destination| {
        let (source_parent, name) = split(source)?;
        let (destination_parent, target) = split(&destination)?;
        let directory = open_place(source_parent, destination_parent)?;
        Ok((directory, name.to_owned(), target.to_owned()))
    });
    let ((directory, open), name, target) = match opened {
        Ok(opened) => opened,
        Err(error) => return fail(worker, source, destination, kind_of(kind), error),
    };
    let directory = Arc::new(directory);
    let place = Place { directory: &directory, open: &open, name: &name, target: &target };
    if follow && kind == FileType::RegularFile {
        // The name may be a link, which the caller wants followed.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = file::open(source, flags).and_then(|fd| file::stat(&fd).map(|s| (fd, s)));
        match opened {
            Ok((fd, stat)) => worker.copy_open(&place, fd, stat),
            Err(errno) => {
                let error = Error::system("open", source, errno);
                worker.fail(&place, EntryKind::File, error);
            }
        }
    } else {
        worker.copy_entry(&place, kind);
    }
    worker.end(Arc::clone(&directory));
    worker.work_on();
}

/// A single file is written through a symbolic link that the caller names.
fn resolve(destination: &Path) -> Result<PathBuf> {
    match directory::stat_path(destination, false) {
        Ok(stat) if stat.file_type() == FileType::Symlink => std::fs::canonicalize(destination)
            .map_err(|error| {
                let errno = Errno::from_raw(error.raw_os_error().unwrap_or(0));
                Error::system("resolve", destination, errno)
            }),
        _ => Ok(destination.to_owned()),
    }
}

/// The directory of a path, as it was named (nothing for the current one), and the name in it.
fn split(path: &Path) -> Result<(&Path, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(Error::new("copy", path, Reason::NotRegular { kind: "a directory" })),
    }
}

fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

fn open_place(source: &Path, destination: &Path) -> Result<(Directory, Arc<Open>)> {
    let look = |path: &Path| {
        let fd = name::open_directory(or_here(path)).map_err(|e| Error::system("open", path, e))?;
        let stat = file::stat(&fd).map_err(|e| Error::system("examine", path, e))?;
        Ok((fd, stat))
    };
    let (source_fd, source_stat) = look(source)?;
    let (destination_fd, destination_stat) = look(destination)?;
    let open = Arc::new(Open::new(source_fd, destination_fd));
    let above = Above::Root { source: source.to_owned(), destination: destination.to_owned() };
    let entered = Entered {
        source: source_stat,
        destination: identity(&destination_stat),
        fresh: false,
        absent: false,
        private: false,
        linked: false,
    };
    Ok((Directory::new(above, entered, &open, true), open))
}

/// The destination of a root directory.
struct Target {
    fd: OwnedFd,
    stat: Stat,
    /// Where it is built, if it is not there yet.
    aside: Option<Aside>,
    /// In a dry run: it would be built, and `fd` is the directory that it would be in.
    absent: bool,
}

/// A directory under a temporary name.
struct Aside {
    parent: OwnedFd,
    temporary: OsString,
    name: OsString,
}

fn copy_directory(worker: &mut Worker<'_, '_>, source: &Path, destination: &Path) {
    let job = worker.job;
    let opened = directory::open_root(source)
        .and_then(|fd| file::stat(&fd).map(|stat| (fd, stat)))
        .map_err(|errno| Error::system("open", source, errno))
        .and_then(|(fd, stat)| {
            let target = open_target(job, source, destination, identity(&stat))?;
            Ok((fd, stat, target))
        });
    let (fd, stat, target) = match opened {
        Ok(opened) => opened,
        Err(error) => return fail(worker, source, destination, EntryKind::Directory, error),
    };
    let Target { fd: target_fd, stat: target_stat, aside, absent } = target;
    if !absent {
        job.add_destination(identity(&target_stat));
    }
    let open = Arc::new(Open::new(fd, target_fd));
    let above = Above::Root { source: source.to_owned(), destination: destination.to_owned() };
    let entered = Entered {
        source: stat,
        destination: identity(&target_stat),
        fresh: aside.is_some() || absent,
        absent,
        private: aside.is_some(),
        linked: false,
    };
    let directory = Arc::new(Directory::new(above, entered, &open, true));
    worker.list_open(Arc::clone(&directory), &open, 0);
    worker.work_on();
    if job.is_over() {
        if let Some(aside) = aside {
            aside.remove();
        }
        return;
    }
    worker.delete_strangers(&directory, &open);
    let made = aside.as_ref().map_or(Made::Found, |aside| Made::Aside(aside.parent.as_fd()));
    let finished = worker
        .give_metadata(&directory, &open, made)
        .and_then(|notes| put_in_place(job, aside.as_ref(), destination).map(|()| notes));
    match finished {
        Ok(notes) => {
            let outcome = worker.made_directory(&directory, notes);
            let names = || (source.to_owned(), destination.to_owned());
            worker.finish_at(names, EntryKind::Directory, outcome);
        }
        Err(error) => {
            if let Some(aside) = aside {
                aside.remove();
            }
            fail(worker, source, destination, EntryKind::Directory, error);
        }
    }
}

/// Finds the destination of a directory, or makes one beside it.
fn open_target(job: &Job<'_>, source: &Path, destination: &Path, from: Identity) -> Result<Target> {
    let refuse =
        |text: &str| Err(Error::new("write to", destination, Reason::Refused(text.to_owned())));
    match directory::stat_path(destination, true) {
        Ok(stat) if stat.file_type() == FileType::Directory => {
            let fd = directory::open_root(destination)
                .or_else(|_| name::open_directory(destination))
                .map_err(|errno| Error::system("open", destination, errno))?;
            check_outside(fd.as_fd(), source, destination, from)?;
            let stat = file::stat(&fd).map_err(|e| Error::system("examine", destination, e))?;
            return Ok(Target { fd, stat, aside: None, absent: false });
        }
        Ok(_) => return refuse("it is not a directory, and the source is one; remove it first"),
        Err(Errno::ENOENT) => {}
        Err(errno) => return Err(Error::system("examine", destination, errno)),
    }
    if directory::stat_path(destination, false).is_ok() {
        return refuse("it is a symbolic link to nothing; remove it first");
    }
    let (above, name) = split(destination)?;
    let above = or_here(above);
    let fail = |errno| Error::system("open", above, errno);
    let parent = name::open_directory(above).map_err(fail)?;
    check_outside(parent.as_fd(), source, destination, from)?;
    if job.options.dry_run {
        let stat = file::stat(&parent).map_err(fail)?;
        return Ok(Target { fd: parent, stat, aside: None, absent: true });
    }
    make_aside(parent, name)
        .map_err(|errno| Error::system("make a directory beside", destination, errno))
}

fn make_aside(parent: OwnedFd, name: &OsStr) -> crate::sys::Sys<Target> {
    let temporary = loop {
        let temporary = stale::temporary_name(name)?;
        match directory::make(&parent, &temporary, 0o700) {
            Err(Errno::EEXIST) => {}
            other => break other.map(|()| temporary)?,
        }
    };
    let fd = directory::open_child(&parent, &temporary)?;
    // Other runs see that this is no leftover.
    let _ = file::try_lock(&fd);
    let stat = file::stat(&fd)?;
    let name = name.to_owned();
    let aside = Some(Aside { parent, temporary, name });
    Ok(Target { fd, stat, aside, absent: false })
}

/// A destination in the source would be copied into itself, without end.
fn check_outside(
    destination: BorrowedFd<'_>,
    source: &Path,
    given: &Path,
    from: Identity,
) -> Result<()> {
    let fail = |errno| Error::system("examine the directories above", given, errno);
    let mut at = file::duplicate(destination).map_err(fail)?;
    let mut known = identity(&file::stat(&at).map_err(fail)?);
    loop {
        if known == from {
            let text = format!(
                "it is {} itself or lies in it; name a destination outside of the source",
                source.display()
            );
            return Err(Error::new("copy to", given, Reason::Refused(text)));
        }
        at = directory::open_parent(&at).map_err(fail)?;
        let above = identity(&file::stat(&at).map_err(fail)?);
        if above == known {
            return Ok(());
        }
        known = above;
    }
}

fn put_in_place(job: &Job<'_>, aside: Option<&Aside>, destination: &Path) -> Result<()> {
    let Some(aside) = aside else { return Ok(()) };
    name::rename_new(&aside.parent, &aside.temporary, &aside.name)
        .map_err(|errno| Error::system("put in place", destination, errno))?;
    stale::remove_leftovers(aside.parent.as_fd(), &aside.name);
    if job.options.copy.durable {
        name::open_directory_for_reading(&aside.parent)
            .and_then(file::sync)
            .map_err(|e| Error::system("flush the directory of", destination, e))?;
    }
    Ok(())
}

impl Aside {
    /// Takes back what was made.
    fn remove(&self) {
        // Left for the next run to remove if even this fails.
        let _ = remove::tree(&self.parent, &self.temporary);
    }
}
