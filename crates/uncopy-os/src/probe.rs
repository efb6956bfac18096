//! Queries of the kernel's features and limits.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;

use io_uring::{IoUring, Probe};
use rustix::fs::{self, RenameFlags};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustix::process::Rlimit;

use super::uring::errno_of;
use super::{Sys, last_errno};

/// Returns the kernel release, as `uname -r` prints it.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Returns the version numbers of a release: `6.17.10-300.fc43.x86_64` gives 6, 17, 10.
pub fn version_of(release: &str) -> [u32; 3] {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    [next(), next(), next()]
}

/// Returns the version numbers of the running kernel, which are asked for once.
fn kernel_version() -> [u32; 3] {
    static VERSION: OnceLock<[u32; 3]> = OnceLock::new();
    *VERSION.get_or_init(|| version_of(&kernel_release()))
}

/// Whether `copy_file_range(2)` copies from one filesystem to another one, by the kernel's release: Linux 5.3 to 5.18.
pub fn copies_between_filesystems() -> bool {
    ([5, 3, 0]..[5, 19, 0]).contains(&kernel_version())
}

/// Whether `statx(2)` shows the alignment of direct writes (`STATX_DIOALIGN`), by the kernel's release: Linux 6.1.
pub fn shows_direct_alignment() -> bool {
    kernel_version() >= [6, 1, 0]
}

/// Whether this thread may exceed the limit on locked memory (`CAP_IPC_LOCK`).
pub fn may_lock_beyond_limit() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK))
}

/// Returns the operations that io_uring supports (`IORING_REGISTER_PROBE`, Linux 5.6).
pub fn uring_operations() -> Sys<Probe> {
    let ring = IoUring::new(1).map_err(|e| errno_of(&e))?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(|e| errno_of(&e))?;
    Ok(probe)
}

/// Creates an unconnected socket.
pub fn socket(family: AddressFamily, kind: SocketType) -> Sys<OwnedFd> {
    Ok(net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// Allows `MSG_ZEROCOPY` on a socket (`SO_ZEROCOPY`).
pub fn allow_zerocopy(socket: impl AsFd) -> Sys<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an int (`Documentation/networking/msg_zerocopy.rst`) and outlives the
    // call, which only reads it.
    let r = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if r == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Returns the limit on locked memory. Where a seccomp filter forbids the call, returns the kernel's default
/// (`MLOCK_LIMIT` in `include/uapi/linux/resource.h`).
pub fn memlock_limit() -> Rlimit {
    // SAFETY: the kernel fills a struct that outlives the call, or leaves it unchanged.
    limit(8 << 20, |found| unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, found) })
}

/// Returns the limit on open files. Where a seccomp filter forbids the call, returns the kernel's default
/// (`INR_OPEN_CUR` in `include/uapi/linux/fs.h`).
pub fn open_files_limit() -> Rlimit {
    // SAFETY: as above.
    limit(1024, |found| unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, found) })
}

/// Calls `getrlimit(2)` directly, as rustix assumes that it cannot fail.
fn limit(default: u64, getrlimit: impl FnOnce(*mut libc::rlimit) -> libc::c_int) -> Rlimit {
    let mut found = libc::rlimit { rlim_cur: default, rlim_max: default };
    let _ = getrlimit(&raw mut found);
    let finite = |value| (value != libc::RLIM_INFINITY).then_some(value);
    Rlimit { current: finite(found.rlim_cur), maximum: finite(found.rlim_max) }
}

/// Renames within a directory with `RENAME_NOREPLACE`; fails where the filesystem lacks it.
pub fn rename_noreplace(directory: impl AsFd, from: &OsStr, to: &OsStr) -> Sys<()> {
    Ok(fs::renameat_with(&directory, from, &directory, to, RenameFlags::NOREPLACE)?)
}
