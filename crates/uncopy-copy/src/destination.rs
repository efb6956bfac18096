//! The destination of a copy: looks up what is there and checks whether it may be replaced.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};

use super::backup;
use super::display_path::DisplayPath;
use super::options::{CopyOptions, Existing, IfChanged};
use super::source::Source;
use super::stale::Register;
use uncopy_core::{Contradiction, Errno, Error, FileKind, Objection, Reason, Result};
use uncopy_os::capabilities::Filesystem;
use uncopy_os::file::{self, Stat};
use uncopy_os::follow::{self, FollowError, LinkTarget};
use uncopy_os::{Sys, name};

/// The name that the copy gets, and the file that has that name now.
pub(crate) struct Destination<'a> {
    /// Path as the caller gave it.
    pub(crate) given: DisplayPath<'a>,
    /// Path that a symbolic link at the end of that path leads to.
    followed: Option<PathBuf>,
    directory: Arc<OwnedFd>,
    /// Filesystem of the directory, if it is known.
    filesystem: Option<Filesystem>,
    name: Cow<'a, OsStr>,
    /// Existing file of that name.
    pub(crate) found: Option<ExistingEntry>,
    /// Whether the name was taken when it was looked up, also where `found` passes nothing on.
    pub(crate) is_taken: bool,
}

/// An existing destination, held open so that its inode number cannot be reused during the copy.
pub(crate) struct ExistingEntry {
    pub(crate) handle: OwnedFd,
    pub(crate) stat: Stat,
}

/// Whether an existing file is the source itself, and not a further name of it that may be replaced: the source stays.
pub(crate) fn is_own_source(options: &CopyOptions, found: &Stat, source: &Stat) -> bool {
    let is_other_name = options.replaces_name() && found.links > 1;
    found.is_same_file(source) && !is_other_name
}

