//! Places to copy from and to.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use rustix::fs::{AtFlags, CWD, StatxFlags};

use crate::harness::Need;
use crate::mount::{Filesystem, Mount};
use crate::process::{filesystem_and_source, find_tool, run_tool};
use crate::scratch::{Scratch, run_directory};

/// A filesystem to copy from or to, mounted once per run on first use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The test directory, on any filesystem; or the one that [`crate::on_each_filesystem`]
    /// selects. Has no requirements.
    Disk,
    /// The test directory, whatever [`crate::on_each_filesystem`] selects. Has no requirements.
    TestDirectory,
    /// ext4 on a loop device.
    Ext4,
    /// XFS on a loop device.
    Xfs,
    /// btrfs on a loop device.
    Btrfs,
    /// A subvolume of [`Place::Btrfs`]: another `st_dev`, the same extents.
    BtrfsSubvolume,
    /// tmpfs.
    Tmpfs,
    /// A second tmpfs.
    OtherTmpfs,
    /// A bind mount of [`Place::Xfs`].
    XfsBind,
    /// overlayfs on directories of [`Place::Xfs`].
    Overlay,
    /// The upper directory of [`Place::Overlay`].
    OverlayUpper,
    /// overlayfs on directories of [`Place::Tmpfs`] and [`Place::Xfs`]: directories have another device than files.
    OverlayOfTwo,
}

/// Magic numbers (`include/uapi/linux/magic.h`).
const MAGIC: [(i64, Place); 3] =
    [(0xEF53, Place::Ext4), (0x5846_5342, Place::Xfs), (0x9123_683E, Place::Btrfs)];
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Large enough for the largest test file; the image is sparse.
const IMAGE_MEBIBYTES: u64 = 6 << 10;

thread_local! {
    /// Replacement for [`Place::Disk`] in the test of this thread.
    static DISK: Cell<Place> = const { Cell::new(Place::Disk) };
}

type Mounted = Mutex<HashMap<Place, &'static OnceLock<PathBuf>>>;

impl Place {
    /// Returns its requirements.
    #[must_use]
    pub fn needs(self) -> &'static [Need] {
        const XFS: &[Need] = &[Need::Root, Need::Tool("mkfs.xfs")];
        const BTRFS: &[Need] = &[Need::Root, Need::Tool("mkfs.btrfs"), Need::Tool("btrfs")];
        match self {
            Place::Disk | Place::TestDirectory => &[],
            Place::Ext4 => &[Need::Root, Need::Tool("mkfs.ext4")],
            Place::Xfs
            | Place::XfsBind
            | Place::Overlay
            | Place::OverlayUpper
            | Place::OverlayOfTwo => XFS,
            Place::Btrfs | Place::BtrfsSubvolume => BTRFS,
            Place::Tmpfs | Place::OtherTmpfs => &[Need::Root],
        }
    }

    /// Makes a new directory there.
    #[must_use]
    pub fn scratch(self) -> Scratch {
        Scratch::new_in(&self.path())
    }

    /// Returns those of [`Place::Ext4`], [`Place::Xfs`] and [`Place::Btrfs`] whose filesystem
    /// differs from that of [`Place::Disk`].
    #[must_use]
    pub fn beside_the_disk() -> Vec<Place> {
        let disk = magic_of_the_disk();
        let others = MAGIC.into_iter().filter(|(number, _)| *number != disk);
        others.map(|(_, place)| place).collect()
    }

    /// Runs `body` with this place as [`Place::Disk`].
    pub(crate) fn in_place_of_the_disk(self, body: &dyn Fn()) {
        struct Back;
        impl Drop for Back {
            fn drop(&mut self) {
                DISK.set(Place::Disk);
            }
        }
        let _back = Back;
        DISK.set(self);
        body();
    }

    fn really(self) -> Place {
        if self == Place::Disk { DISK.get() } else { self }
    }

    /// Returns its top directory.
    #[must_use]
    pub fn path(self) -> PathBuf {
        self.really().mounted()
    }

    fn mounted(self) -> PathBuf {
        static MOUNTED: OnceLock<Mounted> = OnceLock::new();
        let slot = {
            let mut mounted = MOUNTED
                .get_or_init(Mutex::default)
                .lock()
                .expect("nothing that can fail runs under this lock");
            *mounted.entry(self).or_insert_with(|| Box::leak(Box::default()))
        };
        slot.get_or_init(|| self.make()).clone()
    }

    fn make(self) -> PathBuf {
        match self {
            Place::Disk | Place::TestDirectory => run_directory(),
            Place::Ext4 => keep(Mount::image(Filesystem::Ext4, IMAGE_MEBIBYTES)),
            Place::Xfs => keep(Mount::image(Filesystem::Xfs, IMAGE_MEBIBYTES)),
            Place::Btrfs => keep(Mount::image(Filesystem::Btrfs, IMAGE_MEBIBYTES)),
            Place::BtrfsSubvolume => {
                let path = Place::Btrfs.path().join("subvolume");
                run_tool("btrfs", ["subvolume".as_ref(), "create".as_ref(), path.as_os_str()]);
                path
            }
            Place::Tmpfs | Place::OtherTmpfs => keep(Mount::tmpfs(IMAGE_MEBIBYTES)),
            Place::XfsBind => keep(Mount::bind(&Place::Xfs.path())),
            Place::Overlay => overlay(&Place::Xfs.path(), &Place::Xfs.path(), ""),
            Place::OverlayOfTwo => overlay(&Place::Tmpfs.path(), &Place::Xfs.path(), "of two "),
            Place::OverlayUpper => {
                let _ = Place::Overlay.path();
                Place::Xfs.path().join("upper")
            }
        }
    }

    /// Whether `FICLONE` works inside this place.
    #[must_use]
    pub fn has_reflinks(self) -> bool {
        static OF_THE_TEST_DIRECTORY: OnceLock<bool> = OnceLock::new();
        let place = self.really();
        if matches!(place, Place::Disk | Place::TestDirectory) {
            return *OF_THE_TEST_DIRECTORY.get_or_init(|| shares(&place.path()));
        }
        matches!(
            place,
            Place::Xfs
                | Place::Btrfs
                | Place::BtrfsSubvolume
                | Place::XfsBind
                | Place::Overlay
                | Place::OverlayUpper
                | Place::OverlayOfTwo
        )
    }
}

