//! Paths that a user names: the only place where a symbolic link at their end is followed.
//!
//! The rule is what `fs.protected_symlinks` at 1 asks for (proc_sys_fs(5)), whatever it is at. The kernel
//! asks it (`may_follow_link` in `fs/namei.c`) for the last component of a path, and for the last one of
//! the target of each link that it follows there: `pick_link` calls it under `WALK_TRAILING` alone.
//! Links before the last component are resolved by the kernel, without a question.
//!
//! A path whose last component is no link takes the one call that it takes anyway, with `O_NOFOLLOW`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags};

use super::file::{self, Stat};
use super::{Sys, name};
use uncopy_core::{Errno, Error, Reason};

/// Links that are followed one after the other (`MAXSYMLINKS`, `include/linux/namei.h`).
const MAX_LINKS: usize = 40;

/// Why a path was not followed to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowError {
    System(Errno),
    /// The rule forbids it.
    Foreign {
        link: PathBuf,
        owner: u32,
    },
}

impl FollowError {
    /// The error of an operation on what was named.
    pub fn error(self, operation: &'static str, subject: impl AsRef<Path>) -> Error {
        Error::new(operation, subject, self.reason())
    }

    /// The reason of such an error.
    pub fn reason(self) -> Reason {
        match self {
            FollowError::System(errno) => Reason::System { errno },
            FollowError::Foreign { link, owner } => Reason::ForeignLink { link, owner },
        }
    }

    /// The same, of an operation on a destination.
    pub fn at_destination(self, operation: &'static str, subject: impl AsRef<Path>) -> Error {
        let errno = self.errno();
        self.error(operation, subject).met_at_destination(errno)
    }

    pub fn errno(&self) -> Errno {
        match self {
            FollowError::System(errno) => *errno,
            FollowError::Foreign { .. } => Errno::EACCES,
        }
    }
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clone().reason().fmt(f)
    }
}

impl From<Errno> for FollowError {
    fn from(errno: Errno) -> FollowError {
        FollowError::System(errno)
    }
}

impl From<rustix::io::Errno> for FollowError {
    fn from(errno: rustix::io::Errno) -> FollowError {
        FollowError::System(errno.into())
    }
}

/// Result of following a path.
pub type FollowResult<T> = Result<T, FollowError>;

/// What decides whether a link is followed. `None`: an owner that this user namespace does not know,
/// who is nobody's equal.
#[derive(Debug, Clone, Copy)]
struct Trust {
    link_owner: Option<u32>,
    follower: u32,
    directory_owner: Option<u32>,
    directory_mode: u32,
}

impl Trust {
    /// The rule of `may_follow_link`.
    fn is_given(self) -> bool {
        const STICKY_AND_WRITABLE: u32 = libc::S_ISVTX | libc::S_IWOTH;
        self.link_owner == Some(self.follower)
            || self.directory_mode & STICKY_AND_WRITABLE != STICKY_AND_WRITABLE
            || (self.link_owner.is_some() && self.link_owner == self.directory_owner)
    }
}

/// Opens what a path leads to. `O_CLOEXEC` is added.
pub fn open(path: &Path, flags: OFlags) -> FollowResult<OwnedFd> {
    open_at(fs::CWD, path.as_os_str(), flags, 0)
}

/// Opens the directory that a path leads to, as a place to resolve names from; needs no read permission.
pub fn open_directory(path: &Path) -> FollowResult<OwnedFd> {
    open(path, OFlags::PATH | OFlags::DIRECTORY)
}

/// Opens the directory that a path leads to, to list it and to resolve names from it.
pub fn open_root(path: &Path) -> FollowResult<OwnedFd> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens a directory that comes before the last component: no link on the way there is at an end.
pub fn open_before_last(path: &Path) -> Sys<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fs::open(path.join("."), flags, Mode::empty())?)
}