impl<'a> Destination<'a> {
    /// Looks at the destination; changes nothing.
    pub(crate) fn resolve(
        given: &'a Path,
        source: &Source<'_>,
        options: &CopyOptions,
    ) -> Result<Destination<'a>> {
        let (parent, name) = split(given)?;
        let directory = follow::open_directory(parent)
            .map_err(|stopped| stopped.at_destination("open", parent))?;
        let found = follow::look(&directory, name)
            .map_err(|errno| Error::destination("examine", given, errno))?;
        let is_link = |stat: &Stat| stat.file_type() == FileType::Symlink;
        let (directory, name, found, followed) = match found {
            Some(link)
                if is_link(&link.1)
                    && options.existing != Existing::Keep
                    && !options.replaces_name() =>
            {
                let (end, found) = follow_link(directory, link, given)?;
                (end.directory, Cow::Owned(end.name), Some(found), Some(end.path))
            }
            found => (directory, Cow::Borrowed(name), found, None),
        };
        let found = found.map(|(handle, stat)| ExistingEntry { handle, stat });
        let (given, directory) = (DisplayPath::Path(given), Arc::new(directory));
        let (filesystem, is_taken) = (None, found.is_some());
        let mut destination =
            Destination { given, followed, directory, filesystem, name, found, is_taken };
        if let Some(found) = &destination.found
            && found.stat.file_type() != FileType::Symlink
        {
            destination.check(found, source, options)?;
        }
        destination.give_up_name(source, options)?;
        Ok(destination)
    }

    /// Describes a name in an open directory, where `found` is the regular file of that name. Any
    /// other kind of entry, also a symbolic link, is replaced by the copy and not written through.
    pub(crate) fn beneath(
        directory: Arc<OwnedFd>,
        filesystem: Filesystem,
        name: &'a OsStr,
        given: DisplayPath<'a>,
        found: Option<ExistingEntry>,
        source: &Source<'_>,
        options: &CopyOptions,
    ) -> Result<Destination<'a>> {
        let (followed, filesystem, name) = (None, Some(filesystem), Cow::Borrowed(name));
        let is_taken = found.is_some();
        let mut destination =
            Destination { given, followed, directory, filesystem, name, found, is_taken };
        if let Some(found) = &destination.found {
            destination.check(found, source, options)?;
        }
        destination.give_up_name(source, options)?;
        Ok(destination)
    }

    /// Forgets the existing file where its name is replaced, so that nothing is taken from it.
    fn give_up_name(&mut self, source: &Source<'_>, options: &CopyOptions) -> Result<()> {
        if !options.replaces_name() {
            return Ok(());
        }
        let is_there = self.found.take().is_some();
        if is_there && let Some(backup) = &options.backup {
            let (directory, name) = (self.directory(), &*self.name);
            let refuse = |why| Err(Error::new("write to", self.given, Reason::Refused(why)));
            let (found, source_name) = (source.stat_here(), source.path.as_ref().file_name());
            if backup::would_overwrite(directory, name, backup, &found, source_name) {
                return refuse(Objection::BackupIsSource);
            }
            if let Some(why) = backup::obstacle(directory, name, backup) {
                return refuse(why);
            }
        }
        Ok(())
    }

    /// Returns the path, or one that leads to the target of a symbolic link at its end.
    pub(crate) fn path(&self) -> &Path {
        self.followed.as_deref().unwrap_or(self.given.as_ref())
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Returns the filesystem of `written`, which was created in the directory or is the existing
    /// destination.
    pub(crate) fn filesystem_of(&self, written: BorrowedFd<'_>) -> Filesystem {
        // Another filesystem may be mounted on the existing destination.
        let known = self.filesystem.filter(|_| self.found.is_none());
        let ask = || Filesystem::from_magic(file::filesystem_magic(written).unwrap_or(0));
        known.unwrap_or_else(ask)
    }

    /// Opens the existing destination again, to read from it.
    pub(crate) fn open_found(&self) -> Sys<OwnedFd> {
        name::open_existing(&self.directory, &self.name, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    /// Notes the destination's temporary names beside it.
    pub(crate) fn register(&self) -> Register {
        Register::new(Arc::clone(&self.directory), &self.name)
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// The existing destination is no regular file, and the caller wants its bytes written to it.
    pub(crate) fn is_stream(&self) -> bool {
        self.found.as_ref().is_some_and(|f| f.stat.file_type() != FileType::RegularFile)
    }

    /// The existing destination is a FIFO.
    pub(crate) fn is_fifo(&self) -> bool {
        self.found.as_ref().is_some_and(|f| f.stat.file_type() == FileType::Fifo)
    }

    /// Whether an existing file is append-only or immutable: also root can neither write over it nor replace it
    /// (ioctl_iflags(2)).
    fn is_fixed(&self, found: &ExistingEntry) -> bool {
        found.stat.is_flagged
            && (file::is_append_only(&found.handle) == Ok(true)
                || name::may_write(&self.directory, &self.name) == Err(Errno::EPERM))
    }

    fn check(
        &self,
        found: &ExistingEntry,
        source: &Source<'_>,
        options: &CopyOptions,
    ) -> Result<()> {
        let refuse = |reason| Err(Error::new("write to", self.given, reason));
        let kind = found.stat.file_type();
        // A FIFO or device that is copied into itself may never end.
        if is_own_source(options, &found.stat, &source.stat_here())
            && !matches!(kind, FileType::Directory | FileType::Symlink | FileType::Socket)
        {
            return refuse(Reason::SameFile { source_path: source.path.as_ref().to_owned() });
        }
        match kind {
            FileType::RegularFile => {}
            // It stays, whatever it is.
            _ if options.existing == Existing::Keep => return Ok(()),
            _ if options.replaces_name() && kind != FileType::Directory => {}
            FileType::Directory | FileType::Symlink | FileType::Socket => {
                return refuse(Reason::NotRegular { kind: kind.into() });
            }
            _ if !options.copy_contents => {
                return refuse(Reason::NotRegular { kind: kind.into() });
            }
            _ if options.if_changed == IfChanged::Retry => {
                let kind = kind.into();
                return refuse(Reason::Options(Contradiction::StreamCannotRetry { kind }));
            }
            _ => return Ok(()),
        }
        if options.existing == Existing::Keep {
            return Ok(());
        }
        if self.is_fixed(found) {
            return refuse(Reason::System { errno: Errno::EPERM });
        }
        if options.writes_into_existing() {
            return Ok(());
        }
        if found.stat.mount_root {
            return refuse(Reason::Refused(Objection::MountPoint));
        }
        check_mode(options, self.directory(), &self.name).or_else(|errno| {
            refuse(match errno {
                Errno::EACCES => Reason::Refused(Objection::WritingForbidden),
                errno => Reason::System { errno },
            })
        })
    }
}

/// Checks that the mode of a file lets it be replaced. `EACCES`: only with force.
pub(crate) fn check_mode(
    options: &CopyOptions,
    directory: BorrowedFd<'_>,
    name: &OsStr,
) -> Sys<()> {
    match options.existing == Existing::Replace && !options.replaces_name() {
        true => name::may_write(directory, name),
        false => Ok(()),
    }
}

/// Follows a symbolic link at the end of the path to an existing file, as `cp` does when it writes
/// through one.
pub(crate) fn follow_link(
    directory: OwnedFd,
    link: (OwnedFd, Stat),
    given: &Path,
) -> Result<(LinkTarget, (OwnedFd, Stat))> {
    let nowhere = || Error::new("write to", given, Reason::Refused(Objection::LinkToNothing));
    match follow::follow(directory, link.0, link.1, given) {
        Ok(mut end) => {
            let found = end.found.take().ok_or_else(nowhere)?;
            Ok((end, found))
        }
        Err(FollowError::System(Errno::ENOENT)) => Err(nowhere()),
        Err(stopped) => Err(stopped.at_destination("write to", given)),
    }
}

/// Directory and name. A path that ends in `/`, `.` or `..` names no file.
fn split(path: &Path) -> Result<(&Path, &OsStr)> {
    let names_directory = path.as_os_str().as_bytes().ends_with(b"/");
    match path.file_name() {
        Some(name) if !names_directory && !path.as_os_str().as_bytes().ends_with(b"/.") => {
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
            Ok((parent.unwrap_or(Path::new(".")), name))
        }
        _ if path.as_os_str().is_empty() => Err(Error::system("open", path, Errno::ENOENT)),
        _ => Err(match follow::stat(path) {
            Ok(_) => Error::new("write to", path, Reason::NotRegular { kind: FileKind::Directory }),
            Err(stopped) => stopped.error("open", path),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_into_directory_and_name() {
        for (path, expected) in [
            ("a", Some((".", "a"))),
            ("/a", Some(("/", "a"))),
            ("d/a", Some(("d", "a"))),
            ("./a", Some((".", "a"))),
            ("../a", Some(("..", "a"))),
            ("src/", None),
            ("src/.", None),
            ("..", None),
            ("/", None),
            ("", None),
        ] {
            let split = split(Path::new(path)).ok();
            let expected = expected.map(|(d, n)| (Path::new(d), OsStr::new(n)));
            assert_eq!(split, expected, "{path:?}");
        }
    }
}
