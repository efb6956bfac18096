//! Opens paths given by a user. Only this module follows a symbolic link in the last component.
//!
//! It always applies the rule of `fs.protected_symlinks=1` (proc_sys_fs(5)), also where the setting is 0.
//! The kernel checks it (`may_follow_link` in `fs/namei.c`) for the last component of a path, and for the
//! last component of the target of each link that it follows there: `pick_link` calls it under
//! `WALK_TRAILING` alone. The kernel resolves links before the last component without this check.
//!
//! A path whose last component is not a link needs one system call, with `O_NOFOLLOW`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags};

use super::file::{self, Stat};
use super::{Sys, name};
use uncopy_core::{Errno, Error, Reason};

/// Maximum number of links in a chain (`MAXSYMLINKS`, `include/linux/namei.h`).
const MAX_LINKS: usize = 40;

/// Reason why a path was not followed to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowError {
    System(Errno),
    /// The `protected_symlinks` rule forbids following this link.
    Foreign {
        link: PathBuf,
        owner: u32,
    },
}

impl FollowError {
    /// Returns the error of an operation on `subject`.
    pub fn error(self, operation: &'static str, subject: impl AsRef<Path>) -> Error {
        Error::new(operation, subject, self.reason())
    }

    /// Returns the reason for an error.
    pub fn reason(self) -> Reason {
        match self {
            FollowError::System(errno) => Reason::System { errno },
            FollowError::Foreign { link, owner } => Reason::ForeignLink { link, owner },
        }
    }

    /// Returns the error of an operation on the destination `subject`.
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

/// Facts that decide whether a link is followed. An owner of `None` is not mapped in this user namespace
/// and equals no other owner.
#[derive(Debug, Clone, Copy)]
struct Trust {
    link_owner: Option<u32>,
    follower: u32,
    directory_owner: Option<u32>,
    directory_mode: u32,
}

impl Trust {
    /// Whether the rule of `may_follow_link` allows following the link.
    fn is_given(self) -> bool {
        const STICKY_AND_WRITABLE: u32 = libc::S_ISVTX | libc::S_IWOTH;
        self.link_owner == Some(self.follower)
            || self.directory_mode & STICKY_AND_WRITABLE != STICKY_AND_WRITABLE
            || (self.link_owner.is_some() && self.link_owner == self.directory_owner)
    }
}

/// Opens the file or directory that a path leads to. Adds `O_CLOEXEC`.
pub fn open(path: &Path, flags: OFlags) -> FollowResult<OwnedFd> {
    open_at(fs::CWD, path.as_os_str(), flags, 0)
}

/// Opens the directory that a path leads to, to resolve names from it. Needs no read permission.
pub fn open_directory(path: &Path) -> FollowResult<OwnedFd> {
    open(path, OFlags::PATH | OFlags::DIRECTORY)
}

/// Opens the directory that a path leads to, to list it and to resolve names from it.
pub fn open_root(path: &Path) -> FollowResult<OwnedFd> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens a directory that precedes the last component of a path. The kernel follows all links in it.
pub fn open_before_last(path: &Path) -> Sys<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fs::open(path.join("."), flags, Mode::empty())?)
}

/// Opens the target of a path relative to a directory. With `O_CREAT`, creates it with this mode.
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
    // With a slash at the end the kernel follows a link even with O_NOFOLLOW (`open_last_lookups`).
    let mut once = flags | OFlags::NOFOLLOW;
    once.set(OFlags::DIRECTORY, only_directories);
    match fs::openat(&directory, trimmed, once, Mode::from_raw_mode(mode)) {
        Err(rustix::io::Errno::LOOP) => {}
        // With O_CREAT the kernel refuses a link of another owner first (`may_create_in_sticky` in
        // `fs/namei.c`).
        Err(rustix::io::Errno::ACCESS) if flags.contains(OFlags::CREATE) => {}
        // With O_DIRECTORY the error for a link is ENOTDIR.
        Err(rustix::io::Errno::NOTDIR) if only_directories => {}
        Ok(fd) if flags.contains(OFlags::PATH) && !only_directories && is_link(&fd)? => {}
        other => return Ok(other?),
    }
    Walk::new(Base::Anywhere(directory.as_fd()), path).open(flags, mode)
}

/// Opens the target of the link at `path` below `root`, without leaving `root`.
pub fn open_beneath(root: impl AsFd, path: &OsStr, flags: OFlags) -> FollowResult<OwnedFd> {
    Walk::new(Base::Beneath(root.as_fd()), path).open(flags | OFlags::CLOEXEC, 0)
}

/// Returns facts about the target of a path.
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

/// End of a chain of links: a name that is not a link.
pub struct LinkTarget {
    pub directory: OwnedFd,
    pub name: OsString,
    /// Path of the target.
    pub path: PathBuf,
    /// Handle and facts of the target, if it exists.
    pub found: Option<(OwnedFd, Stat)>,
}

/// Follows a link in `directory`, in order to write to its target. `path` is the path of the link.
///
/// A magic link of `/proc` is followed by its text, as realpath(3) does.
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

