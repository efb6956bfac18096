//! What new files of a directory are like before anybody gives them anything.

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

/// What a new file in a directory is like. All new files there are alike, so that one look at the
/// first spares the calls that would change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CreationDefaults {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// What is taken from the mode that a file is created with.
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

/// The new files of a directory: what they are defaults like, once one of them was looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectoryDefaults<'a> {
    pub(crate) defaults: &'a OnceLock<Option<CreationDefaults>>,
    pub(crate) umask: &'a Umask,
}

impl DirectoryDefaults<'_> {
    /// What all of them are like, known from this one if from no other: it was created with `mode`,
    /// and nobody has given it anything.
    pub(crate) fn look(&self, fd: BorrowedFd<'_>, mode: u32) -> Option<CreationDefaults> {
        *self.defaults.get_or_init(|| CreationDefaults::look(fd, mode, self.umask.get()))
    }
}
