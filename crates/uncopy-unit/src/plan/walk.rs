//! Walks through the source, looks at the destination beside it, and hands entries to units.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::FileType;

use super::links::LinkSpill;
use super::units::{OpenUnit, Units};
use super::{EntryProblem, PlanError, PlanRequest, PlanRoot, PlanTotals, Shared};
use crate::format::{Entry, Identity, Kind, LEDGER_DIRECTORY, RelativePath};
use uncopy_copy::guarded::{ForeseenCopy, GuardedEntry, GuardedSource, foresee};
use uncopy_copy::pool::Pool;
use uncopy_core::{Errno, Error};
use uncopy_os::file::Stat;
use uncopy_os::follow;

/// Number of waiting directories above which a listing pauses, so that a million names of subdirectories need not be
/// remembered.
const MAX_WAITING: usize = if cfg!(test) { 200 } else { 50_000 };

/// Maximum depth of a tree on another machine. Paths of 4,096 bytes (`PATH_MAX`) reach no deeper.
const MAX_DEPTH_THERE: usize = 2048;

/// Minimum number of subdirectories that a listing finds before it pauses, so that it makes progress.
const MIN_FOUND: usize = 64;

/// Open roots.
#[derive(Debug)]
pub(super) struct Roots {
    source: GuardedSource,
    source_stat: Stat,
    destination: Option<(GuardedSource, Stat)>,
}

impl Roots {
    /// Fails if another machine that has one of them was lost.
    pub(super) fn check_connected(&self) -> Result<(), Error> {
        self.source.check_connected()?;
        self.destination.as_ref().map_or(Ok(()), |(root, _)| root.check_connected())
    }
}

/// Opens the roots. The destination need not exist.
pub(super) fn open_roots(request: &PlanRequest) -> Result<Roots, PlanError> {
    let open = |root: &PlanRoot| -> Result<(GuardedSource, Stat), Error> {
        let path = root.as_path();
        let root = match root {
            PlanRoot::Here(path) => follow::open_root(path)
                .map(GuardedSource::here)
                .map_err(|stopped| stopped.error("open", path))?,
            PlanRoot::There { place, peer } => GuardedSource::there(Arc::clone(peer), 0, place)?,
        };
        let stat = root.examine().map_err(|errno| Error::system("examine", path, errno))?;
        Ok((root, stat))
    };
    let (source, source_stat) = open(&request.source)?;
    let destination = match open(&request.destination) {
        Ok(found) => Some(found),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    Ok(Roots { source, source_stat, destination })
}

/// A directory to list.
pub(super) struct Task {
    /// Path from the roots on; empty for the roots.
    path: Vec<u8>,
    /// Place of the listing to go on from.
    from: u64,
    /// The directory of the source, if it stays open until then.
    open: Option<GuardedSource>,
    /// Whether the destination has this directory.
    is_there: bool,
}

/// A walk, and what all its threads use.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    pub(super) request: &'a PlanRequest,
    pub(super) roots: &'a Roots,
    pub(super) units: &'a Units,
    pub(super) links: &'a LinkSpill,
    pub(super) shared: &'a Shared,
    pub(super) progress: &'a (dyn Fn(PlanTotals) + Sync),
}

/// An open directory.
struct Opened<'a> {
    path: &'a [u8],
    source: GuardedSource,
    destination: Option<GuardedSource>,
}

/// Visitor of entries: the open directory, the path below the root, and the name.
type VisitEntry<'a> = dyn FnMut(&GuardedSource, &[u8], &OsStr) -> Result<bool, PlanError> + 'a;

/// Taker of the entries of a directory: the path below the root, and the name.
type TakeEntry<'a> = dyn FnMut(Vec<u8>, &OsStr) -> Result<(), PlanError> + 'a;

/// Results of a listing.
struct Listed {
    unit: Option<OpenUnit>,
    found: Vec<Task>,
    /// Counted here, and added to those of all threads at the end: these would take turns at every entry.
    counts: PlanTotals,
}