/// Opens an entry of a directory with `O_PATH` and returns its facts. A link is not followed.
pub fn look(directory: impl AsFd, name: &OsStr) -> Sys<Option<(OwnedFd, Stat)>> {
    match name::open_existing(directory, name, OFlags::PATH) {
        Ok(handle) => file::stat(&handle).map(|stat| Some((handle, stat))),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Reads the target of a link, a path relative to `directory`, if the link may be followed. `shown` is the
/// path for error messages.
fn read_link(
    directory: impl AsFd,
    link: impl AsFd,
    stat: &Stat,
    shown: &Path,
) -> FollowResult<OsString> {
    /// Mount flag that forbids following links (`MNT_NOSYMFOLLOW`, `include/linux/mount.h`).
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

/// Returns the path of the target of the link at `path`.
fn joined(path: &Path, target: &OsStr) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(target)
}

/// Starting point of a path.
#[derive(Clone, Copy)]
enum Base<'a> {
    Anywhere(BorrowedFd<'a>),
    /// Paths must not lead out of this directory.
    Beneath(BorrowedFd<'a>),
}

/// State of following a path link by link.
struct Walk<'a> {
    base: Base<'a>,
    /// Directory of the last link.
    at: Option<OwnedFd>,
    path: OsString,
    shown: PathBuf,
}

impl<'a> Walk<'a> {
    fn new(base: Base<'a>, path: &OsStr) -> Walk<'a> {
        Walk { base, at: None, path: path.to_owned(), shown: trim(path).0.into() }
    }

    fn open(mut self, flags: OFlags, mode: u32) -> FollowResult<OwnedFd> {
        let mut flags = flags;
        // One iteration more than links, for the target of the last one.
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
                    // A link has replaced the name meanwhile.
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

/// Whether a link is a magic link of `/proc`, which only the kernel can follow (proc_pid_fd(5)). No user can
/// plant one there. In a tree it is refused, as is every link that leads out of the tree.
fn is_magic(link: &OwnedFd, base: Base<'_>) -> Sys<bool> {
    const PROC_SUPER_MAGIC: u64 = 0x9fa0;
    let is_magic = file::filesystem_magic(link)? == PROC_SUPER_MAGIC;
    match base {
        Base::Beneath(_) if is_magic => Err(Errno::ELOOP),
        _ => Ok(is_magic),
    }
}

/// Opens the directory before the last component. The kernel follows links in it.
fn open_before(base: Base<'_>, before: &OsStr) -> Sys<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = match base {
        Base::Anywhere(from) => return Ok(fs::openat(from, before, flags, Mode::empty())?),
        Base::Beneath(root) => root,
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match fs::openat2(root, before, flags, Mode::empty(), resolve) {
            // A component was renamed meanwhile (openat2(2)).
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Returns a path without slashes and `.` behind its last component, and whether there were any: a link that has that
/// component is asked about, though to the kernel it is in the middle of the path.
fn trim(path: &OsStr) -> (&OsStr, bool) {
    let mut bytes = path.as_bytes();
    while let Some(shorter) = bytes.strip_suffix(b"/").or_else(|| bytes.strip_suffix(b"/."))
        && !shorter.is_empty()
    {
        bytes = shorter;
    }
    (OsStr::from_bytes(bytes), bytes.len() < path.len())
}

/// Splits off the last component. The first part ends in `.`, so that none of its links is a last component;
/// the second part is `.` where the path does not end in a name.
fn split(path: &OsStr) -> Sys<(OsString, &OsStr)> {
    let (trimmed, _) = trim(path);
    let bytes = trimmed.as_bytes();
    if bytes.is_empty() {
        return Err(Errno::ENOENT);
    }
    let start = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let mut before = bytes[..start].to_vec();
    let name = match &bytes[start..] {
        // `..` leads out of the directory before it.
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

/// Returns `None` for the overflow user id, which stands for every unmapped user
/// (user_namespaces(7), "Unmapped user and group IDs").
fn known(owner: u32) -> Option<u32> {
    /// `DEFAULT_OVERFLOWUID`, `include/linux/highuid.h`.
    const OVERFLOW: u32 = 65534;
    (owner != OVERFLOW || maps_every_user()).then_some(owner)
}

fn maps_every_user() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_untrusted_owners_are_not_followed() {
        let (follower, owner, third) = (Some(1000), Some(1), Some(2));
        for (link_owner, directory_owner, directory_mode, expected) in [
            (follower, owner, 0o41777, true),
            (owner, owner, 0o41777, true),
            (third, owner, 0o41777, false),
            (third, follower, 0o41777, false),
            (Some(0), owner, 0o41777, false),
            (third, Some(0), 0o41777, false),
            (third, owner, 0o41002, false),
            // Not sticky, or not world-writable.
            (third, owner, 0o40777, true),
            (third, owner, 0o41775, true),
            (third, owner, 0o40755, true),
            // Unmapped owners equal no other owner.
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
            ("//", "//.", "."),
            ("/.", "/./.", "."),
            ("/./", "/./.", "."),
            (".", "./.", "."),
            ("./", "./.", "."),
            ("./.", "./.", "."),
            ("..", "../.", "."),
            ("a/.", ".", "a"),
            ("a/.//./", ".", "a"),
            ("d/./a/./", "d/./.", "a"),
            ("a/..", "a/../.", "."),
            ("a/../", "a/../.", "."),
        ] {
            let (found, last) = split(OsStr::new(path)).unwrap();
            assert_eq!((found.to_str(), last.to_str()), (Some(before), Some(name)), "{path}");
        }
        assert_eq!(split(OsStr::new("")).unwrap_err(), Errno::ENOENT);
    }

    /// Creates a directory with files and links with different targets.
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

    /// The same file, or the same error, as the kernel gives.
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
            "into/.",
            "into/./",
            "one/.",
            "nothing/.",
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
            // Path::join keeps trailing slashes.
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
    fn links_do_not_lead_out_of_a_tree() {
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
    fn opening_a_dangling_link_with_create_makes_its_target() {
        let root = scene();
        let path = root.path().join("nothing");
        let flags = OFlags::WRONLY | OFlags::CREATE;
        open_at(fs::CWD, path.as_os_str(), flags, 0o600).unwrap();
        assert!(root.path().join("missing").is_file());
    }
}
