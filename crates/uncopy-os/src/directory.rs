//! Directories of a tree: opening beneath one, listing, making entries and giving them metadata by
//! name. No call here follows a symbolic link at the end of a name unless it says so.

use std::ffi::{CStr, OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags, SeekFrom};

use super::Sys;
use super::file::{FACTS, Stat, Timestamp, look_up, path_of};
use uncopy_core::Errno;

/// `PATH_MAX` less the terminating zero (`linux/limits.h`): what one call takes of a path.
const PATH_BYTES: usize = 4095;

/// Opens the directory `name` of a directory.
pub fn open_child(directory: impl AsFd, name: &OsStr) -> Sys<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(directory, name, flags, Mode::empty())?)
}

/// The same, only to resolve names from: needs no read permission.
pub fn open_child_path(directory: impl AsFd, name: &OsStr) -> Sys<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(directory, name, flags, Mode::empty())?)
}

/// Opens the directory above one.
pub fn open_parent(directory: impl AsFd) -> Sys<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fs::openat(directory, "..", flags, Mode::empty())?)
}

/// Opens a directory by the names that lead to it from `root`, however many, without leaving
/// `root` and without following a symbolic link (`openat2(2)`).
pub fn open_beneath(root: impl AsFd, names: &[&OsStr], only_path: bool) -> Sys<OwnedFd> {
    let mut directory: Option<OwnedFd> = None;
    let mut rest = names;
    loop {
        let (path, taken) = first_names(rest);
        rest = &rest[taken..];
        let only_path = only_path || !rest.is_empty();
        let from = directory.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        let opened = open_stretch(from, &path, only_path)?;
        if rest.is_empty() {
            return Ok(opened);
        }
        directory = Some(opened);
    }
}

/// As many of the names as one call takes, joined, and their number.
fn first_names(names: &[&OsStr]) -> (OsString, usize) {
    let mut path = Vec::new();
    let mut taken = 0;
    for name in names {
        if !path.is_empty() {
            if path.len() + 1 + name.len() > PATH_BYTES {
                break;
            }
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        taken += 1;
    }
    if path.is_empty() {
        path.push(b'.');
    }
    (OsString::from_vec(path), taken)
}

fn open_stretch(from: impl AsFd, path: &OsStr, only_path: bool) -> Sys<OwnedFd> {
    let access = if only_path { OFlags::PATH } else { OFlags::RDONLY };
    let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match fs::openat2(&from, path, flags, Mode::empty(), resolve) {
            // Something was renamed on the way meanwhile (openat2(2)).
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            // Linux before 5.6, and filters that do not know the call.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => break,
            other => return Ok(other?),
        }
    }
    open_one_by_one(from, path, flags)
}

/// One name after the other: `O_NOFOLLOW` then means each of them.
fn open_one_by_one(from: impl AsFd, path: &OsStr, flags: OFlags) -> Sys<OwnedFd> {
    let mut directory: Option<OwnedFd> = None;
    for name in path.as_bytes().split(|b| *b == b'/') {
        let from = directory.as_ref().map_or(from.as_fd(), AsFd::as_fd);
        directory = Some(fs::openat(from, OsStr::from_bytes(name), flags, Mode::empty())?);
    }
    directory.ok_or(Errno::ENOENT)
}

/// Facts about what has this name, a symbolic link itself included.
pub fn stat_name(directory: impl AsFd, name: &OsStr) -> Sys<Stat> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    look_up(directory, name, flags, FACTS)
}

/// Facts about what has this path, a symbolic link itself included.
pub fn stat_path(path: &Path) -> Sys<Stat> {
    look_up(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW, FACTS)
}

/// One entry of a listing.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub name: &'a CStr,
    pub kind: FileType,
    pub inode: u64,
    /// Where the listing goes on behind it ([`rewind_to`]).
    pub next: u64,
}

