//! Calls on directories of a tree: open, list, create entries, set their metadata by name. None of them
//! follows a symbolic link in the last component.

use std::ffi::{CStr, OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags, SeekFrom};

use super::Sys;
use super::file::{FACTS, Stat, Timestamp, look_up, path_of};
use uncopy_core::Errno;

/// Maximum length of a path in one call: `PATH_MAX` without the terminating zero (`linux/limits.h`).
const MAX_PATH_BYTES: usize = 4095;

/// Opens the subdirectory `name` for reading.
pub fn open_child(directory: impl AsFd, name: &OsStr) -> Sys<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(directory, name, flags, Mode::empty())?)
}

/// Opens the subdirectory `name` with `O_PATH`, to resolve names from it. Needs no read permission.
pub fn open_child_path(directory: impl AsFd, name: &OsStr) -> Sys<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(directory, name, flags, Mode::empty())?)
}

/// Opens the parent directory.
pub fn open_parent(directory: impl AsFd) -> Sys<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fs::openat(directory, "..", flags, Mode::empty())?)
}

/// Opens the directory at the path `names` below `root`, of any length, without leaving `root` and without
/// following a symbolic link (`openat2(2)`).
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

/// Joins as many names as fit into one call, and returns their number.
fn first_names(names: &[&OsStr]) -> (OsString, usize) {
    let mut path = Vec::new();
    let mut taken = 0;
    for name in names {
        if !path.is_empty() {
            if path.len() + 1 + name.len() > MAX_PATH_BYTES {
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
            // A component was renamed meanwhile (openat2(2)).
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            // Linux before 5.6, and seccomp filters that refuse the call.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => break,
            other => return Ok(other?),
        }
    }
    open_one_by_one(from, path, flags)
}

/// Opens one name after the other, so that `O_NOFOLLOW` applies to each of them.
fn open_one_by_one(from: impl AsFd, path: &OsStr, flags: OFlags) -> Sys<OwnedFd> {
    let mut directory: Option<OwnedFd> = None;
    for name in path.as_bytes().split(|b| *b == b'/') {
        let from = directory.as_ref().map_or(from.as_fd(), AsFd::as_fd);
        directory = Some(fs::openat(from, OsStr::from_bytes(name), flags, Mode::empty())?);
    }
    directory.ok_or(Errno::ENOENT)
}

/// Returns facts about a name, without following a symbolic link.
pub fn stat_name(directory: impl AsFd, name: &OsStr) -> Sys<Stat> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    look_up(directory, name, flags, FACTS)
}

/// Returns facts about a name as [`stat_name`] does, asked of its filesystem, and none that the kernel keeps for a while
/// (FUSE, network filesystems; `AT_STATX_FORCE_SYNC`, `statx(2)`).
pub fn stat_name_anew(directory: impl AsFd, name: &OsStr) -> Sys<Stat> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_FORCE_SYNC;
    look_up(directory, name, flags, FACTS)
}

/// Returns facts about what a name leads to.
pub fn stat_target(directory: impl AsFd, name: &OsStr) -> Sys<Stat> {
    look_up(directory, name, AtFlags::NO_AUTOMOUNT, FACTS)
}

/// Returns facts about a path, without following a symbolic link in the last component.
pub fn stat_path(path: &Path) -> Sys<Stat> {
    look_up(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW, FACTS)
}

/// One entry of a listing.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub name: &'a CStr,
    /// Unknown only if the listing lacks it (readdir(3)) and the name cannot be looked up either.
    pub kind: FileType,
    pub inode: u64,
    /// Position behind it, for [`rewind_to`].
    pub next: u64,
}

