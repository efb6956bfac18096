//! The file that is read.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, OFlags};

use super::named::Named;
use super::options::CopyOptions;
use crate::capabilities::Filesystem;
use crate::error::{Errno, Error, Reason, Result};
use crate::sys::Sys;
use crate::sys::file::{self, Stat};
use crate::sys::follow::{self, Stopped};

/// An open source, and what it was like when it was opened.
pub(crate) struct Source<'a> {
    pub(crate) path: Named<'a>,
    fd: OwnedFd,
    pub(crate) stat: Stat,
    pub(crate) filesystem: Filesystem,
}

impl<'a> Source<'a> {
    /// Opens a regular file, or with [`CopyOptions::copy_contents`] anything that can be read.
    pub(crate) fn open(path: &'a Path, options: &CopyOptions) -> Result<Source<'a>> {
        let fail = |stopped: Stopped| stopped.error("open", path);
        // O_NONBLOCK: a FIFO without a writer must not make the copy hang before it is refused.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = match follow::open(path, flags) {
            Err(Stopped::System(Errno::ENXIO)) => return Err(refuse(path, FileType::Socket)),
            // Somebody holds a lease: wait for it (fcntl(2), F_SETLEASE).
            Err(Stopped::System(Errno::EAGAIN)) => {
                follow::open(path, OFlags::RDONLY | OFlags::NOCTTY)
            }
            other => other,
        }
        .map_err(fail)?;
        let stat = file::stat(&fd).map_err(|e| Error::system("examine", path, e))?;
        let kind = stat.file_type();
        if kind == FileType::Directory || (kind != FileType::RegularFile && !options.copy_contents)
        {
            return Err(refuse(path, kind));
        }
        if kind != FileType::RegularFile {
            file::set_blocking(&fd).map_err(|errno| fail(errno.into()))?;
        }
        let magic = file::filesystem_magic(&fd).unwrap_or(0);
        let (path, filesystem) = (Named::Path(path), Filesystem::from_magic(magic));
        Ok(Source { path, fd, stat, filesystem })
    }

    /// A regular file that was opened in its directory, and what it was like then.
    pub(crate) fn opened(
        path: Named<'a>,
        fd: OwnedFd,
        stat: Stat,
        filesystem: Filesystem,
    ) -> Source<'a> {
        Source { path, fd, stat, filesystem }
    }

    /// What [`Source::opened`] was given.
    pub(crate) fn into_opened(self) -> (OwnedFd, Stat) {
        (self.fd, self.stat)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Bytes to copy, unless only reading to the end tells.
    pub(crate) fn size(&self) -> Option<u64> {
        (self.is_told() && self.stat.size > 0).then_some(self.stat.size)
    }

    /// Size and times mean what they say: a regular file, and not one made up as it is read.
    pub(crate) fn is_told(&self) -> bool {
        self.stat.file_type() == FileType::RegularFile && !self.filesystem.is_pseudo()
    }

    /// What differs from when the file was opened; `None` for files that change by being read.
    ///
    /// Kernels before 6.13 stamp times by the tick: two writes within 4 ms (1 ms to 10 ms) that
    /// leave the size alone may look like one.
    pub(crate) fn change(&self) -> Sys<Option<String>> {
        if !self.is_told() {
            return Ok(None);
        }
        Ok(difference(&self.stat, &file::stat(&self.fd)?))
    }
}

/// What tells that a file was written to between two looks at it.
pub(crate) fn difference(before: &Stat, now: &Stat) -> Option<String> {
    let mut what = Vec::new();
    if now.size != before.size {
        what.push(format!("size {} to {} bytes", before.size, now.size));
    }
    if now.modified != before.modified {
        what.push("mtime".into());
    }
    if now.changed != before.changed {
        what.push("ctime".into());
    }
    (!what.is_empty()).then(|| what.join(", "))
}

fn refuse(path: &Path, kind: FileType) -> Error {
    Error::new("copy", path, Reason::NotRegular { kind: describe(kind) })
}

/// A file type for people, with its article.
pub(crate) fn describe(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "of an unknown kind",
    }
}