/// Lists a directory from where its descriptor stands; `take` says whether to go on. `.` and `..`
/// are left out. `false`: not listed to the end.
pub fn list(
    directory: impl AsFd,
    buffer: &mut [MaybeUninit<u8>],
    mut take: impl FnMut(Entry<'_>) -> bool,
) -> Sys<bool> {
    let mut entries = fs::RawDir::new(directory, buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let entry = Entry {
            name,
            kind: entry.file_type(),
            inode: entry.ino(),
            next: entry.next_entry_cookie(),
        };
        if !take(entry) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a directory that was just opened has no entries.
pub fn is_empty(directory: impl AsFd) -> Sys<bool> {
    list(directory, &mut [MaybeUninit::uninit(); 1024], |_| false)
}

/// Lets a listing go on at a place that [`Entry::next`] named, or at 0 from its beginning
/// (`telldir(3)`).
pub fn rewind_to(directory: impl AsFd, place: u64) -> Sys<()> {
    fs::seek(directory, SeekFrom::Start(place))?;
    Ok(())
}

/// A new directory; umask and default ACL apply to `mode`.
pub fn make(directory: impl AsFd, name: &OsStr, mode: u32) -> Sys<()> {
    Ok(fs::mkdirat(directory, name, Mode::from_raw_mode(mode))?)
}

/// Removes an empty directory.
pub fn remove(directory: impl AsFd, name: &OsStr) -> Sys<()> {
    Ok(fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?)
}

/// Where a symbolic link leads to.
pub fn read_link(directory: impl AsFd, name: &OsStr) -> Sys<OsString> {
    let target = fs::readlinkat(directory, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()))
}

/// A new symbolic link.
pub fn make_link(target: &OsStr, directory: impl AsFd, name: &OsStr) -> Sys<()> {
    Ok(fs::symlinkat(target, directory, name)?)
}

/// A new FIFO, socket or device; umask and default ACL apply to `mode`.
pub fn make_special(
    directory: impl AsFd,
    name: &OsStr,
    kind: FileType,
    mode: u32,
    major: u32,
    minor: u32,
) -> Sys<()> {
    let device = fs::makedev(major, minor);
    Ok(fs::mknodat(directory, name, kind, Mode::from_raw_mode(mode), device)?)
}

/// Another name for the file `from`, which is not followed if it is a symbolic link.
pub fn hard_link(
    from_directory: impl AsFd,
    from: &OsStr,
    directory: impl AsFd,
    name: &OsStr,
) -> Sys<()> {
    Ok(fs::linkat(from_directory, from, directory, name, AtFlags::empty())?)
}

/// Owner of what has this name.
pub fn set_owner(
    directory: impl AsFd,
    name: &OsStr,
    uid: Option<u32>,
    gid: Option<u32>,
) -> Sys<()> {
    let uid = uid.map(fs::Uid::from_raw);
    let gid = gid.map(fs::Gid::from_raw);
    Ok(fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Times of what has this name.
pub fn set_times(
    directory: impl AsFd,
    name: &OsStr,
    accessed: Timestamp,
    modified: Timestamp,
) -> Sys<()> {
    let spec = |t: Timestamp| fs::Timespec { tv_sec: t.seconds, tv_nsec: t.nanoseconds.into() };
    let times = fs::Timestamps { last_access: spec(accessed), last_modification: spec(modified) };
    Ok(fs::utimensat(directory, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Permissions of an `O_PATH` handle, which `fchmod(2)` does not take.
pub fn set_permissions_of_handle(handle: impl AsFd, mode: u32) -> Sys<()> {
    Ok(fs::chmod(path_of(handle.as_fd()), Mode::from_raw_mode(mode))?)
}

/// The limit on open descriptors (`RLIMIT_NOFILE`, soft).
pub fn descriptor_limit() -> u64 {
    super::probe::open_files_limit().current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_cut_into_what_one_call_takes() {
        let name = OsString::from("n".repeat(255));
        let names = vec![name.as_os_str(); 40];
        let mut rest = &names[..];
        let mut stretches = Vec::new();
        while !rest.is_empty() {
            let (path, taken) = first_names(rest);
            assert!(path.len() <= PATH_BYTES);
            stretches.push(taken);
            rest = &rest[taken..];
        }
        assert_eq!(stretches, [16, 16, 8]);
        assert_eq!(first_names(&[]), (OsString::from("."), 0));
    }

    #[test]
    fn a_directory_is_found_again_beneath_another_and_no_link_is_followed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("a/b/c")).unwrap();
        std::os::unix::fs::symlink("b", root.path().join("a/l")).unwrap();
        let fd = super::super::follow::open_root(root.path()).unwrap();
        let names = |text: &'static str| text.split('/').map(OsStr::new).collect::<Vec<_>>();
        let found = open_beneath(&fd, &names("a/b/c"), false).unwrap();
        let expected = stat_path(&root.path().join("a/b/c")).unwrap();
        assert!(super::super::file::stat(&found).unwrap().is_same_file(&expected));
        assert!(open_beneath(&fd, &[], false).is_ok());
        for (path, errno) in [("a/l/c", Errno::ELOOP), ("..", Errno::EXDEV), ("a/x", Errno::ENOENT)]
        {
            assert_eq!(open_beneath(&fd, &names(path), true).unwrap_err(), errno, "{path}");
        }
        // Without openat2(2).
        for access in [OFlags::RDONLY, OFlags::PATH] {
            let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let one_by_one = |path: &str| open_one_by_one(&fd, OsStr::new(path), flags);
            let found = one_by_one("a/b/c").unwrap();
            assert!(super::super::file::stat(&found).unwrap().is_same_file(&expected));
            for (path, errno) in [
                ("a/l/c", Errno::ENOTDIR),
                ("a/l", Errno::ENOTDIR),
                ("a/x", Errno::ENOENT),
                ("a/x/y", Errno::ENOENT),
            ] {
                assert_eq!(one_by_one(path).unwrap_err(), errno, "{path}");
            }
        }
    }
}
