//! Defines the pair of a source directory and its destination, for as long as the job works on
//! them.
//!
//! Neither is ever opened by its whole path. A child is opened from its parent's descriptor. A
//! directory whose descriptors were closed is opened again from its root, with every symbolic link
//! refused, and its device and inode are compared with the former ones.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::earlier::Earlier;
use crate::creation_defaults::CreationDefaults;
use crate::peer_directory::PeerDirectory;
use crate::source_directory::SourceDirectory;
use crate::source_file::SourceFile;
use crate::stale::{Noting, Register};
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::Sys;
use uncopy_os::capabilities::Filesystem;
use uncopy_os::directory;
use uncopy_os::file::{self, Stat};
use uncopy_os::name;

/// Device and inode, which identify a file.
pub(super) type Identity = ((u32, u32), u64);

pub(super) fn identity(stat: &Stat) -> Identity {
    (stat.device, stat.inode)
}

/// The two directories, open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) source: SourceDirectory,
    pub(super) destination: Arc<OwnedFd>,
    /// Filesystems of source and destination.
    pub(super) filesystems: (Filesystem, Filesystem),
}

impl Open {
    pub(super) fn new(source: SourceDirectory, destination: OwnedFd) -> Open {
        let filesystem = filesystem_of(source.here());
        Open::known(source, filesystem, destination)
    }

    /// Makes the pair of a source whose filesystem is known.
    pub(super) fn known(
        source: SourceDirectory,
        filesystem: Filesystem,
        destination: OwnedFd,
    ) -> Open {
        let filesystems = (filesystem, filesystem_of(Some(&destination)));
        Open { source, destination: Arc::new(destination), filesystems }
    }

    /// Returns the source, if it is in an overlay of this machine.
    pub(super) fn overlay(&self) -> Option<&OwnedFd> {
        self.source.here().filter(|_| self.filesystems.0 == Filesystem::OVERLAYFS)
    }

    /// Makes the pair of a child of two directories; it is on the same filesystems if the devices
    /// are the same.
    pub(super) fn below(
        above: &Open,
        child: (SourceDirectory, bool),
        destination: Option<(OwnedFd, bool)>,
    ) -> Open {
        let kind = |fd: Option<&OwnedFd>, same: bool, known: Filesystem| match same {
            true => known,
            false => filesystem_of(fd),
        };
        let source = kind(child.0.here(), child.1, above.filesystems.0);
        let (destination, filesystem) = match destination {
            Some((fd, same)) => {
                let filesystem = kind(Some(&fd), same, above.filesystems.1);
                (Arc::new(fd), filesystem)
            }
            // A missing directory would be created on its parent's filesystem.
            None => (Arc::clone(&above.destination), above.filesystems.1),
        };
        Open { source: child.0, destination, filesystems: (source, filesystem) }
    }

    /// Filesystem of a file in the source, a directory with this status. A file on the device of its
    /// directory lies on its filesystem.
    pub(super) fn filesystem_of(
        &self,
        directory: &Stat,
        file: &SourceFile,
        stat: &Stat,
    ) -> Filesystem {
        if stat.device == directory.device {
            return self.filesystems.0;
        }
        filesystem_of(file.here())
    }
}

/// Returns the filesystem of what is open; that of another machine is not known.
pub(super) fn filesystem_of(fd: Option<impl AsFd>) -> Filesystem {
    let magic = fd.and_then(|fd| file::filesystem_magic(fd).ok());
    Filesystem::from_magic(magic.unwrap_or(0))
}

/// Position of a directory in its tree.
#[derive(Debug)]
pub(super) enum Parent {
    /// A root of the job, or the parent directory of a root that is no directory, as the caller
    /// named it.
    Root { source: PathBuf, destination: PathBuf, register: Register, earlier: Box<[Earlier]> },
    /// A directory inside another one.
    Child { parent: Arc<Directory>, name: OsString },
}

