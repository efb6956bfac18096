//! Preserves hard links: the names of one file in the source become names of one file in the copy.

mod spill;

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use spill::Spill;

use super::directory::{Directory, Identity, check};
use super::place::Place;
use super::target::or_here;
use uncopy_core::{Error, Result};
use uncopy_os::file_id::FileId;
use uncopy_os::{Sys, follow};

/// Default number of files with further expected names that are kept in memory; further files go to
/// disk.
const MAX_KEPT: usize = 1 << 14;

/// Maximum number of names that wait for the first one of their file; a worker that finds more
/// waits itself.
const MAX_WAITING: usize = 1 << 12;

/// Device of files that are known from a journal, which stores no device numbers.
const JOURNALLED: (u32, u32) = (u32::MAX, u32::MAX);

/// A name in a directory of the job.
#[derive(Debug)]
pub(super) struct OwnedPlace {
    pub(super) directory: Arc<Directory>,
    /// Name in the source.
    pub(super) name: OsString,
    /// Name in the destination; it differs only for a root.
    pub(super) target: OsString,
}

impl OwnedPlace {
    pub(super) fn new(place: &Place<'_>) -> OwnedPlace {
        OwnedPlace {
            directory: Arc::clone(place.directory),
            name: place.name.to_owned(),
            target: place.target.to_owned(),
        }
    }

    /// Returns its paths in source and destination.
    pub(super) fn names(&self) -> (PathBuf, PathBuf) {
        let source = self.directory.source_path().join(&self.name);
        (source, self.directory.destination_path().join(&self.target))
    }
}

/// The root of a copied file. It keeps no descriptor: a job may have more roots than those it may open.
#[derive(Debug)]
pub(super) struct LinkRoot {
    /// Gone once all entries of the root are done.
    directory: Weak<Directory>,
    destination: PathBuf,
    identity: Identity,
}

impl LinkRoot {
    fn of(root: &Arc<Directory>) -> LinkRoot {
        LinkRoot {
            directory: Arc::downgrade(root),
            destination: root.destination_path(),
            identity: root.entered.destination,
        }
    }

    /// Returns the open destination: the one that the job works in, or the one of this path if it is the same.
    pub(super) fn open_destination(&self) -> Result<Arc<OwnedFd>> {
        if let Some(root) = self.directory.upgrade() {
            return root.open_destination();
        }
        let path = or_here(&self.destination);
        let opened = follow::open_directory(path)
            .map_err(|stopped| stopped.at_destination("open again", path))?;
        check(&opened, self.identity, path)?;
        Ok(Arc::new(opened))
    }
}

/// The destination name of a copied file.
#[derive(Debug, Clone)]
pub(super) struct First {
    pub(super) root: Arc<LinkRoot>,
    /// Path in the destination, from its root.
    pub(super) path: PathBuf,
    /// Whether the file was renamed, because it was compressed or decompressed.
    pub(super) renamed: bool,
    /// The file that has the name: a later root may replace it. `None`: not known, as an earlier run copied it or a dry run
    /// would.
    pub(super) copy: Option<FileId>,
}

impl First {
    pub(super) fn new(place: &Place<'_>) -> First {
        let root = root_of(place);
        let path = place.directory.path_from_root().join(place.target);
        let (root, renamed) = (Arc::new(LinkRoot::of(root)), place.is_renamed());
        First { root, path, renamed, copy: None }
    }

    pub(super) fn destination(&self) -> PathBuf {
        self.root.destination.join(&self.path)
    }

    /// Whether it is in the same root.
    pub(super) fn is_in_root_of(&self, place: &Place<'_>) -> bool {
        self.root.directory.as_ptr() == Arc::as_ptr(root_of(place))
    }
}

fn root_of<'a>(place: &Place<'a>) -> &'a Arc<Directory> {
    let mut root = place.directory;
    while let Some(parent) = root.parent() {
        root = parent;
    }
    root
}

/// Claim of a name of a file that has several.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is the first of them: copy it, and call [`Links::copied`] or [`Links::failed`]. An earlier
    /// run may have copied it under this name.
    First(Option<First>),
    /// Another worker is copying it and will see to this name.
    Waits,
    /// It is copied, under this name.
    Copied(First),
}

/// The files with several names that were met and whose other names are still expected.
#[derive(Debug)]
pub(super) struct Links {
    state: Mutex<LinksState>,
    /// Signals that a file is no longer being copied.
    copied: Condvar,
}

#[derive(Debug, Default)]
struct LinksState {
    /// Maximum number kept in memory; further ones go to disk.
    max_kept: usize,
    /// Being copied; these names wait.
    copying: HashMap<Identity, Vec<OwnedPlace>>,
    waiting: usize,
    /// Copied, and further names are expected.
    kept: HashMap<Identity, Copied>,
    spilled: Option<Spill>,
    roots: Vec<Arc<LinkRoot>>,
}

/// The name under which a file was copied, and the number of further names.
#[derive(Debug, PartialEq, Eq)]
struct Copied {
    root: u32,
    path: OsString,
    renamed: bool,
    copy: Option<FileId>,
    expected: u32,
}

