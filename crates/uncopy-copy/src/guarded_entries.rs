//! Defines the entries that a guarded job copies.

use std::path::{Path, PathBuf};

use crate::guard::Guard;
use crate::guarded_source::GuardedSource;
use crate::jobs::EntryKind;

/// Entries of one directory, and the guard that is asked about them.
#[derive(Clone, Copy)]
#[allow(clippy::exhaustive_structs, reason = "callers make it")]
pub struct GuardedEntries<'a> {
    /// Open directory of the source.
    pub root: &'a GuardedSource,
    /// Its path for people.
    pub source: &'a Path,
    /// Directory of the destination, which exists.
    pub destination: &'a Path,
    /// Paths from these directories on, of kinds that are no directories. No link is followed in them.
    pub entries: &'a [(PathBuf, EntryKind)],
    /// Guard.
    pub guard: &'a dyn Guard,
}