/// Opens what a path leads to from a directory; with `O_CREAT` it is made with this mode.
pub fn open_at(
    directory: impl AsFd,
    path: &OsStr,
    flags: OFlags,
    mode: u32,
) -> FollowResult<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    let (trimmed, is_directory) = trim(path);
    if is_directory && flags.contains(OFlags::CREATE) {
        return Err(Errno::EISDIR.into());
    }
    let only_directories = flags.contains(OFlags::DIRECTORY) || is_directory;
    // A slash at the end would have the link before it followed, whatever the flags say
    // (`open_last_lookups`).
    let mut once = flags | OFlags::NOFOLLOW;
    once.set(OFlags::DIRECTORY, only_directories);
    match fs::openat(&directory, trimmed, once, Mode::from_raw_mode(mode)) {
        Err(rustix::io::Errno::LOOP) => {}
        // Where a file may be made, a link of somebody else is refused before it is looked at
        // (`may_create_in_sticky` in `fs/namei.c`).
        Err(rustix::io::Errno::ACCESS) if flags.contains(OFlags::CREATE) => {}
        // What a link is called where only a directory will do.
        Err(rustix::io::Errno::NOTDIR) if only_directories => {}
        Ok(fd) if flags.contains(OFlags::PATH) && !only_directories && is_link(&fd)? => {}
        other => return Ok(other?),
    }
    Walk::new(Base::Anywhere(directory.as_fd()), path).open(flags, mode)
}

/// Opens what a link leads to without leaving `root`: `path` leads to the link from there.
pub fn open_beneath(root: impl AsFd, path: &OsStr, flags: OFlags) -> FollowResult<OwnedFd> {
    Walk::new(Base::Beneath(root.as_fd()), path).open(flags | OFlags::CLOEXEC, 0)
}

/// Facts about what a path leads to.
pub fn stat(path: &Path) -> FollowResult<Stat> {
    let (trimmed, is_directory) = trim(path.as_os_str());
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let found = file::look_up(fs::CWD, trimmed, flags, file::FACTS)?;
    match found.file_type() {
        FileType::Symlink => Ok(file::stat(open(path, OFlags::PATH)?)?),
        FileType::Directory => Ok(found),
        _ if is_directory => Err(Errno::ENOTDIR.into()),
        _ => Ok(found),
    }
}

/// What a chain of links ends with: a name that is no link.
pub struct LinkTarget {
    pub directory: OwnedFd,
    pub name: OsString,
    /// A path that leads there.
    pub path: PathBuf,
    /// What has the name.
    pub found: Option<(OwnedFd, Stat)>,
}

/// Follows a link that was found in a directory, to write to what it leads to. `path` leads to it.
///
/// A link of `/proc` leads where it says in words, as for realpath(3).
pub fn follow(
    directory: OwnedFd,
    link: OwnedFd,
    link_stat: Stat,
    path: &Path,
) -> FollowResult<LinkTarget> {
    let (mut directory, mut link, mut path) = (directory, (link, link_stat), path.to_owned());
    for _ in 0..MAX_LINKS {
        let target = read_link(&directory, &link.0, &link.1, &path)?;
        path = joined(&path, &target);
        let (before, name) = split(&target)?;
        directory = open_before(Base::Anywhere(directory.as_fd()), &before)?;
        match look(&directory, name)? {
            Some(found) if found.1.file_type() == FileType::Symlink => link = found,
            Some((_, stat)) if trim(&target).1 && stat.file_type() != FileType::Directory => {
                return Err(Errno::ENOTDIR.into());
            }
            found => return Ok(LinkTarget { directory, name: name.to_owned(), path, found }),
        }
    }
    Err(Errno::ELOOP.into())
}

