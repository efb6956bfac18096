//! Holds the options of a job, its rate limit, and what was learnt about the machine.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::directory::{Directory, Entered, Identity};
use super::removals::Removals;
use crate::backup_claims::BackupClaims;
use crate::compress::Kinds;
use crate::creation_defaults::{DirectoryDefaults, Umask};
use crate::jobs::JobOptions;
use crate::stale::TemporaryNames;
use crate::{CopyContext, CopyOptions, Gate, Throttle};
use uncopy_os::privilege;

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
    /// Destination directories; no source may be one of them or lie in one.
    destinations: Mutex<Vec<Identity>>,
    /// Paths from the root that the caller named below a directory that is copied as a whole, whatever the selection.
    named: Mutex<HashSet<PathBuf>>,
    /// Roots of the source that are directories.
    sources: Mutex<HashSet<Identity>>,
    removals: Removals,
    temporary_names: TemporaryNames,
    backup_claims: Option<BackupClaims>,
}

impl<'a> Context<'a> {
    pub(super) fn new(options: &'a JobOptions) -> Context<'a> {
        Context {
            options,
            inside: options.copy.in_own_tree(),
            throttle: options.bytes_per_second.map(Throttle::new),
            kinds: Kinds::default(),
            umask: Umask::default(),
            privileged: OnceLock::new(),
            is_aside_own: AtomicBool::new(false),
            destinations: Mutex::default(),
            named: Mutex::default(),
            sources: Mutex::default(),
            removals: Removals::default(),
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
    ) -> CopyContext<'c> {
        CopyContext {
            gate: self.gate(),
            throttle: self.throttle(),
            spare_threads: Some(spare_threads),
            permit: None,
            backup_claims: self.backup_claims(),
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

    /// Notes whether the root being started is built in a directory in which no other user can act.
    pub(super) fn set_aside_own(&self, is_own: bool) {
        self.is_aside_own.store(is_own, Ordering::Relaxed);
    }

    /// Whether names in a directory that this job builds under a temporary name cannot be replaced
    /// by other users.
    pub(super) fn is_aside_own(&self) -> bool {
        self.is_aside_own.load(Ordering::Relaxed)
    }

    /// Notes a path from the root that is copied whatever the selection says.
    pub(super) fn add_named(&self, way: PathBuf) {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).insert(way);
    }

    /// Forgets the named paths of the root before.
    pub(super) fn forget_named(&self) {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether an entry is copied by the selection, or since it is named.
    pub(super) fn selects(&self, way: &Path, is_directory: bool) -> bool {
        let is_named = || self.named.lock().unwrap_or_else(PoisonError::into_inner).contains(way);
        self.options.selection.selects(way, is_directory) || is_named()
    }

    /// Notes a root of the source, which is therefore not to be deleted.
    pub(super) fn add_source(&self, source: Identity) {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).insert(source);
    }

    pub(super) fn is_source(&self, directory: Identity) -> bool {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).contains(&directory)
    }

    /// Notes a directory that is written to, which is therefore no source.
    pub(super) fn add_destination(&self, destination: Identity) {
        self.destinations.lock().unwrap_or_else(PoisonError::into_inner).push(destination);
    }

    pub(super) fn is_destination(&self, directory: Identity) -> bool {
        let destinations = self.destinations.lock().unwrap_or_else(PoisonError::into_inner);
        destinations.contains(&directory)
    }
}
