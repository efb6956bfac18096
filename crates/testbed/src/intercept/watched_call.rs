//! A system call that is about to be made, with the files that it is about.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::SystemCall;
use crate::sys::seccomp::{Answer, PendingCall};

/// A call of a program, before it is made.
#[derive(Debug, Clone)]
pub struct WatchedCall {
    /// The system call.
    pub call: SystemCall,
    /// Number among the calls of this kind, from 1, counted over all threads.
    pub nth: usize,
    /// The thread.
    pub thread: u32,
    /// The arguments.
    pub arguments: [u64; 6],
    /// Whether a fault took its place.
    pub is_faulty: bool,
    paths: Option<Vec<PathBuf>>,
}

impl WatchedCall {
    pub(crate) fn new(pending: PendingCall, nth: usize) -> WatchedCall {
        let (call, arguments) = (SystemCall(pending.number), pending.arguments);
        WatchedCall { call, nth, thread: pending.thread, arguments, is_faulty: false, paths: None }
    }

    /// Returns the paths of its descriptors and names. Those of a [recorded](crate::Intercepted::record) call
    /// are known for good, others while the call waits.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.paths.clone().unwrap_or_else(|| self.find_paths())
    }

    /// Remembers the paths.
    pub(crate) fn remember_paths(&mut self) {
        self.paths = Some(self.find_paths());
    }

    fn find_paths(&self) -> Vec<PathBuf> {
        let descriptors = descriptors(self).iter().map(|index| self.arguments[*index] as i32);
        let named = names(self.call).iter().filter_map(|name| self.named(name));
        descriptors.filter_map(|descriptor| self.path_of(descriptor)).chain(named).collect()
    }

    /// Whether it is about a file at this path or below it.
    #[must_use]
    pub fn touches(&self, path: &Path) -> bool {
        self.paths().iter().any(|found| found.starts_with(path))
    }

    /// Whether an argument has these flags.
    #[must_use]
    pub fn has_flags(&self, argument: usize, flags: u32) -> bool {
        self.arguments[argument] as u32 & flags == flags
    }

    fn path_of(&self, descriptor: i32) -> Option<PathBuf> {
        let thread = self.thread;
        let link = match descriptor {
            libc::AT_FDCWD => format!("/proc/{thread}/cwd"),
            _ => format!("/proc/{thread}/fd/{descriptor}"),
        };
        std::fs::read_link(link).ok()
    }

    fn named(&self, name: &Name) -> Option<PathBuf> {
        let directory = name.directory.map_or(libc::AT_FDCWD, |index| self.arguments[index] as i32);
        let text = self.text(self.arguments[name.text])?;
        Some(self.path_of(directory)?.join(text))
    }

    /// Reads a string of the program.
    fn text(&self, address: u64) -> Option<String> {
        let memory = File::open(format!("/proc/{}/mem", self.thread)).ok()?;
        let mut bytes = Vec::new();
        // No read crosses into a page that may not be there.
        while bytes.len() < libc::PATH_MAX as usize {
            let at = address.checked_add(bytes.len() as u64)?;
            let mut part = vec![0; 256 - (at % 256) as usize];
            memory.read_exact_at(&mut part, at).ok()?;
            if let Some(end) = part.iter().position(|byte| *byte == 0) {
                bytes.extend(&part[..end]);
                return Some(String::from_utf8_lossy(&bytes).into_owned());
            }
            bytes.extend(part);
        }
        None
    }

    /// Whether it writes bytes that begin with these.
    #[must_use]
    pub fn writes_first(&self, bytes: &[u8]) -> bool {
        let mut found = vec![0; bytes.len()];
        let is_write = matches!(self.call, SystemCall::WRITE | SystemCall::PWRITE64);
        is_write && self.arguments[2] >= bytes.len() as u64 && {
            let memory = File::open(format!("/proc/{}/mem", self.thread));
            memory.is_ok_and(|memory| memory.read_exact_at(&mut found, self.arguments[1]).is_ok())
                && found == bytes
        }
    }

    /// Writes to the memory of the program, where an argument points to.
    pub(crate) fn write(&self, argument: usize, bytes: &[u8]) {
        let memory = File::options().write(true).open(format!("/proc/{}/mem", self.thread));
        let memory = memory.expect("a test may write to the memory of its program");
        memory.write_all_at(bytes, self.arguments[argument]).expect("the argument is a pointer");
    }

    /// Makes a read or a write of one buffer in place of the program, of fewer bytes.
    pub(crate) fn make_in_part(&self, most: usize) -> Answer {
        let length = most.min(self.arguments[2] as usize);
        let made = self.descriptor().and_then(|descriptor| {
            let memory = File::options()
                .read(true)
                .write(true)
                .open(format!("/proc/{}/mem", self.thread))
                .map_err(|_| Errno::SRCH)?;
            let mut bytes = vec![0; length];
            match self.call {
                SystemCall::READ | SystemCall::RECVFROM => {
                    let count = rustix::io::read(&descriptor, &mut bytes)?;
                    memory
                        .write_all_at(&bytes[..count], self.arguments[1])
                        .map_err(|_| Errno::FAULT)?;
                    Ok(count)
                }
                _ => {
                    memory
                        .read_exact_at(&mut bytes, self.arguments[1])
                        .map_err(|_| Errno::FAULT)?;
                    rustix::io::write(&descriptor, &bytes)
                }
            }
        });
        match made {
            Ok(count) => Answer::Return(count as i64),
            Err(errno) => Answer::Fail(errno.raw_os_error()),
        }
    }

    /// Returns a copy of the descriptor that is its first argument.
    fn descriptor(&self) -> Result<OwnedFd, Errno> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.thread));
        let status = status.map_err(|_| Errno::SRCH)?;
        let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let process = process.and_then(|id| Pid::from_raw(id.trim().parse().ok()?));
        let handle = pidfd_open(process.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        let number = self.arguments[0] as i32;
        pidfd_getfd(&handle, number, PidfdGetfdFlags::empty())
    }

    /// Whether its first argument is a descriptor of a pipe or a socket.
    #[must_use]
    pub fn is_on_a_stream(&self) -> bool {
        let path = self.path_of(self.arguments[0] as i32);
        path.is_some_and(|path| {
            let text = path.to_string_lossy();
            text.starts_with("pipe:") || text.starts_with("socket:")
        })
    }

    /// Whether this argument is a descriptor of a regular file.
    fn is_file(&self, argument: usize) -> Option<bool> {
        let path = format!("/proc/{}/fd/{}", self.thread, self.arguments[argument] as i32);
        std::fs::metadata(path).ok().map(|metadata| metadata.is_file())
    }

    /// Closing can fail only for files (NFS, FUSE, quotas), so only that is made to fail. A call that
    /// does not reach the kernel leaves the descriptor open; for other objects, a peer would wait
    /// forever for its end.
    pub(crate) fn closes_no_file(&self) -> bool {
        self.call == SystemCall::CLOSE && self.is_file(0) == Some(false)
    }

    /// Whether it is how the standard library hears whether a program has started, and which it takes for
    /// impossible to fail: it reads an error number and a mark from a socket between a process and its child.
    pub(crate) fn hears_of_a_start(&self) -> bool {
        self.call == SystemCall::RECVFROM && self.arguments[2] == 8
    }

    /// Whether it shares the blocks of one file with another.
    #[must_use]
    pub fn is_clone(&self) -> bool {
        self.call == SystemCall::IOCTL && CLONES.contains(&(self.arguments[1] as u32))
    }

    /// Whether it makes a file without a name.
    #[must_use]
    pub fn makes_unnamed_file(&self) -> bool {
        self.call == SystemCall::OPENAT && self.has_flags(2, libc::O_TMPFILE as u32)
    }

    /// Whether it writes to a regular file.
    pub(crate) fn puts_into_a_file(&self) -> bool {
        let into = match self.call {
            SystemCall::IO_URING_ENTER => return true,
            SystemCall::IOCTL if !self.is_clone() => return false,
            SystemCall::COPY_FILE_RANGE | SystemCall::SPLICE => 2,
            SystemCall::IOCTL
            | SystemCall::SENDFILE
            | SystemCall::WRITE
            | SystemCall::PWRITE64
            | SystemCall::WRITEV
            | SystemCall::PWRITEV
            | SystemCall::PWRITEV2 => 0,
            _ => return false,
        };
        self.is_file(into) == Some(true)
    }
}

