//! A directory of the source and the one that its copy is made in, for as long as the job works on
//! them.
//!
//! Neither is ever reached by its whole path: a child is opened from its parent's descriptor, and a
//! directory whose descriptors were given up is opened again beneath its root, with every symbolic
//! link refused, and held against the device and inode that it had.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::creation_defaults::CreationDefaults;
use crate::stale::{Noting, Register};
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::Sys;
use uncopy_os::capabilities::Filesystem;
use uncopy_os::directory;
use uncopy_os::file::{self, Stat};

/// Device and inode: which file it is.
pub(super) type Identity = ((u32, u32), u64);

pub(super) fn identity(stat: &Stat) -> Identity {
    (stat.device, stat.inode)
}

/// The two directories, open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) source: OwnedFd,
    pub(super) destination: Arc<OwnedFd>,
    /// Filesystems of source and destination.
    pub(super) filesystems: (Filesystem, Filesystem),
}

impl Open {
    pub(super) fn new(source: OwnedFd, destination: OwnedFd) -> Open {
        let kind = |fd: &OwnedFd| Filesystem::from_magic(file::filesystem_magic(fd).unwrap_or(0));
        let filesystems = (kind(&source), kind(&destination));
        Open { source, destination: Arc::new(destination), filesystems }
    }

    /// A child of two directories, on the same filesystems by device.
    pub(super) fn below(
        above: &Open,
        child: (OwnedFd, bool),
        destination: Option<(OwnedFd, bool)>,
    ) -> Open {
        let kind = |fd: &OwnedFd, same: bool, known: Filesystem| match same {
            true => known,
            false => Filesystem::from_magic(file::filesystem_magic(fd).unwrap_or(0)),
        };
        let source = kind(&child.0, child.1, above.filesystems.0);
        let (destination, filesystem) = match destination {
            Some((fd, same)) => {
                let filesystem = kind(&fd, same, above.filesystems.1);
                (Arc::new(fd), filesystem)
            }
            // One that is not there would be made on the filesystem of the one above.
            None => (Arc::clone(&above.destination), above.filesystems.1),
        };
        Open { source: child.0, destination, filesystems: (source, filesystem) }
    }

    /// Filesystem of a file in the source, a directory with this status. A file on the device of its
    /// directory lies on its filesystem.
    pub(super) fn filesystem_of(&self, directory: &Stat, fd: &OwnedFd, stat: &Stat) -> Filesystem {
        if stat.device == directory.device {
            return self.filesystems.0;
        }
        Filesystem::from_magic(file::filesystem_magic(fd).unwrap_or(0))
    }
}

/// Where a directory stands.
#[derive(Debug)]
pub(super) enum Parent {
    /// A root of the job, or what a root that is no directory lies in, as the caller named it.
    Root { source: PathBuf, destination: PathBuf, register: Register },
    /// In another directory.
    Child { parent: Arc<Directory>, name: OsString },
}

/// Facts about a pair of directories when they are entered.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) source: Stat,
    pub(super) destination: Identity,
    /// This job made the destination.
    pub(super) fresh: bool,
    /// In a dry run: it would make it. Whatever is open in its place is not looked at.
    pub(super) absent: bool,
    /// The destination lies in a tree that appears under its own name when it is complete.
    pub(super) private: bool,
    /// All that is in the source is copied, and not one entry that the caller named.
    pub(super) whole: bool,
    /// The source was reached through a symbolic link, so that no path without one leads to it.
    pub(super) linked: bool,
}

impl Entered {
    /// Nobody has looked into the destination yet, this job neither: names can be used at once.
    pub(super) fn is_unseen(&self) -> bool {
        self.private && self.fresh
    }

    /// The destination was begun by a run that was killed, and may hold what it left.
    pub(super) fn is_resumed(&self) -> bool {
        self.private && !self.fresh
    }
}

/// A pair of directories.
#[derive(Debug)]
pub(super) struct Directory {
    above: Option<Parent>,
    pub(super) entered: Entered,
    open: Mutex<Slot>,
    /// Tasks that are still to be done in it, its own listing among them.
    pending: AtomicUsize,
    /// Its source could not be listed to the end.
    pub(super) listing_failed: AtomicBool,
    /// Defaults of new files in the destination.
    pub(super) defaults: OnceLock<Option<CreationDefaults>>,
    /// Names of the source that the destination takes for others of them.
    doubled: OnceLock<HashSet<OsString>>,
}

#[derive(Debug, Default)]
struct Slot {
    pinned: Option<Arc<Open>>,
    shared: Weak<Open>,
}

impl Directory {
    /// A directory with one task: its listing. `pin` keeps its descriptors open until it is done.
    pub(super) fn new(above: Parent, entered: Entered, open: &Arc<Open>, pin: bool) -> Directory {
        let shared = Arc::downgrade(open);
        let pinned = pin.then(|| Arc::clone(open));
        Directory {
            above: Some(above),
            entered,
            open: Mutex::new(Slot { pinned, shared }),
            pending: AtomicUsize::new(1),
            listing_failed: AtomicBool::new(false),
            defaults: OnceLock::new(),
            doubled: OnceLock::new(),
        }
    }

    /// Keeps the names that are not copied, since their entry is another one's.
    pub(super) fn set_doubled(&self, names: HashSet<OsString>) {
        // It is listed from its beginning once.
        let _ = self.doubled.set(names);
    }

