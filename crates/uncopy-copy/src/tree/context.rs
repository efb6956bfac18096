//! Holds the options of a job, its rate limit, and what was learnt about the machine.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use rustix::fs::OFlags;

use super::directory::{Directory, Entered, Identity};
use super::place::Place;
use super::removals::Removals;
use super::shown::Shown;
use crate::backup_claims::BackupClaims;
use crate::compress::Kinds;
use crate::creation_defaults::{DirectoryDefaults, Umask};
use crate::guard::Guarded;
use crate::guarded_entries::GuardedEntries;
use crate::jobs::{JobOptions, Links, Parents};
use crate::source_places::SourcePlaces;
use crate::stale::TemporaryNames;
use crate::{CopyContext, CopyOptions, Gate, Throttle};
use uncopy_core::{Error, Reason, Result};
use uncopy_os::{file, follow, privilege};

/// Options of one job, and what was learnt about the machine and the roots.
pub(super) struct Context<'a> {
    options: &'a JobOptions,
    /// Options for files in a tree that is being built, which contains nothing of the caller's.
    inside: CopyOptions,
    throttle: Option<Throttle>,
    /// Knowledge from samples about kinds of files.
    kinds: Kinds,
    umask: Umask,
    /// Whether the process may change files of other users or give files to them; found out on
    /// first use.
    privileged: OnceLock<bool>,
    /// Whether no other user can act in the directory that the tree is built in.
    is_aside_own: AtomicBool,
    /// Temporary name of the tree that is built, which nothing else has.
    built: RwLock<Option<OsString>>,
    /// Destination directories; no source may be one of them or lie in one.
    destinations: Mutex<Vec<Identity>>,
    /// Paths that the caller named below a directory that is copied as a whole.
    named: RwLock<NamedBelow>,
    /// Sources and destinations, as the caller named them. Empty: the sources are on another machine, or listed.
    pairs: &'a [(PathBuf, PathBuf)],
    /// Entries of a guarded job, which all lie in one directory, and its guard.
    listed: Option<GuardedEntries<'a>>,
    /// Places of the sources; found out on first use.
    places: OnceLock<SourcePlaces>,
    /// Roots of the source that are directories.
    sources: Mutex<HashSet<Identity>>,
    removals: Removals,
    shown: Shown,
    temporary_names: TemporaryNames,
    backup_claims: Option<BackupClaims>,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        options: &'a JobOptions,
        pairs: &'a [(PathBuf, PathBuf)],
        listed: Option<GuardedEntries<'a>>,
    ) -> Context<'a> {
        Context {
            options,
            inside: options.copy.in_own_tree(),
            throttle: options.bytes_per_second.map(Throttle::new),
            kinds: Kinds::default(),
            umask: Umask::default(),
            privileged: OnceLock::new(),
            is_aside_own: AtomicBool::new(false),
            built: RwLock::default(),
            destinations: Mutex::default(),
            named: RwLock::default(),
            pairs,
            listed,
            places: OnceLock::new(),
            sources: Mutex::default(),
            removals: Removals::default(),
            shown: Shown::default(),
            temporary_names: TemporaryNames::default(),
            backup_claims: BackupClaims::of(options.copy.backup.as_ref()),
        }
    }

    pub(super) fn options(&self) -> &'a JobOptions {
        self.options
    }

    /// How the files of a directory are copied.
    pub(super) fn copy_options(&self, directory: &Entered) -> &CopyOptions {
        if directory.private { &self.inside } else { &self.options.copy }
    }

    /// Files of the source that are to be removed.
    pub(super) fn removals(&self) -> &Removals {
        &self.removals
    }

    /// Temporary names in the directories of single entries.
    pub(super) fn temporary_names(&self) -> &TemporaryNames {
        &self.temporary_names
    }

    /// Names of backups, where one may have that of a copy.
    pub(super) fn backup_claims(&self) -> Option<&BackupClaims> {
        self.backup_claims.as_ref()
    }

    /// Whether a guard is asked about entries: other jobs work in the same directories then.
    pub(super) fn is_guarded(&self) -> bool {
        self.listed.is_some()
    }

    /// Returns an entry that the guard is asked about.
    pub(super) fn guarded(&self, place: &Place<'_>) -> Option<Guarded<'a>> {
        self.listed.map(|listed| Guarded::new(listed.guard, place.way()))
    }

    /// Gate at which workers wait while the job is paused.
    pub(super) fn gate(&self) -> Option<&'a Gate> {
        self.options.gate.as_ref()
    }

    pub(super) fn throttle(&self) -> Option<&Throttle> {
        self.throttle.as_ref()
    }

    /// Restarts the rate at this time, the end of a pause of the job.
    pub(super) fn resume_rate(&self, at: Instant) {
        if let Some(throttle) = &self.throttle {
            throttle.restart(at);
        }
    }

    /// Knowledge of which kinds of files compression pays for.
    pub(super) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Surroundings that the copies of large files share.
    pub(super) fn copy_context<'c>(
        &'c self,
        spare_threads: &'c (dyn Fn() -> usize + Sync),
        guarded: Option<&'c Guarded<'c>>,
    ) -> CopyContext<'c> {
        CopyContext {
            gate: self.gate(),
            new_mode: None,
            frees_aside: self.options.remover.is_some(),
            sweeps_seldom: false,
            throttle: self.throttle(),
            spare_threads: Some(spare_threads),
            permit: None,
            backup_claims: self.backup_claims(),
            guarded,
        }
    }

    pub(super) fn umask(&self) -> &Umask {
        &self.umask
    }

    /// Defaults of new files in the destination of a directory.
    pub(super) fn directory_defaults<'s>(
        &'s self,
        directory: &'s Directory,
    ) -> DirectoryDefaults<'s> {
        DirectoryDefaults { defaults: &directory.defaults, umask: &self.umask }
    }

    /// Whether the process may change files of other users, so that a replaced name could redirect
    /// such a change.
    pub(super) fn is_privileged(&self) -> bool {
        *self.privileged.get_or_init(privilege::overrides_file_ownership)
    }

    /// Notes the directory that the root being started is built in, and whether no other user can act in it.
    pub(super) fn begin_root(&self, aside: Option<(&OsStr, bool)>) {
        let (name, is_own) = (aside.map(|(name, _)| name.to_owned()), aside.map(|(_, own)| own));
        self.is_aside_own.store(is_own == Some(true), Ordering::Relaxed);
        *self.built.write().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// Whether a directory of this name is the one that the root is built in, on whatever filesystem or machine it is met.
    pub(super) fn is_built(&self, name: &OsStr) -> bool {
        let built = self.built.read().unwrap_or_else(PoisonError::into_inner);
        built.as_deref() == Some(name)
    }

    /// Whether names in a directory that this job builds under a temporary name cannot be replaced
    /// by other users.
    pub(super) fn is_aside_own(&self) -> bool {
        self.is_aside_own.load(Ordering::Relaxed)
    }

    /// Notes a path from the root that is copied whatever the selection says.
    pub(super) fn add_named(&self, way: PathBuf) {
        self.named.write().unwrap_or_else(PoisonError::into_inner).whole.insert(way);
    }

    /// Notes a directory that is left out, but for what is named in it.
    pub(super) fn add_above_named(&self, way: PathBuf) {
        self.named.write().unwrap_or_else(PoisonError::into_inner).above.insert(way);
    }

    /// Forgets the named paths of the root before.
    pub(super) fn forget_named(&self) {
        *self.named.write().unwrap_or_else(PoisonError::into_inner) = NamedBelow::default();
    }

    /// Whether everything below a directory is copied.
    pub(super) fn selects_everything(&self) -> bool {
        self.options.selection.is_everything() && self.named().above.is_empty()
    }

    /// Whether an entry is copied by the selection, or since it is named or leads to what is.
    pub(super) fn selects(&self, way: &Path, is_directory: bool) -> bool {
        let selected = self.named().selects(way);
        selected.unwrap_or_else(|| self.options.selection.selects(way, is_directory))
    }

    /// Whether an entry is copied since it is named or leads to what is.
    pub(super) fn leads_to_named(&self, way: &Path) -> bool {
        self.named().selects(way) == Some(true)
    }

    fn named(&self) -> RwLockReadGuard<'_, NamedBelow> {
        self.named.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a root of the source, which is therefore not to be deleted.
    pub(super) fn add_source(&self, source: Identity) {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).insert(source);
    }

    pub(super) fn is_source(&self, directory: Identity) -> bool {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).contains(&directory)
    }

    /// Returns the source that a directory of the destination is or lies in, through another mount. `source`: the one that
    /// is copied there.
    pub(super) fn mounted_source_around(
        &self,
        directory: BorrowedFd<'_>,
        source: &Path,
    ) -> Option<&Path> {
        if self.pairs.is_empty() {
            return None;
        }
        let mount = file::mount_id(directory);
        let is_apart = |source: &Path| {
            follow::open(source, OFlags::PATH)
                .is_ok_and(|source| mount.is_none() || file::mount_id(source) != mount)
        };
        let places = is_apart(source).then(|| self.source_places())?;
        places.source_around(directory).filter(|found| is_apart(found))
    }

    /// Returns where the sources of this machine lie.
    pub(super) fn source_places(&self) -> &SourcePlaces {
        self.places.get_or_init(|| {
            let open = |path: &Path| follow::open(path, OFlags::PATH).ok();
            let below = match &self.options.parents {
                Parents::KeepBelow(base) => Some(base.as_path()),
                _ => None,
            };
            let named = self.pairs.iter().map(|(source, _)| source.as_path()).chain(below);
            let listed = self.listed.iter().map(|listed| {
                let root = listed.root.open_here();
                (listed.source, root.and_then(|root| file::duplicate(root).ok()))
            });
            let places = SourcePlaces::of(named.map(|path| (path, open(path))).chain(listed));
            match self.reads_selected_alone() {
                true => places.selecting(self.options.selection.clone()),
                false => places,
            }
        })
    }

    /// Whether a directory of a source that the selection leaves out is neither copied, by another name, nor changed by
    /// deletions through a mount.
    fn reads_selected_alone(&self) -> bool {
        let JobOptions { parents, links, delete, .. } = self.options;
        *parents == Parents::Omit && *links != Links::Follow && delete.is_none()
    }

    /// Notes a directory that is written to, which is therefore no source.
    pub(super) fn add_destination(&self, destination: Identity) {
        self.destinations.lock().unwrap_or_else(PoisonError::into_inner).push(destination);
    }

    /// Notes a directory that is written to: one that the caller named, or the first on its mount or device. Refuses it, if
    /// files of the source are to be removed, where another mount shows it too.
    pub(super) fn check_shown(
        &self,
        directory: BorrowedFd<'_>,
        device: (u32, u32),
        path: &Path,
    ) -> Result<()> {
        if !self.options.remove_source {
            return Ok(());
        }
        let added = self.shown.add(directory, device, path);
        added.map_err(|why| Error::new("write to", path, Reason::Refused(why)))
    }

    pub(super) fn is_destination(&self, directory: Identity) -> bool {
        let destinations = self.destinations.lock().unwrap_or_else(PoisonError::into_inner);
        destinations.contains(&directory)
    }
}