/// `FICLONE` and `FICLONERANGE` (`ioctl_ficlonerange(2)`).
const CLONES: [u32; 2] = [0x4004_9409, 0x4020_940D];

/// Returns which arguments are descriptors, but directories of names.
fn descriptors(call: &WatchedCall) -> &'static [usize] {
    match call.call {
        SystemCall::COPY_FILE_RANGE | SystemCall::SPLICE => &[0, 2],
        SystemCall::SENDFILE => &[0, 1],
        SystemCall::MMAP => &[4],
        SystemCall::IOCTL if call.is_clone() => &[0, 2],
        SystemCall::READ
        | SystemCall::PREAD64
        | SystemCall::READV
        | SystemCall::PREADV
        | SystemCall::PREADV2
        | SystemCall::GETDENTS64
        | SystemCall::WRITE
        | SystemCall::PWRITE64
        | SystemCall::WRITEV
        | SystemCall::PWRITEV
        | SystemCall::PWRITEV2
        | SystemCall::FTRUNCATE
        | SystemCall::IOCTL
        | SystemCall::FALLOCATE
        | SystemCall::FSTAT
        | SystemCall::FSTATFS
        | SystemCall::LSEEK
        | SystemCall::FGETXATTR
        | SystemCall::FLISTXATTR
        | SystemCall::FSETXATTR
        | SystemCall::FREMOVEXATTR
        | SystemCall::FCHMOD
        | SystemCall::FCHOWN
        | SystemCall::FSYNC
        | SystemCall::FDATASYNC
        | SystemCall::SYNCFS
        | SystemCall::SYNC_FILE_RANGE
        | SystemCall::FADVISE64
        | SystemCall::READAHEAD
        | SystemCall::FLOCK
        | SystemCall::FCNTL
        | SystemCall::CLOSE => &[0],
        _ => &[],
    }
}

