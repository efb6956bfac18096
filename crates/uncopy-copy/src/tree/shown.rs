//! Finds directories of the destination that several mounts show: of the files that go to both of their names, one has no
//! copy in the end.

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::source_places::may_overlap;
use uncopy_core::Objection;
use uncopy_os::file;

/// Directories that are written to, by their devices and the mounts that show them. Those below them on the same mount are
/// left out: a mount shows each directory once.
#[derive(Debug, Default)]
pub(super) struct Shown(Mutex<HashMap<(u32, u32), ByMount>>);

/// Paths of directories by the ids of mounts.
type ByMount = HashMap<u64, HashSet<PathBuf>>;

impl Shown {
    /// Adds an open directory with its device and its path.
    ///
    /// # Errors
    /// Another mount shows one that it is, holds or lies in.
    pub(super) fn add(
        &self,
        directory: BorrowedFd<'_>,
        device: (u32, u32),
        path: &Path,
    ) -> Result<(), Objection> {
        // Linux before 5.8 says of no directory that something is mounted on it either.
        let Some(mount) = file::mount_id(directory) else { return Ok(()) };
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mounts = devices.entry(device).or_default();
        mounts.entry(mount).or_default().insert(path.to_owned());
        let others = mounts.iter().filter(|(other, _)| **other != mount);
        let mut others = others.flat_map(|(_, paths)| paths);
        match others.find(|other| may_overlap(directory, other)) {
            Some(other) => Err(Objection::DestinationsOverlap { other: other.clone() }),
            None => Ok(()),
        }
    }
}
