//! Compares two files, or two trees directory by directory.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, OFlags};

use super::contents::{Buffers, SideError, are_same};
use super::result::{Comparison, Difference, FindingKind, unreadable};
use super::{CompareObserver, CompareOptions, CompareSummary, finish};
use crate::ledger_name::is_ledger;
use crate::pool::Pool;
use uncopy_core::{Errno, Error, Reason, Result};
use uncopy_os::file::Stat;
use uncopy_os::{Sys, directory, file, follow, name};

/// Compares a file with a file, or a directory and all that is in it with a directory: contents, types,
/// targets of symbolic links and numbers of device files, no other metadata.
///
/// # Errors
/// The source or the destination cannot be opened, or the observer stopped the comparison. What cannot be
/// read in them is a finding.
pub fn compare(
    source: impl AsRef<Path>,
    destination: impl AsRef<Path>,
    options: &CompareOptions,
    observer: &dyn CompareObserver,
) -> Result<CompareSummary> {
    let (source, destination) = (source.as_ref(), destination.as_ref());
    let stat = follow::stat(source).map_err(|error| error.error("examine", source))?;
    let comparison = Comparison::new(observer);
    let kind = stat.file_type();
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Err(Error::new("compare", source, Reason::NotRegular { kind: kind.into() }));
    }
    let difference = match follow::stat(destination) {
        Ok(found) => (found.file_type() != kind).then_some(Difference::Type),
        Err(error) if is_missing(error.errno()) => Some(Difference::Missing),
        Err(error) => return Err(error.error("examine", destination)),
    };
    if let Some(difference) = difference {
        comparison.finish(PathBuf::new, Some(FindingKind::Differs(difference)));
        return finish(comparison, source);
    }
    let open =
        |path: &Path, flags| follow::open(path, flags).map_err(|error| error.error("open", path));
    if kind == FileType::RegularFile {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let (from, to) = (open(source, flags)?, open(destination, flags)?);
        let found = match are_same(&from, &to, &mut Buffers::new(), |n| comparison.add_bytes(n)) {
            Ok(true) => None,
            Ok(false) => Some(FindingKind::Differs(Difference::Content)),
            Err(SideError::Source(errno)) => Some(unreadable("read", source, errno)),
            Err(SideError::Destination(errno)) => Some(unreadable("read", destination, errno)),
        };
        comparison.finish(PathBuf::new, found);
        return finish(comparison, source);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let trees = Trees {
        paths: (source, destination),
        roots: (open(source, flags)?, open(destination, flags)?),
        strict: options.strict,
        comparison: &comparison,
        spare: Mutex::default(),
    };
    comparison.finish(PathBuf::new, None);
    Pool::run(options.threads(), Task::Directory(Vec::new()), |task, pool| match task {
        _ if comparison.is_stopped() => {}
        Task::Directory(names) => trees.compare_directory(&names, pool),
        Task::Files(pair, names) => trees.compare_files(&pair, &names),
    });
    drop(trees);
    finish(comparison, source)
}

/// Whether the error says that there is no such entry.
fn is_missing(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ENOTDIR)
}

/// Number of files that one thread takes at a time.
const FILES_AT_A_TIME: usize = 16;

enum Task {
    /// A directory, by its path from the root.
    Directory(Vec<OsString>),
    /// Files of a directory.
    Files(Arc<OpenPair>, Vec<OsString>),
}

/// The same directory in both trees.
struct OpenPair {
    /// Path from the root.
    path: PathBuf,
    source: OwnedFd,
    destination: OwnedFd,
}

struct Trees<'a> {
    paths: (&'a Path, &'a Path),
    roots: (OwnedFd, OwnedFd),
    strict: bool,
    comparison: &'a Comparison<'a>,
    /// Memory of threads that compare no file at present.
    spare: Mutex<Vec<Buffers>>,
}