impl Walk<'_> {
    /// Walks through everything. Problems are in what is shared.
    pub(super) fn run(&self) {
        let destination = self.roots.destination.as_ref();
        let entry = Entry {
            path: RelativePath::root(),
            kind: Kind::Directory,
            source: Some(Identity::from(&self.roots.source_stat)),
            destination: destination.map(|(_, stat)| Identity::from(stat)),
            with: None,
            part: None,
        };
        self.shared.entries.fetch_add(1, Ordering::Relaxed);
        self.keep(self.units.add_to_finish(&entry));
        let first = Task { path: Vec::new(), from: 0, open: None, is_there: destination.is_some() };
        Pool::run(self.request.threads.get(), first, |task, pool| {
            if !self.shared.is_over() {
                self.list(&task, pool);
                (self.progress)(self.shared.totals());
            }
        });
    }

    fn keep(&self, result: Result<(), PlanError>) {
        if let Err(error) = result {
            self.shared.end_with(error);
        }
    }

    /// Lists a directory, or as much of it as may wait.
    fn list(&self, task: &Task, pool: &Pool<Task>) {
        let opened = match self.open(task) {
            Ok(opened) => opened,
            Err(error) => return self.shared.report(error.into()),
        };
        let counts = PlanTotals::default();
        let mut listed = Listed { unit: self.units.take(), found: Vec::new(), counts };
        let most = MAX_WAITING.saturating_sub(pool.waiting()).max(MIN_FOUND);
        let read = opened.source.list(task.from, |entry| {
            match entry {
                GuardedEntry::Name(name, stat) => {
                    let added = self.add(&opened, &mut listed, name, stat);
                    self.keep(added);
                }
                // It was removed meanwhile.
                GuardedEntry::Failed(_, Errno::ENOENT) => {}
                GuardedEntry::Failed(name, errno) => {
                    let path = self.shown(&self.request.source, &joined(&task.path, name));
                    self.shared.report(Error::system("examine", path, errno).into());
                }
            }
            listed.found.len() < most && !self.shared.is_over()
        });
        self.units.give_back(listed.unit.take());
        self.shared.add(listed.counts);
        let go_on_from = match read {
            Ok(go_on_from) => go_on_from,
            Err(errno) => {
                let path = self.shown(&self.request.source, &task.path);
                return self.shared.report(Error::system("list", path, errno).into());
            }
        };
        if let Some(from) = go_on_from {
            // Below the found directories, so that they come first.
            let open = opened.source.kept_open();
            pool.add(Task { path: task.path.clone(), from, open, is_there: task.is_there });
        } else if self.request.delete.is_some() {
            self.keep(self.find_deletions(&opened));
        }
        for task in listed.found.into_iter().rev() {
            pool.add(task);
        }
    }

    fn open<'t>(&self, task: &'t Task) -> Result<Opened<'t>, Error> {
        let names: Vec<&OsStr> = names(&task.path).collect();
        let failed = |root: &PlanRoot| {
            let path = self.shown(root, &task.path);
            move |errno| Error::system("open", path, errno)
        };
        let source = match task.open.as_ref().and_then(GuardedSource::kept_open) {
            Some(open) => open,
            None => self.roots.source.open_listed(&names).map_err(failed(&self.request.source))?,
        };
        let destination = match &self.roots.destination {
            Some((root, _)) if task.is_there => match root.open_listed(&names) {
                Ok(destination) => Some(destination),
                Err(Errno::ENOENT | Errno::ENOTDIR) => None,
                Err(errno) => return Err(failed(&self.request.destination)(errno)),
            },
            _ => None,
        };
        Ok(Opened { path: &task.path, source, destination })
    }

    /// Adds an entry of a directory.
    fn add(
        &self,
        opened: &Opened<'_>,
        listed: &mut Listed,
        name: &OsStr,
        stat: Option<&Stat>,
    ) -> Result<(), PlanError> {
        if opened.path.is_empty() && name == LEDGER_DIRECTORY {
            return Ok(());
        }
        let path = joined(opened.path, name);
        let found = stat.map_or_else(|| opened.source.stat_name(name), |stat| Ok(stat.clone()));
        let stat = match found {
            Ok(stat) => stat,
            // It was removed meanwhile.
            Err(Errno::ENOENT) => return Ok(()),
            Err(errno) => {
                let path = self.shown(&self.request.source, &path);
                self.shared.report(Error::system("examine", path, errno).into());
                return Ok(());
            }
        };
        let kind = kind_of(&stat);
        if !self.selects(&path, kind) {
            return Ok(());
        }
        let is_left_out = match kind {
            Kind::Link => self.request.skip_links,
            Kind::Special => !self.request.specials,
            Kind::File | Kind::Directory => false,
        };
        if is_left_out {
            listed.counts.left_out += 1;
            return Ok(());
        }
        let destination = match &opened.destination {
            None => None,
            Some(directory) => match directory.stat_name(name) {
                Ok(stat) => Some(stat),
                Err(Errno::ENOENT) => None,
                Err(errno) => {
                    let path = self.shown(&self.request.destination, &path);
                    self.shared.report(Error::system("examine", path, errno).into());
                    return Ok(());
                }
            },
        };
        let Some(relative) = self.relative(&path) else { return Ok(()) };
        let is_directory = kind == Kind::Directory;
        if let Some(destination) = &destination
            && (kind_of(destination) == Kind::Directory) != is_directory
        {
            self.shared.report(EntryProblem::KindDiffers { path: relative });
            return Ok(());
        }
        // Names of one file are decided about together, when they are copied.
        let foreseen = match &destination {
            Some(destination) if !is_directory && stat.links == 1 => {
                self.foresee(kind, &stat, destination)
            }
            _ => ForeseenCopy::Copied,
        };
        if foreseen == ForeseenCopy::Unchanged {
            listed.counts.unchanged += 1;
            return Ok(());
        }
        listed.counts.entries += 1;
        let entry = Entry {
            path: relative,
            kind,
            source: Some(Identity::from(&stat)),
            destination: destination.as_ref().map(Identity::from),
            with: None,
            part: None,
        };
        if is_directory {
            // Another machine could make up a tree without end.
            if opened.source.is_there() && entry.path.names().count() > MAX_DEPTH_THERE {
                let path = self.shown(&self.request.source, &path);
                self.shared.report(Error::system("enter", path, Errno::ELOOP).into());
                return Ok(());
            }
            self.units.add_to_finish(&entry)?;
            if !self.request.one_filesystem || self.roots.source_stat.device == stat.device {
                let is_there = destination.is_some();
                listed.found.push(Task { path, from: 0, open: None, is_there });
            }
            return Ok(());
        }
        if stat.links > 1 {
            return Ok(self.links.add(stat.device, entry)?);
        }
        if kind == Kind::File {
            listed.counts.bytes += stat.size;
        }
        match foreseen {
            // Whoever copies it reads all of it before.
            ForeseenCopy::Compared => self.units.add_uncut(&mut listed.unit, &entry),
            _ => self.units.add(&mut listed.unit, &entry),
        }
    }

    /// Foresees what a worker will do with an entry whose name is taken, unless something is changed meanwhile.
    fn foresee(&self, kind: Kind, source: &Stat, destination: &Stat) -> ForeseenCopy {
        let PlanRequest { update, compare, .. } = *self.request;
        let found_kind = kind_of(destination).into();
        foresee(update, compare, kind.into(), source, found_kind, destination)
    }

    /// Finds entries that only the destination has, with everything in them.
    fn find_deletions(&self, opened: &Opened<'_>) -> Result<(), PlanError> {
        let Some(destination) = &opened.destination else { return Ok(()) };
        self.list_destination(destination, opened.path, &mut |path, name| {
            let is_ledger = opened.path.is_empty() && name == LEDGER_DIRECTORY;
            if is_ledger || opened.source.look_up(name) != Err(Errno::ENOENT) {
                return Ok(());
            }
            let Some((stat, kind)) = self.stranger(destination, &path, name) else { return Ok(()) };
            if kind == Kind::Directory && self.holds_excluded(&path)? {
                return Ok(());
            }
            self.add_deletion(&path, &stat, kind)?;
            match kind {
                Kind::Directory => self.visit_below(path, &mut |at, path, name| {
                    let Some((stat, kind)) = self.stranger(at, path, name) else {
                        return Ok(false);
                    };
                    self.add_deletion(path, &stat, kind)?;
                    Ok(kind == Kind::Directory)
                }),
                _ => Ok(()),
            }
        })
    }

    /// Whether something stays below a directory that only the destination has; then all of it stays.
    fn holds_excluded(&self, path: &[u8]) -> Result<bool, PlanError> {
        let mut holds = false;
        if !self.request.selection.is_everything() {
            self.visit_below(path.to_vec(), &mut |at, path, name| {
                let kind = at.stat_name(name).map(|stat| kind_of(&stat));
                holds |= kind.is_ok_and(|kind| !self.selects(path, kind));
                Ok(!holds && kind == Ok(Kind::Directory))
            })?;
        }
        Ok(holds)
    }

    /// Visits everything below a directory of the destination, directories before what is in them. `visit` says whether a
    /// directory is entered.
    fn visit_below(&self, path: Vec<u8>, visit: &mut VisitEntry<'_>) -> Result<(), PlanError> {
        let Some((root, _)) = &self.roots.destination else { return Ok(()) };
        let mut waiting = vec![path];
        while let Some(path) = waiting.pop() {
            let names: Vec<&OsStr> = names(&path).collect();
            match root.open_listed(&names) {
                Ok(at) => self.list_destination(&at, &path, &mut |path, name| {
                    if visit(&at, &path, name)? {
                        waiting.push(path);
                    }
                    Ok(())
                })?,
                Err(Errno::ENOENT) => {}
                Err(errno) => {
                    let path = self.shown(&self.request.destination, &path);
                    self.shared.report(Error::system("open", path, errno).into());
                }
            }
        }
        Ok(())
    }

    /// Lists a directory of the destination until `take` fails.
    fn list_destination(
        &self,
        at: &GuardedSource,
        path: &[u8],
        take: &mut TakeEntry<'_>,
    ) -> Result<(), PlanError> {
        let mut ended = Ok(());
        let read = at.list(0, |entry| {
            let (GuardedEntry::Name(name, _) | GuardedEntry::Failed(name, _)) = entry;
            ended = take(joined(path, name), name);
            ended.is_ok()
        });
        if let Err(errno) = read {
            let path = self.shown(&self.request.destination, path);
            self.shared.report(Error::system("list", path, errno).into());
        }
        ended
    }

    /// Looks at an entry that only the destination has. `None`: it stays, or is gone.
    fn stranger(&self, at: &GuardedSource, path: &[u8], name: &OsStr) -> Option<(Stat, Kind)> {
        match at.stat_name(name) {
            Ok(stat) => {
                let kind = kind_of(&stat);
                // Something else may be mounted there.
                (self.selects(path, kind) && !stat.mount_root).then_some((stat, kind))
            }
            Err(Errno::ENOENT) => None,
            Err(errno) => {
                let path = self.shown(&self.request.destination, path);
                self.shared.report(Error::system("examine", path, errno).into());
                None
            }
        }
    }

    /// Adds an entry to delete.
    fn add_deletion(&self, path: &[u8], stat: &Stat, kind: Kind) -> Result<(), PlanError> {
        let Some(path) = self.relative(path) else { return Ok(()) };
        let destination = Some(Identity::from(stat));
        let entry = Entry { path, kind, source: None, destination, with: None, part: None };
        self.units.add_to_finish(&entry)?;
        self.shared.deletions.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn selects(&self, path: &[u8], kind: Kind) -> bool {
        let selection = &self.request.selection;
        selection.is_everything()
            || selection.selects(Path::new(OsStr::from_bytes(path)), kind == Kind::Directory)
    }

    fn relative(&self, path: &[u8]) -> Option<RelativePath> {
        match RelativePath::new(OsString::from_vec(path.to_vec())) {
            Ok(relative) => Some(relative),
            Err(problem) => {
                let path = OsString::from_vec(path.to_vec()).into();
                self.shared.report(EntryProblem::Name { path, problem });
                None
            }
        }
    }

    fn shown(&self, root: &PlanRoot, path: &[u8]) -> PathBuf {
        root.as_path().join(OsStr::from_bytes(path))
    }
}

fn kind_of(stat: &Stat) -> Kind {
    match stat.file_type() {
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Link,
        FileType::Directory => Kind::Directory,
        _ => Kind::Special,
    }
}

fn names(path: &[u8]) -> impl Iterator<Item = &OsStr> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).map(OsStr::from_bytes)
}

fn joined(path: &[u8], name: &OsStr) -> Vec<u8> {
    let mut joined = Vec::with_capacity(path.len() + 1 + name.len());
    joined.extend_from_slice(path);
    if !path.is_empty() {
        joined.push(b'/');
    }
    joined.extend_from_slice(name.as_bytes());
    joined
}