impl Links {
    pub(super) fn new(max_kept: Option<usize>) -> Links {
        let state = LinksState { max_kept: max_kept.unwrap_or(MAX_KEPT), ..LinksState::default() };
        Links { state: Mutex::new(state), copied: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, LinksState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides what to do with a name of a file. `is_gone`: whether the copy under a name was replaced.
    pub(super) fn claim(
        &self,
        file: Identity,
        place: impl FnOnce() -> OwnedPlace,
        is_gone: impl FnOnce(&First) -> bool,
    ) -> Result<Claim> {
        let mut state = self.lock();
        while state.waiting >= MAX_WAITING && state.copying.contains_key(&file) {
            state = self.copied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(waiting) = state.copying.get_mut(&file) {
            waiting.push(place());
            state.waiting += 1;
            return Ok(Claim::Waits);
        }
        let taken = state.take(file).and_then(|found| match found {
            Some(first) => Ok((Some(first), None)),
            None => state.take((JOURNALLED, file.1)).map(|prior| (None, prior)),
        });
        let (first, prior) = taken.map_err(|errno| {
            Error::destination("look up the other names of", place().names().0, errno)
        })?;
        // If it was, this name gets the copy that further ones are linked to.
        if let Some(first) = first.filter(|first| !is_gone(first)) {
            return Ok(Claim::Copied(first));
        }
        state.copying.insert(file, Vec::new());
        Ok(Claim::First(prior))
    }

    /// Records that the first name is copied, of a file with this number of links. Returns the
    /// names that waited for it, and whether later names will be recognized.
    pub(super) fn copied(
        &self,
        file: Identity,
        links: u32,
        first: &First,
    ) -> (Vec<OwnedPlace>, Result<()>) {
        let mut state = self.lock();
        let waiting = state.end_waiting(file);
        // Names outside the tree are never met; names made during the copy are copied again.
        let met = 1 + u32::try_from(waiting.len()).unwrap_or(u32::MAX);
        let expected = links.saturating_sub(met);
        let put = state.put(file, first, expected);
        drop(state);
        self.copied.notify_all();
        let put =
            put.map_err(|errno| Error::destination("note the name", first.destination(), errno));
        (waiting, put)
    }

    /// Records that the first name could not be copied. Returns the names that waited for it, one
    /// of which becomes the first.
    pub(super) fn failed(&self, file: Identity) -> Vec<OwnedPlace> {
        let waiting = self.lock().end_waiting(file);
        self.copied.notify_all();
        waiting
    }

    /// Records that an earlier run copied the file with this inode under this name of the source.
    pub(super) fn was_copied(&self, inode: u64, root: &Arc<Directory>, path: &Path) -> Sys<()> {
        let root = Arc::new(LinkRoot::of(root));
        let first = First { root, path: path.to_owned(), renamed: false, copy: None };
        // Each file is looked up once.
        self.lock().put((JOURNALLED, inode), &first, 1)
    }
}

impl LinksState {
    fn end_waiting(&mut self, file: Identity) -> Vec<OwnedPlace> {
        let waiting = self.copying.remove(&file).unwrap_or_default();
        self.waiting -= waiting.len();
        waiting
    }

    /// Returns the name of a copied file, and expects one name less.
    fn take(&mut self, file: Identity) -> Sys<Option<First>> {
        let (root, path, renamed, copy) = if let Some(copied) = self.kept.get_mut(&file) {
            copied.expected -= 1;
            let found = (copied.root, copied.path.clone(), copied.renamed, copied.copy);
            if copied.expected == 0 {
                self.kept.remove(&file);
            }
            found
        } else {
            let Some(spilled) = &self.spilled else { return Ok(None) };
            let Some(found) = spilled.find(file)? else { return Ok(None) };
            spilled.expect(&found, found.copied.expected - 1)?;
            let Copied { root, path, renamed, copy, .. } = found.copied;
            (root, path, renamed, copy)
        };
        let root = self.roots.get(root as usize).map(Arc::clone);
        Ok(root.map(|root| First { root, path: path.into(), renamed, copy }))
    }

    fn put(&mut self, file: Identity, first: &First, expected: u32) -> Sys<()> {
        if expected == 0 {
            return Ok(());
        }
        // Roots are copied one after the other. A weak pointer keeps the address from being used again.
        let is_it = |root: &Arc<LinkRoot>| Weak::ptr_eq(&root.directory, &first.root.directory);
        let known = self.roots.iter().rposition(is_it);
        let root = known.unwrap_or_else(|| {
            self.roots.push(Arc::clone(&first.root));
            self.roots.len() - 1
        });
        let root = u32::try_from(root).unwrap_or(u32::MAX);
        let (path, renamed) = (first.path.clone().into(), first.renamed);
        let copied = Copied { root, path, renamed, copy: first.copy, expected };
        if self.kept.len() < self.max_kept || self.kept.contains_key(&file) {
            self.kept.insert(file, copied);
            return Ok(());
        }
        if self.spilled.is_none() {
            let directory = first
                .root
                .open_destination()
                .map_err(|error| error.errno().unwrap_or(uncopy_core::Errno::EIO))?;
            self.spilled = Some(Spill::new(&*directory)?);
        }
        self.spilled.as_mut().map_or(Ok(()), |spilled| spilled.insert(file, &copied))
    }
}