/// Facts about a pair of directories when they are entered.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) source: Stat,
    pub(super) destination: Identity,
    /// Whether this job made the destination.
    pub(super) fresh: bool,
    /// Whether an earlier run of this job made the destination, in a tree that has its name.
    pub(super) remade: bool,
    /// Whether this is a dry run that would make it. The directory opened in its place is not
    /// looked at.
    pub(super) absent: bool,
    /// Whether the destination is in a tree that gets its final name only when it is complete.
    pub(super) private: bool,
    /// Whether everything in the source is copied, and not a single entry that the caller named.
    pub(super) whole: bool,
    /// Whether the source was reached through a symbolic link, so that no path without one leads to
    /// it.
    pub(super) linked: bool,
}

impl Entered {
    /// Whether no process has used the destination yet, so that names in it can be used at once.
    pub(super) fn is_unseen(&self) -> bool {
        self.private && self.fresh
    }

    /// Whether this job made the destination, in this run or in an earlier one: nothing of it is the caller's.
    pub(super) fn is_ours(&self) -> bool {
        self.fresh || self.private || self.remade
    }

    /// Whether a killed run began the destination, which may contain its leftovers.
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
    /// Whether its source could not be listed to the end.
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
    /// Source on another machine, which stays open: it takes no descriptor, and long to open again.
    there: Option<Arc<PeerDirectory>>,
}

impl Directory {
    /// A directory with one task: its listing. `pin` keeps its descriptors open until it is done.
    pub(super) fn new(above: Parent, entered: Entered, open: &Arc<Open>, pin: bool) -> Directory {
        let shared = Arc::downgrade(open);
        let pinned = pin.then(|| Arc::clone(open));
        Directory {
            above: Some(above),
            entered,
            open: Mutex::new(Slot { pinned, shared, there: open.source.there().cloned() }),
            pending: AtomicUsize::new(1),
            listing_failed: AtomicBool::new(false),
            defaults: OnceLock::new(),
            doubled: OnceLock::new(),
        }
    }

    /// Stores the names that are not copied because their entry belongs to another name.
    pub(super) fn set_doubled(&self, names: HashSet<OsString>) {
        // A directory is listed from its beginning only once.
        let _ = self.doubled.set(names);
    }

    /// Whether the destination treats a name of the source as another one.
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

    /// Returns the directory that the job began with.
    pub(super) fn root(&self) -> &Directory {
        let mut root = self;
        while let Some(parent) = root.parent() {
            root = parent;
        }
        root
    }

