//! The filesystems that files are copied on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{StatVfs, fstatvfs};
use testbed::{Filesystem, Mount};

/// Room for every destination of a round beside the source; the image is sparse.
const IMAGE_MEBIBYTES: u64 = 28 << 10;

/// A filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// The one that holds the directory of the comparison, which must be ext4.
    Ext4,
    /// XFS with reflinks in an image on a loop device with direct I/O.
    Xfs,
    /// btrfs, likewise.
    Btrfs,
    /// A tmpfs.
    Tmpfs,
}

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Place::Ext4 => "ext4",
            Place::Xfs => "xfs",
            Place::Btrfs => "btrfs",
            Place::Tmpfs => "tmpfs",
        }
    }

    /// Files on it can share blocks.
    pub(super) fn shares(self) -> bool {
        matches!(self, Place::Xfs | Place::Btrfs)
    }
}

/// The places of one comparison; images are mounted when they are first used.
pub(super) struct Places {
    disk: PathBuf,
    mounts: RefCell<BTreeMap<Place, Mount>>,
}

impl Places {
    /// Places whose files all end up in `disk`.
    pub(super) fn new(disk: PathBuf) -> Places {
        Places { disk, mounts: RefCell::default() }
    }

    /// The uppermost directory of `place`, or why it is not to be had.
    ///
    /// # Errors
    /// If the mount table cannot be read.
    pub(super) fn directory(&self, place: Place) -> Result<Result<PathBuf, String>> {
        if place == Place::Ext4 {
            let found = filesystem_of(&self.disk)?;
            return Ok(match found.as_str() {
                "ext4" => Ok(self.disk.clone()),
                other => Err(format!(
                    "{} lies on {other}: name a directory on ext4 with --dir",
                    self.disk.display()
                )),
            });
        }
        if !rustix::process::geteuid().is_root() {
            return Ok(Err("needs root, to mount".to_owned()));
        }
        let (formatter, package) = match place {
            Place::Xfs => ("mkfs.xfs", "xfsprogs"),
            Place::Btrfs => ("mkfs.btrfs", "btrfs-progs"),
            Place::Ext4 | Place::Tmpfs => ("mount", "mount"),
        };
        if crate::workspace::find_program(formatter).is_none() {
            return Ok(Err(format!("needs {formatter} (package {package})")));
        }
        let mut mounts = self.mounts.borrow_mut();
        let mount = mounts.entry(place).or_insert_with(|| make(place));
        Ok(Ok(mount.path().to_owned()))
    }

    /// Bytes that can still be written to `place`, whatever its own size says: images lie on the
    /// disk.
    ///
    /// # Errors
    /// If a directory cannot be opened.
    pub(super) fn available_bytes(&self, place: Place, directory: &Path) -> Result<u64> {
        let own = available(directory)?;
        Ok(if place == Place::Tmpfs { own } else { own.min(available(&self.disk)?) })
    }

    /// The directory on disk.
    pub(super) fn disk(&self) -> &Path {
        &self.disk
    }
}

fn make(place: Place) -> Mount {
    let filesystem = match place {
        Place::Xfs => Filesystem::Xfs,
        Place::Btrfs => Filesystem::Btrfs,
        Place::Ext4 | Place::Tmpfs => return Mount::tmpfs(IMAGE_MEBIBYTES),
    };
    let mount = Mount::image(filesystem, IMAGE_MEBIBYTES);
    mount.set_direct_io(true);
    mount
}

fn available(directory: &Path) -> Result<u64> {
    let open =
        File::open(directory).with_context(|| format!("cannot open {}", directory.display()))?;
    let StatVfs { f_bavail, f_frsize, .. } = fstatvfs(open)?;
    Ok(f_bavail * f_frsize)
}

/// The type of the filesystem that holds `path`, from `proc_pid_mountinfo(5)`.
fn filesystem_of(path: &Path) -> Result<String> {
    let device = std::fs::metadata(path)?.dev();
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let table =
        std::fs::read_to_string("/proc/self/mountinfo").context("cannot read the mounts")?;
    let found = table.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let same = before.split(' ').nth(2)? == device;
        same.then(|| after.split(' ').next().unwrap_or_default().to_owned())
    });
    Ok(found.unwrap_or_else(|| "an unknown filesystem".to_owned()))
}
