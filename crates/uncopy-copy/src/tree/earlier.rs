//! Opens the earlier copies of a root, whose unchanged files are linked.
//!
//! Each is opened once for each root.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::jobs::{JobOptions, LinkDest};
use uncopy_core::{Errno, Result};
use uncopy_os::{directory, file, follow};

/// An earlier copy of a root.
#[derive(Debug)]
pub(super) struct Earlier {
    pub(super) root: OwnedFd,
    /// Path for messages.
    pub(super) path: PathBuf,
}

/// Opens the earlier copies of a root directory; those that do not exist are left out.
pub(super) fn open_of_tree(options: &JobOptions, destination: &Path) -> Result<Vec<Earlier>> {
    match (&options.link_dest, destination.file_name()) {
        (Some(LinkDest { holds_roots: true, .. }), Some(name)) => {
            let base = destination.parent().unwrap_or(Path::new(""));
            open(options, base, Some(name))
        }
        _ => open(options, destination, None),
    }
}

/// Opens the directories where the earlier copies of single files in this one are.
pub(super) fn open_of_entry(options: &JobOptions, above: &Path) -> Result<Vec<Earlier>> {
    open(options, above, None)
}

fn open(options: &JobOptions, base: &Path, root: Option<&OsStr>) -> Result<Vec<Earlier>> {
    let Some(earlier) = &options.link_dest else { return Ok(Vec::new()) };
    let mut opened = Vec::new();
    for given in &earlier.directories {
        let mut path = LinkDest::path(given, base);
        let found = follow::open_directory(&path).and_then(|fd| match root {
            Some(name) => Ok(directory::open_beneath(fd, &[name], true)?),
            None => Ok(fd),
        });
        path.extend(root);
        match found {
            // By what was opened: a link on the way may lead elsewhere now.
            Ok(root) if !earlier.is_within(&file::path_of(root.as_fd())) => {}
            Ok(root) => opened.push(Earlier { root, path }),
            Err(stopped) if is_missing(stopped.errno()) => {}
            Err(stopped) => return Err(stopped.error("open", &path)),
        }
    }
    Ok(opened)
}

/// Whether there is nothing, or no directory, on the way to it.
fn is_missing(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP)
}
