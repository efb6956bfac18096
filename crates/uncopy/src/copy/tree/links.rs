//! Hard links: the names of one file in the source become names of one file in the copy.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::directory::{Directory, Identity};

/// A name in a directory of the job.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    pub(super) directory: Arc<Directory>,
    /// In the source.
    pub(super) name: OsString,
    /// In the destination: another only for a root.
    pub(super) target: OsString,
}

impl Spot {
    /// Its paths in source and destination.
    pub(super) fn names(&self) -> (PathBuf, PathBuf) {
        let source = self.directory.source_path().join(&self.name);
        (source, self.directory.destination_path().join(&self.target))
    }
}

/// What to do with a file that has several names.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is the first of them: copy it, and tell [`Links::copied`] or [`Links::failed`].
    First,
    /// Another worker is copying it and will see to this name.
    Waits,
    /// It is copied, here.
    Copied(Spot),
}

/// The files with several names that were met and whose other names are still expected.
#[derive(Debug, Default)]
pub(super) struct Links {
    files: Mutex<HashMap<Identity, File>>,
}

#[derive(Debug)]
enum File {
    /// Being copied; these names wait.
    Copying(Vec<Spot>),
    Copied {
        spot: Spot,
        expected: u32,
    },
}

impl Links {
    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, File>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks what to do with a name of a file.
    pub(super) fn claim(&self, file: Identity, spot: impl FnOnce() -> Spot) -> Claim {
        let mut files = self.lock();
        match files.get_mut(&file) {
            None => {
                files.insert(file, File::Copying(Vec::new()));
                Claim::First
            }
            Some(File::Copying(waiting)) => {
                waiting.push(spot());
                Claim::Waits
            }
            Some(File::Copied { spot, expected }) => {
                let spot = spot.clone();
                *expected -= 1;
                if *expected == 0 {
                    files.remove(&file);
                }
                Claim::Copied(spot)
            }
        }
    }

    /// The first name is copied, of a file with so many links. Returns the names that waited for
    /// it.
    pub(super) fn copied(&self, file: Identity, links: u32, spot: Spot) -> Vec<Spot> {
        let mut files = self.lock();
        let waiting = match files.remove(&file) {
            Some(File::Copying(waiting)) => waiting,
            _ => Vec::new(),
        };
        // Names outside of the tree are never met; names made meanwhile are copied again.
        let met = 1 + u32::try_from(waiting.len()).unwrap_or(u32::MAX);
        let expected = links.saturating_sub(met);
        if expected > 0 {
            files.insert(file, File::Copied { spot, expected });
        }
        waiting
    }

    /// The first name could not be copied. Returns the names that waited for it: one of them is
    /// the first now.
    pub(super) fn failed(&self, file: Identity) -> Vec<Spot> {
        match self.lock().remove(&file) {
            Some(File::Copying(waiting)) => waiting,
            _ => Vec::new(),
        }
    }
}