/// What has a name of a directory, held open, a link itself included.
pub fn look(directory: impl AsFd, name: &OsStr) -> Sys<Option<(OwnedFd, Stat)>> {
    match name::open_existing(directory, name, OFlags::PATH) {
        Ok(handle) => file::stat(&handle).map(|stat| Some((handle, stat))),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// What a link says where it leads to: a path from the directory that it lies in, both of them open.
/// `shown` is what the link is called.
fn read_link(
    directory: impl AsFd,
    link: impl AsFd,
    stat: &Stat,
    shown: &Path,
) -> FollowResult<OsString> {
    /// No link of this mount is followed (`MNT_NOSYMFOLLOW`, `include/linux/mount.h`).
    const ST_NOSYMFOLLOW: u64 = 0x2000;
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "widths differ by machine")]
    if fs::fstatfs(&link)?.f_flags as u64 & ST_NOSYMFOLLOW != 0 {
        return Err(Errno::ELOOP.into());
    }
    let parent = file::stat(directory)?;
    let trust = Trust {
        link_owner: known(stat.uid),
        follower: file::effective_uid(),
        directory_owner: known(parent.uid),
        directory_mode: parent.mode,
    };
    if !trust.is_given() {
        return Err(FollowError::Foreign { link: shown.to_owned(), owner: stat.uid });
    }
    let target = fs::readlinkat(link, "", Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()))
}

/// What a link at this path leads to, as a path from the same place.
fn joined(path: &Path, target: &OsStr) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(target)
}

/// From where paths lead.
#[derive(Clone, Copy)]
enum Base<'a> {
    Anywhere(BorrowedFd<'a>),
    /// And no path leads out of there.
    Beneath(BorrowedFd<'a>),
}

/// A path that is followed link by link.
struct Walk<'a> {
    base: Base<'a>,
    /// The directory that the last link lay in.
    at: Option<OwnedFd>,
    path: OsString,
    shown: PathBuf,
}