/// Paths from the root of what is copied although the selection leaves it out, or it lies on another filesystem.
#[derive(Debug, Default)]
struct NamedBelow {
    /// Named entries; directories with their contents.
    whole: HashSet<PathBuf>,
    /// Directories in which nothing but named entries, and what lies above them, is copied.
    above: HashSet<PathBuf>,
}

impl NamedBelow {
    /// Whether an entry is copied. `None`: as any other one.
    fn selects(&self, way: &Path) -> Option<bool> {
        if self.whole.contains(way) || self.above.contains(way) {
            return Some(true);
        }
        way.parent().filter(|above| self.above.contains(*above)).map(|_| false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_above_named_entries_has_no_others() {
        let set = |ways: &[&str]| ways.iter().map(PathBuf::from).collect();
        let named = NamedBelow { whole: set(&["a/f", "a/b/c"]), above: set(&["a", "a/b"]) };
        for (way, expected) in [
            ("a", Some(true)),
            ("a/f", Some(true)),
            ("a/g", Some(false)),
            ("a/b", Some(true)),
            ("a/b/c", Some(true)),
            ("a/b/d", Some(false)),
            ("a/b/c/x", None),
            ("other", None),
        ] {
            assert_eq!(named.selects(Path::new(way)), expected, "{way}");
        }
        assert_eq!(NamedBelow::default().selects(Path::new("a")), None);
    }
}