/// A name among the arguments, in a directory that another argument is a descriptor of, or in the current one.
struct Name {
    directory: Option<usize>,
    text: usize,
}

const fn in_directory(directory: usize) -> Name {
    Name { directory: Some(directory), text: directory + 1 }
}

const fn plain(text: usize) -> Name {
    Name { directory: None, text }
}

/// Returns which arguments are names of files.
fn names(call: SystemCall) -> &'static [Name] {
    match call {
        SystemCall::OPENAT
        | SystemCall::OPENAT2
        | SystemCall::STATX
        | SystemCall::NEWFSTATAT
        | SystemCall::FACCESSAT
        | SystemCall::FACCESSAT2
        | SystemCall::READLINKAT
        | SystemCall::UNLINKAT
        | SystemCall::MKDIRAT
        | SystemCall::MKNODAT
        | SystemCall::FCHMODAT
        | SystemCall::FCHOWNAT
        | SystemCall::UTIMENSAT => &const { [in_directory(0)] },
        SystemCall::LINKAT | SystemCall::RENAMEAT | SystemCall::RENAMEAT2 => {
            &const { [in_directory(0), in_directory(2)] }
        }
        SystemCall::SYMLINKAT => &const { [in_directory(1)] },
        SystemCall::STATFS
        | SystemCall::LGETXATTR
        | SystemCall::LLISTXATTR
        | SystemCall::GETXATTR
        | SystemCall::LISTXATTR
        | SystemCall::LSETXATTR
        | SystemCall::SETXATTR
        | SystemCall::REMOVEXATTR
        | SystemCall::CHDIR => &const { [plain(0)] },
        #[cfg(target_arch = "x86_64")]
        SystemCall(libc::SYS_rename) => &const { [plain(0), plain(1)] },
        #[cfg(target_arch = "x86_64")]
        SystemCall(
            libc::SYS_open
            | libc::SYS_stat
            | libc::SYS_lstat
            | libc::SYS_access
            | libc::SYS_readlink
            | libc::SYS_unlink
            | libc::SYS_rmdir
            | libc::SYS_mkdir,
        ) => &const { [plain(0)] },
        _ => &[],
    }
}