    /// Whether the destination takes a name of the source for another one.
    pub(super) fn is_doubled(&self, name: &OsStr) -> bool {
        self.doubled.get().is_some_and(|names| names.contains(name))
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn parent(&self) -> Option<&Arc<Directory>> {
        match &self.above {
            Some(Parent::Child { parent, .. }) => Some(parent),
            _ => None,
        }
    }

    /// One more task in it.
    pub(super) fn begin(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// One task less; `true`: it was the last.
    pub(super) fn end(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Gives the descriptors up; whoever has them keeps them. `true`: they had been pinned.
    pub(super) fn unpin(&self) -> bool {
        self.slot().pinned.take().is_some()
    }

    /// The open directories.
    pub(super) fn open(&self) -> Result<Arc<Open>> {
        if let Some(open) = self.slot().shared.upgrade() {
            return Ok(open);
        }
        let open = (|| {
            let (above, names) = self.nearest_open().ok_or(Errno::ESTALE)?;
            let source = directory::open_beneath(&above.source, &names, false)?;
            if self.entered.absent {
                return Ok(Open::below(&above, (source, false), None));
            }
            let destination = open_destination(&above, &names)?;
            Sys::Ok(Open::new(source, destination))
        })();
        let open = open.map_err(|errno| Error::system("open again", self.source_path(), errno))?;
        check(&open.source, identity(&self.entered.source), &self.source_path())?;
        if !self.entered.absent {
            check(&open.destination, self.entered.destination, &self.destination_path())?;
        }
        let open = Arc::new(open);
        self.slot().shared = Arc::downgrade(&open);
        Ok(open)
    }

    /// The destination alone.
    pub(super) fn open_destination(&self) -> Result<Arc<OwnedFd>> {
        if let Some(open) = self.slot().shared.upgrade() {
            return Ok(Arc::clone(&open.destination));
        }
        let opened = self.nearest_open().ok_or(Errno::ESTALE);
        let destination = opened
            .and_then(|(above, names)| open_destination(&above, &names))
            .map_err(|errno| Error::destination("open again", self.destination_path(), errno))?;
        check(&destination, self.entered.destination, &self.destination_path())?;
        Ok(Arc::new(destination))
    }

    /// The nearest directory above that is open, and the names that lead from it to this one.
    /// There is always one: a root stays open as long as the job works below it.
    fn nearest_open(&self) -> Option<(Arc<Open>, Vec<&OsStr>)> {
        let mut names = Vec::new();
        let mut at = self;
        loop {
            if let Some(open) = at.slot().shared.upgrade() {
                names.reverse();
                return Some((open, names));
            }
            match &at.above {
                Some(Parent::Child { parent, name }) => {
                    names.push(name.as_os_str());
                    at = parent;
                }
                _ => return None,
            }
        }
    }

    /// Whether `directory` is this one or above it, by its source.
    pub(super) fn lies_in(&self, directory: Identity) -> bool {
        let mut at = self;
        loop {
            if identity(&at.entered.source) == directory {
                return true;
            }
            match at.parent() {
                Some(parent) => at = parent,
                None => return false,
            }
        }
    }

    /// The open root, and the path that leads from its source to this directory.
    pub(super) fn way_from_root(&self) -> Result<(Arc<Open>, PathBuf)> {
        let mut root = self;
        while let Some(parent) = root.parent() {
            root = parent;
        }
        Ok((root.open()?, self.path_from_root()))
    }

    /// Where the temporary names of its root are noted.
    pub(super) fn register(&self) -> &Register {
        static NOWHERE: Register = Register::none();
        let mut at = self;
        loop {
            match &at.above {
                Some(Parent::Child { parent, .. }) => at = parent,
                Some(Parent::Root { register, .. }) => return register,
                None => return &NOWHERE,
            }
        }
    }

    /// Where its own are noted; `path` is [`Directory::path_from_root`].
    pub(super) fn noting<'a>(&'a self, path: &'a dyn Fn() -> PathBuf) -> Noting<'a> {
        Noting { register: self.register(), path, brief: self.entered.whole }
    }

    /// Its path from its root, which has an empty one.
    pub(super) fn path_from_root(&self) -> PathBuf {
        self.path(|_, _| PathBuf::new())
    }

    pub(super) fn source_path(&self) -> PathBuf {
        self.path(|source, _| source.to_owned())
    }

    pub(super) fn destination_path(&self) -> PathBuf {
        self.path(|_, destination| destination.to_owned())
    }

    /// Its paths in source and destination.
    pub(super) fn names(&self) -> (PathBuf, PathBuf) {
        (self.source_path(), self.destination_path())
    }

    fn path(&self, root: impl FnOnce(&Path, &Path) -> PathBuf) -> PathBuf {
        let mut names = Vec::new();
        let mut at = self;
        let mut path = loop {
            match &at.above {
                Some(Parent::Child { parent, name }) => {
                    names.push(name);
                    at = parent;
                }
                Some(Parent::Root { source, destination, .. }) => break root(source, destination),
                None => break PathBuf::new(),
            }
        };
        for name in names.into_iter().rev() {
            path.push(name);
        }
        path
    }
}

/// Refuses a directory that is not the one which was there before.
fn check(fd: &OwnedFd, expected: Identity, path: &Path) -> Result<()> {
    let stat = file::stat(fd).map_err(|errno| Error::system("examine", path, errno))?;
    if identity(&stat) == expected {
        return Ok(());
    }
    Err(Error::new("go on in", path, Reason::Refused(Objection::DirectoryReplaced)))
}

/// A destination is opened to be listed, flushed and given metadata, or at least as a place.
fn open_destination(above: &Open, names: &[&OsStr]) -> Sys<OwnedFd> {
    directory::open_beneath(&above.destination, names, false)
        .or_else(|_| directory::open_beneath(&above.destination, names, true))
}

impl Drop for Directory {
    /// One after the other: thousands of levels would be as many calls within each other.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(Parent::Child { parent, .. }) = above {
            above = Arc::into_inner(parent).and_then(|mut parent| parent.above.take());
        }
    }
}
