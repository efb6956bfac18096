//! The destination of a root directory: found, built beside where it will be, or gone on with.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::directory::{Identity, identity};
use super::journal::{Begun, Journal, NotOpened, Unusable};
use super::root::{or_here, split};
use super::run::Job;
use crate::copy::job::JobOptions;
use crate::copy::{remove, stale};
use crate::error::{Errno, Error, Reason, Result};
use crate::sys::file::Stat;
use crate::sys::{Sys, directory, file, name};

/// The destination of a root directory.
pub(super) struct Target {
    pub(super) fd: OwnedFd,
    pub(super) stat: Stat,
    /// Where it is built, if it is not there yet.
    pub(super) aside: Option<Aside>,
    /// In a dry run: it would be built, and `fd` is the directory that it would be in.
    pub(super) absent: bool,
    /// It was begun by a run that this one continues.
    pub(super) resumed: bool,
    /// What is done, and the directory that says so.
    pub(super) journal: Option<(Journal, OwnedFd)>,
}

/// A directory under a temporary name.
pub(super) struct Aside {
    pub(super) parent: OwnedFd,
    temporary: OsString,
    name: OsString,
}

impl Target {
    /// Finds the destination of a directory, or makes one beside it.
    pub(super) fn open(
        job: &Job<'_>,
        source: &Path,
        destination: &Path,
        from: &Stat,
    ) -> Result<Target> {
        let refuse =
            |text: &str| Err(Error::new("write to", destination, Reason::Refused(text.to_owned())));
        match directory::stat_path(destination, true) {
            Ok(stat) if stat.file_type() == FileType::Directory => {
                return Target::found(job, source, destination, from);
            }
            Ok(_) => {
                return refuse("it is not a directory, and the source is one; remove it first");
            }
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
        check_outside(parent.as_fd(), source, destination, identity(from))?;
        if job.options.dry_run {
            let stat = file::stat(&parent).map_err(fail)?;
            let (fd, journal) = (parent, None);
            return Ok(Target { fd, stat, aside: None, absent: true, resumed: false, journal });
        }
        if job.options.resume {
            return Target::journalled(job, destination, parent, name, from);
        }
        make_aside(parent, name).map_err(|errno| beside(destination, errno))
    }

    /// A directory that is there.
    fn found(job: &Job<'_>, source: &Path, destination: &Path, from: &Stat) -> Result<Target> {
        let fail = |errno| Error::system("open", destination, errno);
        let fd = directory::open_root(destination)
            .or_else(|_| name::open_directory(destination))
            .map_err(fail)?;
        check_outside(fd.as_fd(), source, destination, identity(from))?;
        let stat = file::stat(&fd).map_err(fail)?;
        let mut journal = None;
        if job.options.resume {
            // By its own name, whatever the caller calls it.
            let path = std::fs::canonicalize(destination)
                .map_err(|error| fail(Errno::from_raw(error.raw_os_error().unwrap_or(0))))?;
            let (above, name) = split(&path)?;
            let parent = name::open_directory(or_here(above)).map_err(fail)?;
            let mut opened = open_journal(job.options, destination, parent.as_fd(), name, from)?;
            if opened.begun().is_none() {
                let fingerprint = fingerprint(job.options, from);
                opened
                    .begin(Begun { fingerprint, aside: None }, parent.as_fd())
                    .map_err(|errno| Error::system("begin the journal for", destination, errno))?;
            }
            journal = Some((opened, parent));
        }
        Ok(Target { fd, stat, aside: None, absent: false, resumed: false, journal })
    }

    /// One that an earlier run began, or a new one with a journal.
    fn journalled(
        job: &Job<'_>,
        destination: &Path,
        parent: OwnedFd,
        name: &OsStr,
        from: &Stat,
    ) -> Result<Target> {
        let fail = |errno| beside(destination, errno);
        let mut journal = open_journal(job.options, destination, parent.as_fd(), name, from)?;
        let keeper = file::duplicate(&parent).map_err(fail)?;
        if let Some(temporary) = journal.begun().and_then(|begun| begun.aside.clone()) {
            match directory::open_child(&parent, &temporary) {
                Ok(fd) => {
                    let stat = file::stat(&fd).map_err(fail)?;
                    // The journal's lock is held, so that of the tree is free.
                    let _ = file::try_lock(&fd);
                    let name = name.to_owned();
                    let aside = Some(Aside { parent, temporary, name });
                    let journal = Some((journal, keeper));
                    return Ok(Target { fd, stat, aside, absent: false, resumed: true, journal });
                }
                Err(Errno::ENOENT) => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
        let target = make_aside(parent, name).map_err(fail)?;
        let aside = target.aside.as_ref().map(|aside| aside.temporary.clone());
        let begun = Begun { fingerprint: fingerprint(job.options, from), aside };
        let started = journal.begin(begun, keeper.as_fd());
        if let Err(errno) = started {
            if let Some(aside) = &target.aside {
                aside.remove();
            }
            return Err(Error::system("begin the journal for", destination, errno));
        }
        Ok(Target { journal: Some((journal, keeper)), ..target })
    }
}

fn beside(destination: &Path, errno: Errno) -> Error {
    Error::system("make a directory beside", destination, errno)
}

/// What makes a job the same: the source's root, and all that decides what its copy is like.
fn fingerprint(options: &JobOptions, source: &Stat) -> [u8; 16] {
    let text = format!(
        "{} {:?} {:?} {:?} {} {} {:?}",
        env!("CARGO_PKG_VERSION"),
        identity(source),
        options.copy,
        options.links,
        options.follow_outside,
        options.specials,
        options.selection,
    );
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
    bytes
}

/// Opens a journal that this job may go by.
fn open_journal(
    options: &JobOptions,
    destination: &Path,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    source: &Stat,
) -> Result<Journal> {
    let path: PathBuf = destination.with_file_name(Journal::name(name));
    let refuse =
        |text: String| Error::new("resume the copy to", destination, Reason::Refused(text));
    let journal = Journal::open(parent, name).map_err(|problem| match problem {
        NotOpened::Held => refuse("another run is at work on it; wait for that one".into()),
        NotOpened::Unusable(Unusable::Damaged { offset }) => refuse(format!(
            "its journal is damaged at byte {offset} and is not believed; remove {} to begin anew",
            path.display()
        )),
        NotOpened::System(errno) => Error::system("open the journal", &path, errno),
    })?;
    let same = journal.begun().is_none_or(|b| b.fingerprint == fingerprint(options, source));
    if !same {
        return Err(refuse(format!(
            "its journal belongs to a copy of another source or with other flags; repeat that \
             command, or remove {} to begin anew",
            path.display()
        )));
    }
    Ok(journal)
}

fn make_aside(parent: OwnedFd, name: &OsStr) -> Sys<Target> {
    let temporary = loop {
        let temporary = stale::temporary_name(name, stale::Kind::Tree)?;
        match directory::make(&parent, &temporary, 0o700) {
            Err(Errno::EEXIST) => {}
            other => break other.map(|()| temporary)?,
        }
    };
    let opened = directory::open_child(&parent, &temporary).and_then(|fd| {
        // Other runs see that this is no leftover.
        let _ = file::try_lock(&fd);
        file::stat(&fd).map(|stat| (fd, stat))
    });
    let aside = Aside { parent, temporary, name: name.to_owned() };
    if opened.is_err() {
        aside.remove();
    }
    let ((fd, stat), aside) = (opened?, Some(aside));
    Ok(Target { fd, stat, aside, absent: false, resumed: false, journal: None })
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

impl Aside {
    /// Gives the finished tree its name.
    pub(super) fn put_in_place(&self, destination: &Path, durable: bool) -> Result<()> {
        name::rename_new_directory(&self.parent, &self.temporary, &self.name)
            .map_err(|errno| Error::system("put in place", destination, errno))?;
        stale::remove_leftovers(self.parent.as_fd(), &self.name, stale::Kind::Tree);
        if durable {
            name::open_directory_for_reading(&self.parent)
                .and_then(file::sync)
                .map_err(|e| Error::system("flush the directory of", destination, e))?;
        }
        Ok(())
    }

    /// Takes back what was made.
    pub(super) fn remove(&self) {
        // Left for the next run to remove if even this fails.
        let _ = remove::tree(&self.parent, &self.temporary);
    }
}