impl<'a> Walk<'a> {
    fn new(base: Base<'a>, path: &OsStr) -> Walk<'a> {
        Walk { base, at: None, path: path.to_owned(), shown: path.into() }
    }

    fn open(mut self, flags: OFlags, mode: u32) -> FollowResult<OwnedFd> {
        let mut flags = flags;
        // One look more than links: at what the last of them leads to.
        for _ in 0..=MAX_LINKS {
            let (before, name) = split(&self.path)?;
            if trim(&self.path).1 || name == "." {
                flags |= OFlags::DIRECTORY;
            }
            let base = match (self.base, &self.at) {
                (Base::Anywhere(_), Some(at)) => Base::Anywhere(at.as_fd()),
                (base, _) => base,
            };
            let directory = open_before(base, &before)?;
            let as_link = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let link = match fs::openat(&directory, name, as_link, Mode::empty()) {
                Err(rustix::io::Errno::NOENT) if flags.contains(OFlags::CREATE) => None,
                other => Some(other?),
            };
            let stat = link.as_ref().map(file::stat).transpose()?;
            let found = link.zip(stat).filter(|(_, stat)| stat.file_type() == FileType::Symlink);
            let Some((link, stat)) = found else {
                let once = flags | OFlags::NOFOLLOW;
                match fs::openat(&directory, name, once, Mode::from_raw_mode(mode)) {
                    // A link took its name meanwhile.
                    Err(rustix::io::Errno::LOOP) => continue,
                    other => return Ok(other?),
                }
            };
            if is_magic(&link, self.base)? {
                return Ok(fs::openat(&directory, name, flags, Mode::from_raw_mode(mode))?);
            }
            let target = read_link(&directory, &link, &stat, &self.shown)?;
            self.shown = joined(&self.shown, &target);
            self.path = match self.base {
                Base::Anywhere(_) => target,
                Base::Beneath(_) if target.as_bytes().starts_with(b"/") => {
                    return Err(Errno::EXDEV.into());
                }
                Base::Beneath(_) => self.shown.clone().into(),
            };
            self.at = Some(directory);
        }
        Err(Errno::ELOOP.into())
    }
}

/// A link of `/proc` says in words what the kernel alone can follow (proc_pid_fd(5)). Nobody can plant
/// one there. In a tree it is refused, as any link that leads out of it.
fn is_magic(link: &OwnedFd, base: Base<'_>) -> Sys<bool> {
    const PROC_SUPER_MAGIC: u64 = 0x9fa0;
    let is_magic = file::filesystem_magic(link)? == PROC_SUPER_MAGIC;
    match base {
        Base::Beneath(_) if is_magic => Err(Errno::ELOOP),
        _ => Ok(is_magic),
    }
}

/// Opens what comes before the last component. Its links are resolved by the kernel.
fn open_before(base: Base<'_>, before: &OsStr) -> Sys<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = match base {
        Base::Anywhere(from) => return Ok(fs::openat(from, before, flags, Mode::empty())?),
        Base::Beneath(root) => root,
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match fs::openat2(root, before, flags, Mode::empty(), resolve) {
            // Something was renamed on the way meanwhile (openat2(2)).
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// A path without the slashes at its end, and whether there were any.
fn trim(path: &OsStr) -> (&OsStr, bool) {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(bytes.len(), |last| last + 1);
    (OsStr::from_bytes(&bytes[..end]), end < bytes.len())
}

/// The way to the last component, which ends in `.` so that no link of it is at an end; and that
/// component, which is `.` where the path ends in no name.
fn split(path: &OsStr) -> Sys<(OsString, &OsStr)> {
    let (trimmed, _) = trim(path);
    let bytes = trimmed.as_bytes();
    if bytes.is_empty() {
        return Err(Errno::ENOENT);
    }
    let start = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let mut before = bytes[..start].to_vec();
    let name = match &bytes[start..] {
        // It leads out of where the way before it leads.
        b"" | b"." | b".." => {
            before = bytes.to_vec();
            before.push(b'/');
            OsStr::new(".")
        }
        name => OsStr::from_bytes(name),
    };
    before.push(b'.');
    Ok((OsString::from_vec(before), name))
}

fn is_link(fd: &OwnedFd) -> Sys<bool> {
    Ok(file::stat(fd)?.file_type() == FileType::Symlink)
}

/// `None`: the user id that stands for all that the user namespace does not know
/// (user_namespaces(7), "Unmapped user and group IDs").
fn known(owner: u32) -> Option<u32> {
    /// `DEFAULT_OVERFLOWUID`, `include/linux/highuid.h`.
    const OVERFLOW: u32 = 65534;
    (owner != OVERFLOW || knows_everybody()).then_some(owner)
}

fn knows_everybody() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_trusted_with_a_link() {
        let (follower, owner, third) = (Some(1000), Some(1), Some(2));
        for (link_owner, directory_owner, directory_mode, expected) in [
            (follower, owner, 0o41777, true),
            (owner, owner, 0o41777, true),
            (third, owner, 0o41777, false),
            (third, follower, 0o41777, false),
            (Some(0), owner, 0o41777, false),
            (third, Some(0), 0o41777, false),
            (third, owner, 0o41002, false),
            // Not sticky, or not for everybody to write to.
            (third, owner, 0o40777, true),
            (third, owner, 0o41775, true),
            (third, owner, 0o40755, true),
            // Unknown ones are nobody's equal.
            (None, None, 0o41777, false),
            (None, owner, 0o41777, false),
            (third, None, 0o41777, false),
            (follower, None, 0o41777, true),
            (None, None, 0o40777, true),
        ] {
            let trust = Trust { link_owner, follower: 1000, directory_owner, directory_mode };
            assert_eq!(trust.is_given(), expected, "{trust:?}");
        }
    }

    #[test]
    fn paths_are_split_before_their_last_component() {
        for (path, before, name) in [
            ("a", ".", "a"),
            ("a/", ".", "a"),
            ("a//", ".", "a"),
            ("/a", "/.", "a"),
            ("d/a", "d/.", "a"),
            ("d//a/", "d//.", "a"),
            ("/d/e/a", "/d/e/.", "a"),
            ("/", "//.", "."),
            ("//", "///.", "."),
            (".", "./.", "."),
            ("..", "../.", "."),
            ("a/.", "a/./.", "."),
            ("a/..", "a/../.", "."),
            ("a/../", "a/../.", "."),
        ] {
            let (found, last) = split(OsStr::new(path)).unwrap();
            assert_eq!((found.to_str(), last.to_str()), (Some(before), Some(name)), "{path}");
        }
        assert_eq!(split(OsStr::new("")).unwrap_err(), Errno::ENOENT);
    }

    /// A directory with files and links, each of which leads somewhere else.
    fn scene() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("d/e")).unwrap();
        std::fs::write(root.path().join("d/e/file"), "x").unwrap();
        for (link, leads) in [
            ("one", "d/e/file"),
            ("two", "./one"),
            ("d/up", "../two"),
            ("d/out", "../../"),
            ("d/absolute", "/"),
            ("nothing", "missing"),
            ("into", "d/e"),
            ("slash", "d/e//"),
            ("through", "into/file"),
            ("above", "d/e/.."),
        ] {
            std::os::unix::fs::symlink(leads, root.path().join(link)).unwrap();
        }
        root
    }

