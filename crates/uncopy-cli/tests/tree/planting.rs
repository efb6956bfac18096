//! Metadata that only some filesystems and some users can give: planted where they can.

use std::os::unix::fs::lchown;
use std::path::Path;

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use testbed::{Need, Place};

/// Entries planted in trees, as far as both sides of a copy support them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planting {
    attributes: bool,
    acls: bool,
    /// Files of other users, device files, directories that only root can read.
    pub(crate) as_root: bool,
}

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

impl Planting {
    /// Asks the filesystems of a source and of a destination.
    ///
    /// # Panics
    /// If ext4, XFS, btrfs or tmpfs would not have them.
    pub(crate) fn at(from: Place, to: Place) -> Planting {
        let take =
            |name: &str, value: &[u8]| [from, to].iter().all(|place| takes(*place, name, value));
        Planting {
            attributes: take("user.asked", b"x"),
            acls: take(ACCESS, &acl(7, 6)),
            as_root: Need::Root.unmet().is_none(),
        }
    }

    /// Extended attributes; an empty one, and one of 1000 bytes.
    pub(crate) fn attributes(self, path: &Path) {
        if self.attributes {
            set(path, "user.empty", b"");
            set(path, "user.of a thousand bytes", &[0xA5; 1000]);
        }
    }

    /// An access ACL that names this user, and for directories a default ACL that names another.
    /// Nothing of the mode but the rights of the group (then the mask) is changed.
    pub(crate) fn acl(self, path: &Path, user: u32) {
        if self.acls {
            let before = std::fs::metadata(path).unwrap();
            let permissions = std::os::unix::fs::MetadataExt::mode(&before);
            set(path, ACCESS, &of(permissions, user));
            if before.is_dir() {
                set(path, DEFAULT, &acl(user + 1, 5));
            }
        }
    }

    /// Another owner, whom nobody knows; takes setuid and setgid away.
    pub(crate) fn owner(self, path: &Path, user: u32) {
        if self.as_root {
            lchown(path, Some(user), Some(user + 1)).unwrap();
        }
    }
}

fn takes(place: Place, name: &str, value: &[u8]) -> bool {
    let scratch = place.scratch();
    match rustix::fs::setxattr(scratch.path(), name, value, XattrFlags::empty()) {
        Ok(()) => true,
        // Whoever runs the tests may have any filesystem below the test directory.
        Err(Errno::OPNOTSUPP | Errno::PERM) if place == Place::Disk => false,
        Err(errno) => panic!("{name} on {place:?}: {errno}"),
    }
}

fn set(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty())
        .unwrap_or_else(|errno| panic!("{name} for {}: {errno}", path.display()));
}

/// `u::rwx,u:USER:PERMISSIONS,g::r-x,m::rwx,o::r--`
fn acl(user: u32, permissions: u16) -> Vec<u8> {
    entries([7, permissions, 5, 7, 4], user)
}

/// One that leaves these permissions as they are.
fn of(mode: u32, user: u32) -> Vec<u8> {
    let bits = |shift: u32| (mode >> shift & 0o7) as u16;
    entries([bits(6), 6, 5, bits(3), bits(0)], user)
}

/// In the format of `include/uapi/linux/posix_acl_xattr.h`.
fn entries([owner, named, group, mask, other]: [u16; 5], user: u32) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (0x01_u16, owner, NOBODY),
        (0x02, named, user),
        (0x04, group, NOBODY),
        (0x10, mask, NOBODY),
        (0x20, other, NOBODY),
    ] {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}