/// Found out by a trial: the test directory may be on any filesystem.
fn shares(directory: &Path) -> bool {
    let file = || tempfile::tempfile_in(directory).expect("a test directory is writable");
    let source = file();
    rustix::io::write(&source, &[1; 4096]).expect("a test directory is writable");
    rustix::fs::ioctl_ficlone(file(), &source).is_ok()
}

/// Mounts an overlay of new directories, whose names begin with `prefix`.
fn overlay(lower: &Path, upper: &Path, prefix: &str) -> PathBuf {
    let directories = [(lower, "lower"), (upper, "upper"), (upper, "work")].map(|(base, name)| {
        let directory = base.join(format!("{prefix}{name}"));
        std::fs::create_dir_all(&directory).expect("a filesystem just mounted");
        directory
    });
    let [lower, upper, work] = directories;
    keep(Mount::overlay(&lower, &upper, &work))
}

/// The namespace unmounts it when its last process ends.
fn keep(mount: Mount) -> PathBuf {
    let mount: &'static Mount = Box::leak(Box::new(mount));
    mount.path().to_owned()
}

fn magic_of_the_disk() -> i64 {
    rustix::fs::statfs(run_directory()).expect("the directory of this run is there").f_type
}

/// Whether [`Place::Disk`] is a filesystem whose times of files are those of the kernel's clock.
pub(crate) fn disk_has_kernel_times() -> bool {
    let disk = magic_of_the_disk();
    disk == TMPFS_MAGIC || MAGIC.iter().any(|(number, _)| *number == disk)
}

/// Whether an `O_DIRECT` write in [`Place::Disk`] goes from the caller's pages to a device: ext4 or
/// XFS with `STATX_DIOALIGN`, on a device that is not a loop, device-mapper or md device.
pub(crate) fn disk_is_a_bare_device() -> bool {
    let path = Place::Disk.path();
    if find_tool("findmnt").is_none() {
        return false;
    }
    let Some((filesystem, source)) = filesystem_and_source(&path) else { return false };
    let Some(device) = Path::new(&source).file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let stacked = ["loop", "dm-", "md", "zram", "nbd"].iter().any(|&kind| device.starts_with(kind))
        || source.starts_with("/dev/mapper/");
    matches!(filesystem.as_str(), "ext4" | "xfs") && !stacked && direct_io_alignment(&path) > 0
}

fn direct_io_alignment(directory: &Path) -> u32 {
    let file = tempfile::NamedTempFile::new_in(directory).expect("a test directory is writable");
    rustix::fs::statx(CWD, file.path(), AtFlags::empty(), StatxFlags::DIOALIGN)
        .map_or(0, |answer| answer.stx_dio_offset_align)
}
