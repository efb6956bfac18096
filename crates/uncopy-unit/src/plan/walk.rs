//! Walks through the source, looks at the destination beside it, and hands entries to units.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::FileType;

use super::checkpoint::{Look, Position, Task};
use super::links::LinkSpill;
use super::resume::Saver;
use super::units::{OpenUnit, Units};
use super::{
    EntryProblem, Overlap, PlanError, PlanEvent, PlanRequest, PlanRoot, PlanTotals, Shared,
};
use crate::format::{
    Entry, Identity, Kind, LEDGER_DIRECTORY, RelativePath, SeenDirectory, SeenRoots,
};
use crate::roots::above;
use uncopy_copy::guarded::{
    BothSides, ForeseenCopy, GuardedEntry, GuardedSource, NotCompared, foresee, is_ledger,
    stand_for_others,
};
use uncopy_copy::pool::Pool;
use uncopy_core::{Errno, Error, Objection, Reason};
use uncopy_os::file::Stat;
use uncopy_os::{Sys, follow};

/// Number of waiting directories above which a listing pauses, so that a million names of subdirectories need not be
/// remembered.
const MAX_WAITING: usize = if cfg!(test) { 200 } else { 50_000 };

/// Maximum depth of a tree on another machine. Paths of 4,096 bytes (`PATH_MAX`) reach no deeper.
const MAX_DEPTH_THERE: usize = 2048;

/// Maximum number of entries of a directory of a destination on another machine that are remembered.
const MAX_KNOWN: usize = 1_000_000;

/// Minimum number of subdirectories that a listing finds before it pauses, so that it makes progress.
const MIN_FOUND: usize = 64;

/// Open roots.
#[derive(Debug)]
pub(super) struct Roots {
    pub(super) source: GuardedSource,
    pub(super) source_stat: Stat,
    pub(super) destination: Option<(GuardedSource, Stat)>,
    pub(super) seen: SeenRoots,
}

impl Roots {
    /// Whether a directory found below the source is the root of the destination, which a bind mount may hide.
    fn is_destination(&self, found: &Stat) -> bool {
        let destination = self.destination.as_ref();
        destination.is_some_and(|(root, stat)| self.source.is_same_file(found, (root, stat)))
    }

    /// Whether a directory found below the destination is the root of the source.
    fn is_source(&self, found: &Stat) -> bool {
        let destination = self.destination.as_ref();
        let source = (&self.source, &self.source_stat);
        destination.is_some_and(|(root, _)| root.is_same_file(found, source))
    }

    /// Fails if another machine that has one of them was lost.
    pub(super) fn check_connected(&self) -> Result<(), Error> {
        self.source.check_connected()?;
        self.destination.as_ref().map_or(Ok(()), |(root, _)| root.check_connected())
    }
}

/// Number of the directory above the destination among the roots of another machine.
const ABOVE: u32 = 1;

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
    if let Some((root, stat)) = &destination
        && (source.is_same_file(&source_stat, (root, stat))
            || root.open_here().is_some_and(|root| {
                source.places(request.source.as_path()).source_around(root).is_some()
            }))
    {
        let [inner, outer] =
            [&request.destination, &request.source].map(|root| root.as_path().into());
        return Err(PlanError::Overlap { inner, outer, overlap: Overlap::Roots });
    }
    let seen_above = || match &request.destination {
        PlanRoot::Here(path) => follow::stat(above(path)?).ok(),
        PlanRoot::There { place, peer } => {
            GuardedSource::there(Arc::clone(peer), ABOVE, place).ok()?.examine().ok()
        }
    };
    let seen = SeenRoots {
        source: Some((&source_stat).into()),
        destination: destination.as_ref().map(|(_, stat)| stat.into()),
        above_destination: match destination {
            Some(_) => None,
            None => seen_above().as_ref().map(SeenDirectory::from),
        },
    };
    Ok(Roots { source, source_stat, destination, seen })
}

/// A directory that waits.
struct Waiting {
    task: Task,
    /// The directory that is listed, if it stays open until then: a listing of another machine goes on in it alone.
    open: Option<GuardedSource>,
}

impl From<Task> for Waiting {
    fn from(task: Task) -> Waiting {
        Waiting { task, open: None }
    }
}

/// A walk, and what all its threads use.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    pub(super) request: &'a PlanRequest,
    pub(super) roots: &'a Roots,
    pub(super) units: &'a Units,
    pub(super) links: &'a LinkSpill,
    pub(super) shared: &'a Shared,
    pub(super) saver: &'a Saver<'a>,
    pub(super) watch: &'a (dyn Fn(PlanEvent<'_>) + Sync),
}

