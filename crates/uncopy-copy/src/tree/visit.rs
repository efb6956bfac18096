//! Visits what lies in a directory that is to be deleted.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::remove::reopen;
use crate::source_places::may_hold_mounts;
use uncopy_core::Errno;
use uncopy_os::{Sys, directory, file};

/// Number of files in a tree from which on the table of mounts says whether they have to be looked at.
const LOOKED_AT_SINGLY: u64 = 32;

/// Calls `visitor` for every entry below the directory `top` of a directory, with its path from there, its inode number
/// and whether it is a directory. Returns the path of the first mount point, a directory or a file, where that ends; empty:
/// `top` itself.
pub(super) fn visit(
    parent: impl AsFd,
    top: &OsStr,
    mut visitor: impl FnMut(&Path, u64, bool),
) -> Sys<Option<PathBuf>> {
    let root = directory::open_child(parent, top)?;
    let mut waiting: Vec<Vec<OsString>> = vec![Vec::new()];
    let mut buffer = Vec::with_capacity(32 << 10);
    let (mut files, mut looks) = (0_u64, true);
    while let Some(names) = waiting.pop() {
        let at = reopen(&root, &names)?;
        let path: PathBuf = names.iter().collect();
        if file::stat(&at)?.mount_root {
            return Ok(Some(path));
        }
        let mut stopped = None;
        directory::list(&at, buffer.spare_capacity_mut(), |entry| {
            let name = OsStr::from_bytes(entry.name.to_bytes());
            let is_known = entry.kind != FileType::Unknown;
            if is_known && entry.kind != FileType::Directory {
                files += 1;
                // A table of thousands of mounts takes longer to read than a few files to look at.
                if files == LOOKED_AT_SINGLY {
                    looks = may_hold_mounts(root.as_fd());
                }
            }
            let seen = match is_known && !looks {
                true => Ok(Seen::listed(entry.kind)),
                false => look_at(&at, name, entry.kind),
            };
            let is_directory = match seen {
                Ok(Seen::MountPoint) => {
                    stopped = Some(Ok(path.join(name)));
                    return false;
                }
                Ok(seen) => seen == Seen::Directory,
                Err(errno) => {
                    stopped = Some(Err(errno));
                    return false;
                }
            };
            visitor(&path.join(name), entry.inode, is_directory);
            if is_directory {
                waiting.push(names.iter().cloned().chain([name.to_owned()]).collect());
            }
            true
        })?;
        if let Some(stopped) = stopped {
            return stopped.map(Some);
        }
    }
    Ok(None)
}

/// Kind of an entry, as far as its removal depends on it.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// A directory; whether something is mounted there is seen when it is entered.
    Directory,
    /// A file on which another one is mounted.
    MountPoint,
    Other,
}

impl Seen {
    /// Takes an entry for what it was listed as.
    fn listed(kind: FileType) -> Seen {
        if kind == FileType::Directory { Seen::Directory } else { Seen::Other }
    }
}

/// Looks at an entry that was listed as `kind`.
fn look_at(at: &OwnedFd, name: &OsStr, kind: FileType) -> Sys<Seen> {
    if kind == FileType::Directory {
        return Ok(Seen::Directory);
    }
    match directory::stat_name(at, name) {
        Ok(stat) if stat.file_type() == FileType::Directory => Ok(Seen::Directory),
        Ok(stat) if stat.mount_root => Ok(Seen::MountPoint),
        Err(errno) if kind == FileType::Unknown && errno != Errno::ENOENT => Err(errno),
        // The mode of its directory may forbid to look, and is changed before that is emptied.
        Ok(_) | Err(_) => Ok(Seen::Other),
    }
}