    /// Counts one more task in it.
    pub(super) fn begin(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one task less. Returns `true` if it was the last.
    pub(super) fn end(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Gives up the descriptors; other holders keep them open. Returns `true` if they had been
    /// pinned.
    pub(super) fn unpin(&self) -> bool {
        let mut slot = self.slot();
        slot.there = None;
        slot.pinned.take().is_some()
    }

    /// Returns the open directories.
    pub(super) fn open(&self) -> Result<Arc<Open>> {
        if let Some(open) = self.slot().shared.upgrade() {
            return Ok(open);
        }
        let open = (|| {
            let (above, names) = self.nearest_open().ok_or(Errno::ESTALE)?;
            let there = self.slot().there.clone();
            let source = match there {
                Some(there) => SourceDirectory::There(there),
                None => above.source.open_beneath(&names)?,
            };
            if self.entered.absent {
                return Ok(Open::below(&above, (source, false), None));
            }
            let destination = open_destination(&above, &names)?;
            Sys::Ok(Open::new(source, destination))
        })();
        let open = open.map_err(|errno| Error::system("open again", self.source_path(), errno))?;
        check_status(open.source.stat(), identity(&self.entered.source), &self.source_path())?;
        if !self.entered.absent {
            check(&open.destination, self.entered.destination, &self.destination_path())?;
        }
        let open = Arc::new(open);
        self.slot().shared = Arc::downgrade(&open);
        Ok(open)
    }

    /// Returns the open destination alone.
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

    /// Returns the nearest open ancestor, and the names that lead from it to this directory. There
    /// is always one: a root stays open as long as the job works below it.
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

    /// Whether `directory` is this one or an ancestor of it, by its source.
    pub(super) fn lies_in(&self, directory: Identity) -> bool {
        self.times_in(directory) > 0
    }

    /// Returns how often `directory` is among this one and its ancestors, by their sources.
    pub(super) fn times_in(&self, directory: Identity) -> usize {
        let above = std::iter::successors(Some(self), |at| at.parent().map(|parent| &**parent));
        above.filter(|at| identity(&at.entered.source) == directory).count()
    }

    /// Returns the number of directories above it.
    pub(super) fn depth(&self) -> usize {
        let (mut at, mut depth) = (self, 0);
        while let Some(parent) = at.parent() {
            at = parent;
            depth += 1;
        }
        depth
    }

    /// Returns the open root, and the path from its source to this directory.
    pub(super) fn way_from_root(&self) -> Result<(Arc<Open>, PathBuf)> {
        Ok((self.root().open()?, self.path_from_root()))
    }

    /// Returns where the temporary names of its root are noted.
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

    /// Returns the earlier copies of its root.
    pub(super) fn earlier(&self) -> &[Earlier] {
        let mut at = self;
        loop {
            match &at.above {
                Some(Parent::Child { parent, .. }) => at = parent,
                Some(Parent::Root { earlier, .. }) => return earlier,
                None => return &[],
            }
        }
    }

    /// Returns where its own temporary names are noted; `path` is [`Directory::path_from_root`].
    pub(super) fn noting<'a>(&'a self, path: &'a dyn Fn() -> PathBuf) -> Noting<'a> {
        Noting { register: self.register(), path, brief: self.entered.whole }
    }

    /// Returns its path from its root; that of the root is empty.
    pub(super) fn path_from_root(&self) -> PathBuf {
        self.path(|_, _| PathBuf::new())
    }

    pub(super) fn source_path(&self) -> PathBuf {
        self.path(|source, _| source.to_owned())
    }

    pub(super) fn destination_path(&self) -> PathBuf {
        self.path(|_, destination| destination.to_owned())
    }

    /// Returns its paths in source and destination.
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

/// Refuses a directory that is not the former one.
pub(super) fn check(fd: &OwnedFd, expected: Identity, path: &Path) -> Result<()> {
    check_status(file::stat(fd), expected, path)
}

/// Does the same by its status.
fn check_status(stat: Sys<Stat>, expected: Identity, path: &Path) -> Result<()> {
    let stat = stat.map_err(|errno| Error::system("examine", path, errno))?;
    if identity(&stat) == expected {
        return Ok(());
    }
    Err(Error::new("go on in", path, Reason::Refused(Objection::DirectoryReplaced)))
}

/// Makes a directory of this status writable if its mode forbids that: a killed run had finished it, or the umask takes
/// permissions from the owner. Returns it opened for reading then.
pub(super) fn make_fillable(destination: &OwnedFd, stat: &Stat) -> Sys<Option<OwnedFd>> {
    let mode = stat.permissions();
    if mode & 0o700 == 0o700 {
        return Ok(None);
    }
    directory::set_permissions_of_handle(destination, mode | 0o700)?;
    name::open_directory_for_reading(destination).map(Some)
}

/// Opens a destination for listing, flushing and setting metadata, or at least as a path
/// (`O_PATH`).
fn open_destination(above: &Open, names: &[&OsStr]) -> Sys<OwnedFd> {
    directory::open_beneath(&above.destination, names, false)
        .or_else(|_| directory::open_beneath(&above.destination, names, true))
}

impl Drop for Directory {
    /// The levels are closed in a loop: thousands of them would recurse as deeply.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(Parent::Child { parent, .. }) = above {
            above = Arc::into_inner(parent).and_then(|mut parent| parent.above.take());
        }
    }
}