    /// As the kernel has it: the same file, or the same error.
    #[test]
    fn paths_lead_where_the_kernel_follows_them() {
        let root = scene();
        let paths = [
            "one",
            "two",
            "d/up",
            "d/out",
            "d/absolute",
            "nothing",
            "into",
            "into/",
            "slash",
            "slash/",
            "through",
            "above",
            "above/.",
            "one/",
            "d",
            "d/",
            ".",
            "..",
            "missing",
            "missing/x",
            "one/x",
            "into/file",
            "into/file/",
        ];
        for path in paths {
            let path = root.path().join(path);
            // Path::join drops none of the slashes at the end.
            for flags in [OFlags::RDONLY, OFlags::PATH, OFlags::PATH | OFlags::DIRECTORY] {
                let facts = |fd: OwnedFd| file::stat(fd).map(|stat| (stat.device, stat.inode));
                let expected = fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty());
                let expected = expected.map_err(Errno::from).and_then(facts);
                let found = open(&path, flags).map_err(|stopped| stopped.errno()).and_then(facts);
                assert_eq!(found, expected, "{path:?} {flags:?}");
            }
            let expected = file::look_up(fs::CWD, &path, AtFlags::empty(), file::FACTS);
            let found = stat(&path).map_err(|stopped| stopped.errno());
            assert_eq!(found.map(|s| s.inode), expected.map(|s| s.inode), "{path:?}");
        }
        let found =
            open(Path::new("/proc/self/cwd"), OFlags::RDONLY).and_then(|fd| Ok(file::stat(fd)?));
        assert_eq!(found.unwrap().inode, stat(Path::new(".")).unwrap().inode);
    }

    #[test]
    fn what_is_to_stay_in_a_tree_does() {
        let root = scene();
        let fd = open_root(root.path()).unwrap();
        for (path, expected) in [
            ("one", Ok("d/e/file")),
            ("two", Ok("d/e/file")),
            ("d/up", Ok("d/e/file")),
            ("above", Ok("d")),
            ("slash", Ok("d/e")),
            ("through", Ok("d/e/file")),
            ("d/out", Err(Errno::EXDEV)),
            ("d/absolute", Err(Errno::EXDEV)),
            ("nothing", Err(Errno::ENOENT)),
        ] {
            let found = open_beneath(&fd, OsStr::new(path), OFlags::RDONLY);
            let found = found.map_err(|stopped| stopped.errno()).and_then(file::stat);
            let expected = expected.map(|path| stat(&root.path().join(path)).unwrap().inode);
            assert_eq!(found.map(|stat| stat.inode), expected, "{path}");
        }
    }

    #[test]
    fn a_file_is_made_where_a_link_leads_to_none() {
        let root = scene();
        let path = root.path().join("nothing");
        let flags = OFlags::WRONLY | OFlags::CREATE;
        open_at(fs::CWD, path.as_os_str(), flags, 0o600).unwrap();
        assert!(root.path().join("missing").is_file());
    }
}