/// An open directory.
struct Opened<'a> {
    path: &'a [u8],
    source: GuardedSource,
    destination: Option<Beside>,
}

/// An open directory of the destination.
struct Beside {
    directory: GuardedSource,
    /// Its entries, if they are on another machine and not too many: each would have to be asked for.
    known: Option<HashMap<OsString, Stat>>,
}

impl Beside {
    /// Takes over an open directory beneath the root, and lists it if it is on another machine.
    fn open(root: &GuardedSource, directory: GuardedSource, path: &[u8]) -> Sys<Beside> {
        if !directory.is_there() {
            return Ok(Beside { directory, known: None });
        }
        let (mut known, mut is_whole) = (HashMap::new(), true);
        directory.list(0, 0, |entry| {
            match entry {
                GuardedEntry::Name(name, Some(entry)) => {
                    known.insert(name.to_owned(), entry.stat.clone());
                }
                // They are asked for.
                GuardedEntry::Name(_, None) | GuardedEntry::Failed(..) => is_whole = false,
            }
            is_whole &= known.len() < MAX_KNOWN;
            is_whole
        })?;
        // One that is asked about entries may be listed again.
        let names: Vec<&OsStr> = names(path).collect();
        let directory = if is_whole { directory } else { root.open_listed(&names)? };
        Ok(Beside { directory, known: is_whole.then_some(known) })
    }

    fn stat_name(&self, name: &OsStr) -> Sys<Stat> {
        match &self.known {
            Some(known) => known.get(name).cloned().ok_or(Errno::ENOENT),
            None => self.directory.stat_name(name),
        }
    }
}

/// Results of a listing.
struct Listed {
    unit: Option<OpenUnit>,
    found: Vec<Waiting>,
    /// Counted here, and added to those of all threads at the end: these would take turns at every entry.
    counts: PlanTotals,
}

