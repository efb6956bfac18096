//! Determines owner, group and permissions of new files in a directory.

use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use uncopy_core::Errno;
use uncopy_os::xattr::ACCESS_ACL;
use uncopy_os::{file, name, xattr};

/// The process's umask, looked up when it first matters.
#[derive(Debug, Default)]
pub(crate) struct Umask(OnceLock<u32>);

impl Umask {
    pub(crate) fn get(&self) -> u32 {
        *self.0.get_or_init(|| name::umask().unwrap_or(0o022))
    }
}

/// Owner and permissions of a new file. All new files of a directory are alike, so that one look at the
/// first spares the calls that would change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CreationDefaults {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Permissions removed from the mode that a file is created with.
    pub(crate) umask: u32,
}

impl CreationDefaults {
    /// Looks at a file that was just created with `mode`; `None` where something else than the
    /// umask decides about permissions (a default ACL, a filesystem without them).
    fn look(fd: BorrowedFd<'_>, mode: u32, umask: u32) -> Option<CreationDefaults> {
        let stat = file::stat(fd).ok()?;
        let plain = stat.permissions() == mode & !umask;
        let has_acl = !matches!(xattr::get(fd, ACCESS_ACL), Ok(None) | Err(Errno::EOPNOTSUPP));
        (plain && !has_acl).then_some(CreationDefaults { uid: stat.uid, gid: stat.gid, umask })
    }
}

/// Defaults of a directory, known once one new file was looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectoryDefaults<'a> {
    pub(crate) defaults: &'a OnceLock<Option<CreationDefaults>>,
    pub(crate) umask: &'a Umask,
}

impl DirectoryDefaults<'_> {
    /// Returns the defaults; looks at this file if no other was looked at: it was created with `mode` and
    /// not changed since.
    pub(crate) fn look(&self, fd: BorrowedFd<'_>, mode: u32) -> Option<CreationDefaults> {
        *self.defaults.get_or_init(|| CreationDefaults::look(fd, mode, self.umask.get()))
    }
}
