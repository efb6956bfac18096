//! Filesystems by their magic number.

use std::fmt;

/// A kind of filesystem, from `statfs(2)`.
///
/// Abilities are found out by trying. The kind only gives a name, and what a trial cannot show:
/// whether sizes are reliable, whether pages may be mapped, and whether a successful `O_DIRECT`
/// write was really direct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Filesystem {
    magic: u64,
}

/// Magic numbers: `include/uapi/linux/magic.h`, and each filesystem's own header.
const KNOWN: &[(u64, &str, Class)] = &[
    (0xEF53, "ext4", Class::Local),
    (0x5846_5342, "xfs", Class::Local),
    (0x9123_683E, "btrfs", Class::Local),
    (0x0102_1994, "tmpfs", Class::Memory),
    (0x8584_58f6, "ramfs", Class::Memory),
    (0x794c_7630, "overlayfs", Class::Local),
    (0xF2F5_2010, "f2fs", Class::Local),
    (0xCA45_1A4E, "bcachefs", Class::Local),
    (0x2FC1_2FC1, "zfs", Class::Local),
    (0x4d44, "vfat", Class::Local),
    (0x2011_BAB0, "exfat", Class::Local),
    (0x7366_746e, "ntfs3", Class::Local),
    (0x9660, "iso9660", Class::Local),
    (0x7371_7368, "squashfs", Class::Local),
    (0xE0F5_E1E2, "erofs", Class::Local),
    (0x9fa0, "proc", Class::Pseudo),
    (0x6265_6572, "sysfs", Class::Pseudo),
    (0x0027_e0eb, "cgroup", Class::Pseudo),
    (0x6367_7270, "cgroup2", Class::Pseudo),
    (0x6462_6720, "debugfs", Class::Pseudo),
    (0x7472_6163, "tracefs", Class::Pseudo),
    (0x7363_6673, "securityfs", Class::Pseudo),
    (0xcafe_4a11, "bpf", Class::Pseudo),
    (0x6165_676C, "pstore", Class::Pseudo),
    (0x6265_6570, "configfs", Class::Pseudo),
    (0xde5e_81e4, "efivarfs", Class::Pseudo),
    (0xf97c_ff8c, "selinuxfs", Class::Pseudo),
    (0x6969, "nfs", Class::Network),
    (0xFF53_4D42, "cifs", Class::Network),
    (0xFE53_4D42, "smb2", Class::Network),
    (0x0102_1997, "9p", Class::Network),
    (0x00C3_6400, "ceph", Class::Network),
    (0x5346_414F, "afs", Class::Network),
    (0x6573_5546, "fuse", Class::User),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Local,
    Memory,
    Pseudo,
    Network,
    User,
    Other,
}

impl Filesystem {
    /// ext2, ext3 and ext4, which share one magic number.
    pub const EXT4: Filesystem = Filesystem { magic: 0xEF53 };
    /// XFS.
    pub const XFS: Filesystem = Filesystem { magic: 0x5846_5342 };
    /// Btrfs.
    pub const BTRFS: Filesystem = Filesystem { magic: 0x9123_683E };
    /// overlayfs.
    pub const OVERLAYFS: Filesystem = Filesystem { magic: 0x794c_7630 };
    /// OpenZFS.
    pub const ZFS: Filesystem = Filesystem { magic: 0x2FC1_2FC1 };
    /// F2FS.
    pub const F2FS: Filesystem = Filesystem { magic: 0xF2F5_2010 };
    /// FAT with long names.
    pub const VFAT: Filesystem = Filesystem { magic: 0x4d44 };
    /// exFAT.
    pub const EXFAT: Filesystem = Filesystem { magic: 0x2011_BAB0 };
    /// NTFS by the in-kernel driver.
    pub const NTFS3: Filesystem = Filesystem { magic: 0x7366_746e };

    /// Returns the filesystem with this `f_type`.
    #[must_use]
    pub const fn from_magic(magic: u64) -> Filesystem {
        Filesystem { magic }
    }

    fn known(self) -> Option<&'static (u64, &'static str, Class)> {
        KNOWN.iter().find(|(magic, ..)| *magic == self.magic)
    }

    fn class(self) -> Class {
        self.known().map_or(Class::Other, |(_, _, class)| *class)
    }

    /// Whether files are generated when they are read, so that their sizes mean nothing (`/proc`,
    /// `/sys`).
    #[must_use]
    pub fn is_pseudo(self) -> bool {
        self.class() == Class::Pseudo
    }

    /// Whether files live in memory only (tmpfs).
    #[must_use]
    pub fn is_memory(self) -> bool {
        self.class() == Class::Memory
    }

    /// Whether `copy_file_range` is the kernel's generic splice loop here, because the filesystem
    /// has no implementation (`fs/read_write.c`, `vfs_copy_file_range`): it copies, and shares
    /// nothing.
    #[must_use]
    pub fn copies_by_splice(self) -> bool {
        self == Filesystem::EXT4 || self.is_memory()
    }

    /// Whether files live on another machine.
    #[must_use]
    pub fn is_network(self) -> bool {
        self.class() == Class::Network
    }

    /// Whether a user-space program serves the files (FUSE): sizes may be wrong, pages may be
    /// missing.
    #[must_use]
    pub fn is_user(self) -> bool {
        self.class() == Class::User
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some((_, name, _)) => f.write_str(name),
            None => write!(f, "filesystem {:#x}", self.magic),
        }
    }
}
