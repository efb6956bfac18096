//! Options of a job, its rate, and what it learns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::directory::{Directory, Entered, Identity};
use crate::creation_defaults::{DirectoryDefaults, Umask};
use crate::jobs::JobOptions;
use crate::{CopyContext, CopyOptions, Existing, Gate, History, Throttle};
use uncopy_os::privilege;

/// Options of one job, and what was learnt about the machine and the roots.
pub(super) struct Context<'a> {
    options: &'a JobOptions,
    /// How files are copied in a tree that is being built, where nothing is the caller's.
    inside: CopyOptions,
    throttle: Option<Throttle>,
    history: History,
    umask: Umask,
    /// Files of others can be given away or changed; found out on first use.
    privileged: OnceLock<bool>,
    /// Nobody else can act in the directory that the tree is built in.
    is_aside_own: AtomicBool,
    /// Destinations, which no source may be or lie in.
    destinations: Mutex<Vec<Identity>>,
}

impl<'a> Context<'a> {
    pub(super) fn new(options: &'a JobOptions) -> Context<'a> {
        Context {
            options,
            inside: CopyOptions { existing: Existing::Replace, ..options.copy.clone() },
            throttle: options.bytes_per_second.map(Throttle::new),
            history: History::default(),
            umask: Umask::default(),
            privileged: OnceLock::new(),
            is_aside_own: AtomicBool::new(false),
            destinations: Mutex::default(),
        }
    }

    pub(super) fn options(&self) -> &'a JobOptions {
        self.options
    }

    /// How the files of a directory are copied.
    pub(super) fn copy_options(&self, directory: &Entered) -> &CopyOptions {
        if directory.private { &self.inside } else { &self.options.copy }
    }

    /// Where workers wait while the job is paused.
    pub(super) fn gate(&self) -> Option<&'a Gate> {
        self.options.gate.as_ref()
    }

    pub(super) fn throttle(&self) -> Option<&Throttle> {
        self.throttle.as_ref()
    }

    /// Counts the rate anew from a time on: the job was paused until then.
    pub(super) fn resume_rate(&self, at: Instant) {
        if let Some(throttle) = &self.throttle {
            throttle.begin_anew(at);
        }
    }

    /// Surroundings that the copies of large files share.
    pub(super) fn copy_context<'c>(
        &'c self,
        spare_threads: &'c (dyn Fn() -> usize + Sync),
    ) -> CopyContext<'c> {
        CopyContext {
            gate: self.gate(),
            throttle: self.throttle(),
            history: Some(&self.history),
            spare_threads: Some(spare_threads),
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

    /// Whether files of others can be given away or changed, if they take a name that something is given
    /// to.
    pub(super) fn is_privileged(&self) -> bool {
        *self.privileged.get_or_init(privilege::overrides_file_ownership)
    }

    /// Notes of the root that is begun whether it is built in a directory in which nobody else can act.
    pub(super) fn set_aside_own(&self, is_own: bool) {
        self.is_aside_own.store(is_own, Ordering::Relaxed);
    }

    /// Whether names in a directory that this job builds aside stay what they are.
    pub(super) fn is_aside_own(&self) -> bool {
        self.is_aside_own.load(Ordering::Relaxed)
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
