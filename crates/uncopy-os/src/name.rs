//! Calls on directory entries: create, open, link, rename, unlink.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use rustix::fs::{self, AtFlags, Mode, OFlags, RenameFlags};

use super::Sys;
use super::file::path_of;
use uncopy_core::Errno;

/// Opens the directory itself, to list or flush it.
pub fn open_directory_for_reading(directory: impl AsFd) -> Sys<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fs::openat(directory, ".", flags, Mode::empty())?)
}

/// Creates a file without a name in the directory's filesystem (`O_TMPFILE`, `open(2)`).
pub fn create_unnamed(directory: impl AsFd, mode: u32) -> Sys<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(fs::openat(directory, ".", flags, Mode::from_raw_mode(mode))?)
}

/// Creates a file; `EEXIST` if the name is taken.
pub fn create_new(directory: impl AsFd, name: &OsStr, mode: u32) -> Sys<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(directory, name, flags, Mode::from_raw_mode(mode))?)
}

/// Opens an existing entry without following a link, and without blocking on a FIFO.
pub fn open_existing(directory: impl AsFd, name: &OsStr, flags: OFlags) -> Sys<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(fs::openat(directory, name, flags, Mode::empty())?)
}

/// Opens an existing entry without following a link, and blocks until a lease is released.
pub fn open_blocking(directory: impl AsFd, name: &OsStr, flags: OFlags) -> Sys<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(fs::openat(directory, name, flags, Mode::empty())?)
}

/// Checks that the effective user may write to the file of this name.
pub fn may_write(directory: impl AsFd, name: &OsStr) -> Sys<()> {
    Ok(fs::accessat(directory, name, fs::Access::WRITE_OK, AtFlags::EACCESS)?)
}

/// Gives an unnamed file its name; `EEXIST` if that is taken.
///
/// `AT_EMPTY_PATH` needs `CAP_DAC_READ_SEARCH`, or since Linux 6.10 the credentials that opened the file;
/// `/proc/self/fd` works for every user (`linkat(2)`).
pub fn link_unnamed(file: impl AsFd, directory: impl AsFd, name: &OsStr) -> Sys<()> {
    match fs::linkat(&file, "", &directory, name, AtFlags::EMPTY_PATH) {
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::INVAL) => Ok(fs::linkat(
            fs::CWD,
            path_of(file.as_fd()),
            directory,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )?),
        other => Ok(other?),
    }
}

/// Whether [`link_unnamed`] can work: for users other than root it may depend on `/proc/self/fd`.
pub fn can_link_unnamed() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    let has_proc_fd = || fs::access("/proc/self/fd", fs::Access::EXEC_OK).is_ok();
    *CAN.get_or_init(|| super::file::effective_uid() == 0 || has_proc_fd())
}

/// Renames within a directory, replacing an existing file.
pub fn rename(directory: impl AsFd, from: &OsStr, to: &OsStr) -> Sys<()> {
    rename_out(&directory, from, &directory, to)
}

/// Renames into another directory of the filesystem, replacing an existing file.
pub fn rename_out(
    from_directory: impl AsFd,
    from: &OsStr,
    directory: impl AsFd,
    to: &OsStr,
) -> Sys<()> {
    Ok(fs::renameat(from_directory, from, directory, to)?)
}

/// Renames within a directory; `EEXIST` if the name is taken.
pub fn rename_new(directory: impl AsFd, from: &OsStr, to: &OsStr) -> Sys<()> {
    rename_out_new(&directory, from, &directory, to)
}

/// Renames into another directory of the filesystem; `EEXIST` if the name is taken
/// (`RENAME_NOREPLACE`).
///
/// A filesystem without that flag answers `EINVAL`, a seccomp filter `EPERM` or `ENOSYS`; then `link` and
/// `unlink` have the same effect, since `link(2)` never replaces a name. If `EPERM` is about the file,
/// these calls return it too.
pub fn rename_out_new(
    from_directory: impl AsFd,
    from: &OsStr,
    directory: impl AsFd,
    to: &OsStr,
) -> Sys<()> {
    match fs::renameat_with(&from_directory, from, &directory, to, RenameFlags::NOREPLACE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
            fs::linkat(&from_directory, from, &directory, to, AtFlags::empty())?;
            Ok(fs::unlinkat(&from_directory, from, AtFlags::empty())?)
        }
        other => Ok(other?),
    }
}

/// Exchanges two names in directories of one filesystem (`RENAME_EXCHANGE`). A filesystem without that flag answers
/// `EINVAL`, a seccomp filter `EPERM` or `ENOSYS`.
pub fn exchange(
    from_directory: impl AsFd,
    from: &OsStr,
    directory: impl AsFd,
    to: &OsStr,
) -> Sys<()> {
    Ok(fs::renameat_with(from_directory, from, directory, to, RenameFlags::EXCHANGE)?)
}

/// Renames a directory; `EEXIST` if the name is taken. A directory cannot be hard-linked: on filesystems
/// without the flag (NFS, some FUSE filesystems) the name is checked before the rename, which can then
/// replace only an empty directory (`rename(2)`).
pub fn rename_new_directory(directory: impl AsFd, from: &OsStr, to: &OsStr) -> Sys<()> {
    match fs::renameat_with(&directory, from, &directory, to, RenameFlags::NOREPLACE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
            match super::directory::stat_name(&directory, to) {
                Ok(_) => Err(Errno::EEXIST),
                Err(Errno::ENOENT) => Ok(fs::renameat(&directory, from, &directory, to)?),
                Err(errno) => Err(errno),
            }
        }
        other => Ok(other?),
    }
}

pub fn unlink(directory: impl AsFd, name: &OsStr) -> Sys<()> {
    Ok(fs::unlinkat(directory, name, AtFlags::empty())?)
}

/// Returns names in the directory that start with `prefix`. Reads at most `limit` entries.
pub fn names_with_prefix(directory: impl AsFd, prefix: &[u8], limit: usize) -> Sys<Vec<OsString>> {
    let reader = open_directory_for_reading(directory)?;
    let mut names = Vec::new();
    let mut buffer = Vec::with_capacity(32 << 10);
    let mut entries = fs::RawDir::new(reader, buffer.spare_capacity_mut());
    for _ in 0..limit {
        let Some(entry) = entries.next() else { break };
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name.starts_with(prefix) {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// Returns `N` bytes from the kernel's random number generator.
pub fn random_bytes<const N: usize>() -> Sys<[u8; N]> {
    let mut bytes = [0; N];
    // SAFETY: the pointer and length are those of a local array.
    let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    // Requests of up to 256 bytes are never cut short (getrandom(2)).
    if n == N as isize {
        return Ok(bytes);
    }
    // Seccomp filters that refuse the call, and Linux before 3.17.
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    let raw = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
    read.map(|()| bytes).map_err(raw)
}

/// Returns the process's umask without changing it (`/proc/self/status`, Linux 4.7).
pub fn umask() -> Option<u32> {
    // It is the second line, behind a name of at most 64 bytes (`fs/proc/array.c`).
    let mut begin = [0; 256];
    let read = std::fs::File::open("/proc/self/status").and_then(|mut file| file.read(&mut begin));
    let status = String::from_utf8_lossy(&begin[..read.ok()?]);
    let line = status.lines().find_map(|l| l.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}