impl Walk<'_> {
    /// Walks through everything, or through what a checkpoint has left. Problems are in what is shared.
    pub(super) fn run(&self, tasks: Option<Vec<Task>>) {
        let tasks = tasks.unwrap_or_else(|| vec![self.begin()]);
        Pool::run_with_rests(
            self.request.threads.get(),
            tasks.into_iter().map(Waiting::from).collect(),
            |waiting, pool| {
                if !self.shared.is_over() {
                    self.list(&waiting, pool);
                    (self.watch)(PlanEvent::Found(self.shared.totals()));
                }
            },
            |waiting: &[Waiting]| {
                let is_left =
                    |waiting: &Waiting| waiting.open.is_none().then(|| waiting.task.clone());
                let tasks: Option<Vec<Task>> = waiting.iter().map(is_left).collect();
                self.keep(self.saver.save(tasks.as_deref(), 0));
            },
        );
    }

    /// Adds the roots.
    fn begin(&self) -> Task {
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
        let is_there = destination.is_some();
        Task { path: Vec::new(), look: Look::Source, is_there, from: None }
    }

    fn keep(&self, result: Result<(), PlanError>) {
        if let Err(error) = result {
            self.shared.end_with(error);
        }
    }

    /// Lists a directory, or as much of it as may wait.
    fn list(&self, waiting: &Waiting, pool: &Pool<Waiting>) {
        let counts = PlanTotals::default();
        let mut listed = Listed { unit: self.units.take(), found: Vec::new(), counts };
        let left = match waiting.task.look {
            Look::Source => self.list_source(waiting, pool, &mut listed),
            Look::Strangers => self.find_strangers(waiting, pool, &mut listed.found),
            Look::Below => self.list_below(waiting, pool, &mut listed.found),
        };
        self.units.give_back(listed.unit.take());
        self.shared.add(listed.counts);
        match left {
            // Below the found directories, so that they come first.
            Ok(left) => left.into_iter().for_each(|left| pool.add(left)),
            Err(error) => return self.shared.report(error.into()),
        }
        for found in listed.found.into_iter().rev() {
            pool.add(found);
        }
    }

    /// Adds the entries of a directory of the source. Returns what is left of it.
    fn list_source(
        &self,
        waiting: &Waiting,
        pool: &Pool<Waiting>,
        listed: &mut Listed,
    ) -> Result<Option<Waiting>, Error> {
        let Some(opened) = self.open(waiting)? else { return Ok(None) };
        let root = &self.request.source;
        let left = self.list_from(&opened.source, &waiting.task, root, pool, &mut |entry| {
            match entry {
                GuardedEntry::Name(name, entry) => {
                    let stat = entry.map(|entry| &entry.stat);
                    self.keep(self.add(&opened, listed, name, stat));
                }
                // It was removed meanwhile.
                GuardedEntry::Failed(_, Errno::ENOENT) => {}
                GuardedEntry::Failed(name, errno) => {
                    let path = self.shown(root, &joined(opened.path, name));
                    self.shared.report(Error::system("examine", path, errno).into());
                }
            }
            listed.found.len()
        })?;
        if left.is_some() || self.request.delete.is_none() {
            return Ok(left);
        }
        // At once: names that another machine has listed are known as long as the directory is open.
        let task = Task { look: Look::Strangers, from: None, ..waiting.task.clone() };
        self.find_strangers_in(&opened, &task, pool, &mut listed.found)
    }

    /// Lists a directory from the position of its task on, until as much is found as may wait, or a rest is due. `take`
    /// returns how much is found. Returns what is left; `None`: the end was reached.
    fn list_from(
        &self,
        at: &GuardedSource,
        task: &Task,
        root: &PlanRoot,
        pool: &Pool<Waiting>,
        take: &mut dyn FnMut(GuardedEntry<'_>) -> usize,
    ) -> Result<Option<Waiting>, Error> {
        let most = MAX_WAITING.saturating_sub(pool.waiting()).max(MIN_FOUND);
        let pacer = self.saver.pacer;
        let is_rest_due = |names| {
            if pacer.passed(names) {
                pool.ask_rest();
            }
            pool.is_rest_asked()
        };
        let mut names = 0;
        let from = task.from.as_ref().map_or(0, |from| from.offset);
        let read = at.list(from, 0, |entry| {
            let found = take(entry);
            names += 1;
            let is_step = names % pacer.step() == 0;
            let is_enough = found >= most || is_step && is_rest_due(pacer.step());
            !is_enough && !self.shared.is_over()
        });
        is_rest_due(names % pacer.step());
        let left = |offset| {
            let from = Some(Position::new(offset, &at.examine()?));
            Ok(Waiting { task: Task { from, ..task.clone() }, open: at.kept_open() })
        };
        read.and_then(|behind| behind.map(left).transpose())
            .map_err(|errno| Error::system("list", self.shown(root, &task.path), errno))
    }

    /// Opens a directory of the source, and that of the destination. `None`: it was removed meanwhile.
    fn open<'t>(&self, waiting: &'t Waiting) -> Result<Option<Opened<'t>>, Error> {
        let task = &waiting.task;
        let source = match waiting.open.as_ref().and_then(GuardedSource::kept_open) {
            Some(open) => Some(open),
            None => self.open_in(&self.roots.source, &self.request.source, &task.path)?,
        };
        let destination = match &self.roots.destination {
            Some((root, _)) if task.is_there => {
                let beside = |directory| Beside::open(root, directory, &task.path);
                let shown = &self.request.destination;
                let directory = self.open_in(root, shown, &task.path)?;
                directory
                    .map(beside)
                    .transpose()
                    .map_err(|errno| Error::system("list", self.shown(shown, &task.path), errno))?
            }
            _ => None,
        };
        Ok(source.map(|source| Opened { path: &task.path, source, destination }))
    }

    /// Opens a directory beneath a root. `None`: there is none.
    fn open_in(
        &self,
        root: &GuardedSource,
        shown: &PlanRoot,
        path: &[u8],
    ) -> Result<Option<GuardedSource>, Error> {
        let names: Vec<&OsStr> = names(path).collect();
        match root.open_listed(&names) {
            Ok(directory) => Ok(Some(directory)),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
            Err(errno) => Err(Error::system("open", self.shown(shown, path), errno)),
        }
    }

    /// Adds an entry of a directory.
    fn add(
        &self,
        opened: &Opened<'_>,
        listed: &mut Listed,
        name: &OsStr,
        stat: Option<&Stat>,
    ) -> Result<(), PlanError> {
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
        if kind == Kind::Directory && self.roots.is_destination(&stat) {
            let reason = Reason::Refused(Objection::IsDestination);
            let path = self.shown(&self.request.source, &path);
            self.shared.report(Error::new("copy", path, reason).into());
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
        if is_directory
            && destination.as_ref().is_some_and(|found| found.mount_root)
            && let Err(why) = self.check_mounted(&path)
        {
            let path = self.shown(&self.request.destination, &path);
            self.shared.report(Error::new("copy to", path, Reason::Refused(why)).into());
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
                listed.found.push(Task { path, look: Look::Source, is_there, from: None }.into());
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

    /// Finds entries that only the destination has. Returns what is left of the directory.
    fn find_strangers(
        &self,
        waiting: &Waiting,
        pool: &Pool<Waiting>,
        found: &mut Vec<Waiting>,
    ) -> Result<Option<Waiting>, Error> {
        match self.open(waiting)? {
            Some(opened) => self.find_strangers_in(&opened, &waiting.task, pool, found),
            None => Ok(None),
        }
    }

    fn find_strangers_in(
        &self,
        opened: &Opened<'_>,
        task: &Task,
        pool: &Pool<Waiting>,
        found: &mut Vec<Waiting>,
    ) -> Result<Option<Waiting>, Error> {
        let Some(Beside { directory: destination, known }) = &opened.destination else {
            return Ok(None);
        };
        let root = &self.request.destination;
        let mut strangers: Vec<OsString> = Vec::new();
        let before = found.len();
        let mut take = |name: &OsStr| {
            let is_own = task.path.is_empty() && name == LEDGER_DIRECTORY;
            if !is_own && opened.source.look_up(name) == Err(Errno::ENOENT) {
                strangers.push(name.to_owned());
            }
            before + strangers.len()
        };
        let left = if let Some(known) = known {
            for name in known.keys() {
                take(name);
            }
            None
        } else if destination.is_there() {
            // Without a pause: it would be listed from its beginning again.
            let listed = destination.list(0, 0, |entry| {
                take(name_of(&entry));
                !self.shared.is_over()
            });
            listed.map_err(|errno| Error::system("list", self.shown(root, &task.path), errno))?;
            None
        } else {
            self.list_from(destination, task, root, pool, &mut |entry| take(name_of(&entry)))?
        };
        let kept = self.stand_for_others(destination, task, &strangers)?;
        for name in strangers.iter().filter(|name| !kept.contains(name.as_os_str())) {
            let path = joined(&task.path, name);
            self.add_stranger(destination, path, name, found, true);
        }
        Ok(left.map(|left| Waiting { open: opened.source.kept_open(), ..left }))
    }

    /// Finds those entries that only the destination has by this spelling: on a filesystem that folds names, the source may
    /// call them otherwise.
    fn stand_for_others<'n>(
        &self,
        destination: &GuardedSource,
        task: &Task,
        strangers: &'n [OsString],
    ) -> Result<HashSet<&'n OsStr>, Error> {
        let list = |root: &GuardedSource, visit: &mut dyn FnMut(&OsStr)| {
            let at = root.open_listed(&names(&task.path).collect::<Vec<_>>())?;
            at.list(0, 0, |entry| {
                visit(name_of(&entry));
                true
            })?;
            Ok(())
        };
        let Some((root, _)) = &self.roots.destination else { return Ok(HashSet::new()) };
        let sides = BothSides {
            destination,
            list_destination: &|visit| list(root, visit),
            list_source: &|visit| list(&self.roots.source, visit),
        };
        let strangers: Vec<&OsStr> = strangers.iter().map(OsString::as_os_str).collect();
        stand_for_others(&sides, &strangers).map_err(|error| {
            let (root, errno) = match error {
                NotCompared::Source(errno) => (&self.request.source, errno),
                NotCompared::Destination(errno) => (&self.request.destination, errno),
            };
            Error::system("look up names in", self.shown(root, &task.path), errno)
        })
    }

    /// Adds everything in a directory that only the destination has. Returns what is left of it.
    fn list_below(
        &self,
        waiting: &Waiting,
        pool: &Pool<Waiting>,
        found: &mut Vec<Waiting>,
    ) -> Result<Option<Waiting>, Error> {
        let (task, shown) = (&waiting.task, &self.request.destination);
        let Some((root, _)) = &self.roots.destination else { return Ok(None) };
        let open = match waiting.open.as_ref().and_then(GuardedSource::kept_open) {
            Some(open) => Some(open),
            None => self.open_in(root, shown, &task.path)?,
        };
        let Some(at) = open else { return Ok(None) };
        self.list_from(&at, task, shown, pool, &mut |entry| {
            let name = name_of(&entry);
            self.add_stranger(&at, joined(&task.path, name), name, found, false);
            found.len()
        })
    }

    /// Adds an entry that only the destination has, before what is in it.
    fn add_stranger(
        &self,
        at: &GuardedSource,
        path: Vec<u8>,
        name: &OsStr,
        found: &mut Vec<Waiting>,
        may_hold_kept: bool,
    ) {
        let Some((stat, kind)) = self.stranger(at, &path, name) else { return };
        let is_directory = kind == Kind::Directory;
        if may_hold_kept && is_directory && self.holds_kept(&path) {
            return;
        }
        self.keep(self.add_deletion(&path, &stat, kind));
        if is_directory {
            found.push(Task { path, look: Look::Below, is_there: true, from: None }.into());
        }
    }

    /// Whether something stays below a directory that only the destination has; then all of it stays.
    fn holds_kept(&self, path: &[u8]) -> bool {
        let Some((root, _)) = &self.roots.destination else { return false };
        let shown = &self.request.destination;
        let mut waiting = vec![path.to_vec()];
        let mut holds = false;
        while let Some(path) = waiting.pop().filter(|_| !holds) {
            let listed = self.open_in(root, shown, &path).and_then(|at| {
                let Some(at) = at else { return Ok(None) };
                let read = at.list(0, 0, |entry| {
                    let name = name_of(&entry);
                    let path = joined(&path, name);
                    let Ok(stat) = at.stat_name(name) else { return true };
                    let kind = kind_of(&stat);
                    holds = !self.selects(&path, kind) || self.refuses_source(&path, &stat);
                    if kind == Kind::Directory {
                        waiting.push(path);
                    }
                    !holds
                });
                read.map_err(|errno| Error::system("list", self.shown(shown, &path), errno))
            });
            if let Err(error) = listed {
                self.shared.report(error.into());
            }
        }
        holds
    }

    /// Looks at an entry that only the destination has. `None`: it stays, or is gone.
    fn stranger(&self, at: &GuardedSource, path: &[u8], name: &OsStr) -> Option<(Stat, Kind)> {
        match at.stat_name(name) {
            Ok(stat) => {
                let kind = kind_of(&stat);
                // Something else may be mounted there. Another machine does not say so, but what is on another filesystem
                // is; whoever deletes looks again.
                let is_mounted = stat.mount_root
                    || at.is_there() && at.stat().is_ok_and(|at| at.device != stat.device);
                let stays =
                    !self.selects(path, kind) || self.refuses_source(path, &stat) || is_mounted;
                (!stays).then_some((stat, kind))
            }
            Err(Errno::ENOENT) => None,
            Err(errno) => {
                let path = self.shown(&self.request.destination, path);
                self.shared.report(Error::system("examine", path, errno).into());
                None
            }
        }
    }

    /// Refuses what is mounted at a directory of the destination, if it is a part of the source or holds it.
    fn check_mounted(&self, path: &[u8]) -> Result<(), Objection> {
        let Some((root, _)) = &self.roots.destination else { return Ok(()) };
        let names: Vec<&OsStr> = names(path).collect();
        let opened = root.open_beneath(&names).ok();
        let mounted = opened.as_ref().and_then(GuardedSource::open_here);
        let places = || self.roots.source.places(self.request.source.as_path());
        mounted.map_or(Ok(()), |mounted| places().check_mounted(mounted))
    }

    /// Reports a directory of the destination that is the source: what a bind mount hides there is not deleted.
    fn refuses_source(&self, path: &[u8], found: &Stat) -> bool {
        let is_source = self.roots.is_source(found);
        if is_source {
            let path = self.shown(&self.request.destination, path);
            let reason = Reason::Refused(Objection::HoldsSource);
            self.shared.report(Error::new("delete", path, reason).into());
        }
        is_source
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

    /// Whether an entry is one of those that are copied and deleted. The ledger of another plan is none.
    fn selects(&self, path: &[u8], kind: Kind) -> bool {
        let selection = &self.request.selection;
        let is_directory = kind == Kind::Directory;
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is_selected = || {
            let path = Path::new(OsStr::from_bytes(path));
            selection.is_everything() || selection.selects(path, is_directory)
        };
        !is_ledger(OsStr::from_bytes(name), is_directory) && is_selected()
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

fn name_of<'e>(entry: &GuardedEntry<'e>) -> &'e OsStr {
    let (GuardedEntry::Name(name, _) | GuardedEntry::Failed(name, _)) = entry;
    name
}

pub(super) fn names(path: &[u8]) -> impl Iterator<Item = &OsStr> {
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