impl Trees<'_> {
    fn compare_directory(&self, names: &[OsString], pool: &Pool<Task>) {
        let path: PathBuf = names.iter().collect();
        let (pair, entries) = match self.open(names, path) {
            Ok(opened) => opened,
            Err((path, found)) => return self.comparison.find(path, found),
        };
        let pair = Arc::new(pair);
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        for (name, kind) in &entries {
            let whole = || pair.path.join(name);
            match kind {
                FileType::RegularFile => files.push(name.clone()),
                FileType::Directory => {
                    let found = expect(&pair.destination, name, FileType::Directory);
                    if found.is_ok() {
                        directories.push(name.clone());
                    }
                    self.finish_with(whole, found.map(|_| None));
                }
                FileType::Symlink => self.finish_with(whole, compare_links(&pair, name)),
                _ => self.finish_with(whole, compare_specials(&pair, name)),
            }
        }
        if self.strict {
            self.find_extra(&pair, &entries);
        }
        for name in directories.into_iter().rev() {
            let mut below = names.to_vec();
            below.push(name);
            pool.add(Task::Directory(below));
        }
        // Taken before the directories, so that few pairs are open.
        for some in files.chunks(FILES_AT_A_TIME).rev() {
            pool.add(Task::Files(Arc::clone(&pair), some.to_vec()));
        }
    }

    /// Opens the directory in both trees, and lists it in the source.
    fn open(
        &self,
        names: &[OsString],
        path: PathBuf,
    ) -> std::result::Result<(OpenPair, Vec<Listed>), (PathBuf, FindingKind)> {
        let refs: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
        let source = directory::open_beneath(&self.roots.0, &refs, false)
            .and_then(|fd| list(&fd).map(|entries| (fd, entries)));
        let (source, entries) = match source {
            Ok(opened) => opened,
            Err(errno) => {
                let found = unreadable("list", self.paths.0.join(&path), errno);
                return Err((path, found));
            }
        };
        match directory::open_beneath(&self.roots.1, &refs, !self.strict) {
            Ok(destination) => Ok((OpenPair { path, source, destination }, entries)),
            Err(errno) => {
                let found = unreadable("open", self.paths.1.join(&path), errno);
                Err((path, found))
            }
        }
    }

    fn find_extra(&self, pair: &OpenPair, entries: &[Listed]) {
        match list(&pair.destination) {
            Ok(found) => {
                for (name, _) in found {
                    if entries.binary_search_by(|(known, _)| known.cmp(&name)).is_err() {
                        let found = FindingKind::Differs(Difference::Extra);
                        self.comparison.find(pair.path.join(name), found);
                    }
                }
            }
            Err(errno) => {
                let path = self.paths.1.join(&pair.path);
                self.comparison.find(pair.path.clone(), unreadable("list", path, errno));
            }
        }
    }

    fn compare_files(&self, pair: &OpenPair, names: &[OsString]) {
        let lock = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffers = lock().pop().unwrap_or_else(Buffers::new);
        for name in names {
            if self.comparison.is_stopped() {
                break;
            }
            let found = self.compare_file(pair, name, &mut buffers);
            self.finish_with(|| pair.path.join(name), found);
        }
        lock().push(buffers);
    }

    fn compare_file(&self, pair: &OpenPair, name: &OsStr, buffers: &mut Buffers) -> Compared {
        expect(&pair.destination, name, FileType::RegularFile)?;
        let source = open_file(&pair.source, name).map_err(|e| Trouble::Source("open", e))?;
        let destination =
            open_file(&pair.destination, name).map_err(|e| Trouble::Destination("open", e))?;
        match are_same(&source, &destination, buffers, |n| self.comparison.add_bytes(n)) {
            Ok(true) => Ok(None),
            Ok(false) => Ok(Some(Difference::Content)),
            Err(SideError::Source(errno)) => Err(Trouble::Source("read", errno)),
            Err(SideError::Destination(errno)) => Err(Trouble::Destination("read", errno)),
        }
    }

    fn finish_with(&self, path: impl Fn() -> PathBuf, compared: Compared) {
        let found = match compared {
            Ok(difference) => difference.map(FindingKind::Differs),
            Err(Trouble::Differs(difference)) => Some(FindingKind::Differs(difference)),
            Err(Trouble::Source(operation, errno)) => {
                Some(unreadable(operation, self.paths.0.join(path()), errno))
            }
            Err(Trouble::Destination(operation, errno)) => {
                Some(unreadable(operation, self.paths.1.join(path()), errno))
            }
        };
        self.comparison.finish(path, found);
    }
}

/// Name and type of an entry.
type Listed = (OsString, FileType);

/// Result of comparing an entry; `None`: it is the same.
type Compared = std::result::Result<Option<Difference>, Trouble>;

/// Reason why an entry was not compared to its end.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    Differs(Difference),
    Source(&'static str, Errno),
    Destination(&'static str, Errno),
}

/// Returns the status of an entry of the destination, if it has this type.
fn expect(directory: &OwnedFd, name: &OsStr, kind: FileType) -> std::result::Result<Stat, Trouble> {
    match directory::stat_name(directory, name) {
        Ok(stat) if stat.file_type() == kind => Ok(stat),
        Ok(_) => Err(Trouble::Differs(Difference::Type)),
        Err(errno) if is_missing(errno) => Err(Trouble::Differs(Difference::Missing)),
        Err(errno) => Err(Trouble::Destination("examine", errno)),
    }
}

fn compare_links(pair: &OpenPair, name: &OsStr) -> Compared {
    let read = |side: &OwnedFd| directory::read_link(side, name);
    let source = read(&pair.source).map_err(|e| Trouble::Source("read the link", e))?;
    expect(&pair.destination, name, FileType::Symlink)?;
    let found = read(&pair.destination).map_err(|e| Trouble::Destination("read the link", e))?;
    Ok((source != found).then_some(Difference::LinkTarget))
}

fn compare_specials(pair: &OpenPair, name: &OsStr) -> Compared {
    let source = directory::stat_name(&pair.source, name);
    let source = source.map_err(|e| Trouble::Source("examine", e))?;
    let found = expect(&pair.destination, name, source.file_type())?;
    Ok((source.special != found.special).then_some(Difference::Device))
}

/// Opens a regular file of a directory, and nothing else.
pub(super) fn open_file(directory: impl AsFd, name: &OsStr) -> Sys<OwnedFd> {
    let fd = name::open_existing(directory, name, OFlags::RDONLY)?;
    match file::stat(&fd)?.file_type() {
        FileType::RegularFile => Ok(fd),
        // It took the place of a file meanwhile.
        _ => Err(Errno::EINVAL),
    }
}

/// Lists a directory, by name, without the ledgers of units: no copy has those.
pub(super) fn list(fd: &OwnedFd) -> Sys<Vec<Listed>> {
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut entries = Vec::new();
    directory::list(fd, buffer.spare_capacity_mut(), |entry| {
        let name = OsStr::from_bytes(entry.name.to_bytes()).to_owned();
        entries.push((name, entry.kind));
        true
    })?;
    for (name, kind) in &mut entries {
        if *kind == FileType::Unknown {
            // Some filesystems do not say (readdir(3)).
            *kind = directory::stat_name(fd, name)?.file_type();
        }
    }
    entries.retain(|(name, kind)| !is_ledger(name, *kind == FileType::Directory));
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}
