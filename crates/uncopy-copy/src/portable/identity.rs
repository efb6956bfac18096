//! Identifies files and directories, whatever their paths are.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use crate::native;
use uncopy_os::native::CopyCalls;

/// Identity of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    /// Filesystem and number in it.
    Numbers(u64, u64),
    /// Path without links, where a system has no numbers.
    Path(PathBuf),
}

impl Identity {
    /// Returns the number in its filesystem, or 0.
    pub(super) fn number(&self) -> u64 {
        match self {
            Identity::Numbers(_, number) => *number,
            Identity::Path(_) => 0,
        }
    }

    /// Whether both are known to be on different filesystems.
    pub(super) fn is_elsewhere(&self, other: &Identity) -> bool {
        matches!((self, other), (Identity::Numbers(one, _), Identity::Numbers(other, _)) if one != other)
    }
}

/// A file, and the number of its names.
#[derive(Debug, Clone)]
pub(super) struct Identified {
    pub(super) identity: Identity,
    pub(super) names: u64,
}

/// Identifies an entry. A symbolic link is followed if it `follows`; the metadata is of the same file.
pub(super) fn identify(
    calls: &dyn CopyCalls,
    path: &Path,
    follows: bool,
    metadata: &Metadata,
) -> Identified {
    if let Some(Ok(found)) = calls.identify(path, follows) {
        let identity = Identity::Numbers(found.volume, found.number);
        return Identified { identity, names: found.names };
    }
    if let Some((volume, number)) = native::identity(metadata) {
        let identity = Identity::Numbers(volume, number);
        return Identified { identity, names: native::links(metadata) };
    }
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    Identified { identity: Identity::Path(path), names: 1 }
}