/// Lists a directory from its current position, without `.` and `..`, until `take` returns `false`. Returns
/// whether the end was reached.
pub fn list(
    directory: impl AsFd,
    buffer: &mut [MaybeUninit<u8>],
    mut take: impl FnMut(Entry<'_>) -> bool,
) -> Sys<bool> {
    let directory = directory.as_fd();
    list_as_given(directory, buffer, |entry| {
        let kind = match entry.kind {
            FileType::Unknown => kind_of(directory, entry.name),
            known => known,
        };
        take(Entry { kind, ..entry })
    })
}

fn kind_of(directory: BorrowedFd<'_>, name: &CStr) -> FileType {
    let found = stat_name(directory, OsStr::from_bytes(name.to_bytes()));
    found.map_or(FileType::Unknown, |stat| stat.file_type())
}

/// Lists a directory with the kinds that its filesystem gives.
fn list_as_given(
    directory: BorrowedFd<'_>,
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

/// Whether a newly opened directory has no entries.
pub fn is_empty(directory: impl AsFd) -> Sys<bool> {
    list_as_given(directory.as_fd(), &mut [MaybeUninit::uninit(); 1024], |_| false)
}

/// Sets the position of a listing to a value of [`Entry::next`], or to 0 for its beginning (`seekdir(3)`).
pub fn rewind_to(directory: impl AsFd, position: u64) -> Sys<()> {
    fs::seek(directory, SeekFrom::Start(position))?;
    Ok(())
}

/// Creates a directory; umask and default ACL apply to `mode`.
pub fn make(directory: impl AsFd, name: &OsStr, mode: u32) -> Sys<()> {
    Ok(fs::mkdirat(directory, name, Mode::from_raw_mode(mode))?)
}

/// Removes an empty directory.
pub fn remove(directory: impl AsFd, name: &OsStr) -> Sys<()> {
    Ok(fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?)
}

/// Reads the target of a symbolic link.
pub fn read_link(directory: impl AsFd, name: &OsStr) -> Sys<OsString> {
    let target = fs::readlinkat(directory, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()))
}

/// Creates a symbolic link.
pub fn make_link(target: &OsStr, directory: impl AsFd, name: &OsStr) -> Sys<()> {
    Ok(fs::symlinkat(target, directory, name)?)
}

/// Creates a FIFO, socket or device; umask and default ACL apply to `mode`.
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

/// Creates a hard link to the file `from`, which is not followed if it is a symbolic link.
pub fn hard_link(
    from_directory: impl AsFd,
    from: &OsStr,
    directory: impl AsFd,
    name: &OsStr,
) -> Sys<()> {
    Ok(fs::linkat(from_directory, from, directory, name, AtFlags::empty())?)
}

/// Sets the owner of an entry, without following a symbolic link.
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

/// Sets the times of an entry, without following a symbolic link.
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

/// Sets permissions through an `O_PATH` handle, which `fchmod(2)` does not accept.
pub fn set_permissions_of_handle(handle: impl AsFd, mode: u32) -> Sys<()> {
    Ok(fs::chmod(path_of(handle.as_fd()), Mode::from_raw_mode(mode))?)
}

/// Sets the owner through an `O_PATH` handle, which `fchown(2)` does not accept.
pub fn set_owner_of_handle(handle: impl AsFd, uid: Option<u32>, gid: Option<u32>) -> Sys<()> {
    let uid = uid.map(fs::Uid::from_raw);
    let gid = gid.map(fs::Gid::from_raw);
    Ok(fs::chownat(handle, "", uid, gid, AtFlags::EMPTY_PATH)?)
}

/// Returns the soft limit on open descriptors (`RLIMIT_NOFILE`).
pub fn descriptor_limit() -> u64 {
    super::probe::open_files_limit().current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_are_split_for_several_calls() {
        let name = OsString::from("n".repeat(255));
        let names = vec![name.as_os_str(); 40];
        let mut rest = &names[..];
        let mut stretches = Vec::new();
        while !rest.is_empty() {
            let (path, taken) = first_names(rest);
            assert!(path.len() <= MAX_PATH_BYTES);
            stretches.push(taken);
            rest = &rest[taken..];
        }
        assert_eq!(stretches, [16, 16, 8]);
        assert_eq!(first_names(&[]), (OsString::from("."), 0));
    }

    #[test]
    fn a_directory_below_another_is_opened_and_no_link_is_followed() {
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
