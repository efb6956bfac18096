//! The only home of system calls: one thin function each, no policy.
#![allow(unsafe_code)]

pub(crate) mod anonymous;
pub(crate) mod asked;
pub(crate) mod bpf;
pub(crate) mod clock;
pub(crate) mod directory;
pub(crate) mod epoll;
pub(crate) mod eventfd;
pub(crate) mod file;
pub(crate) mod follow;
pub(crate) mod fork;
pub(crate) mod inet;
pub(crate) mod inherit;
pub(crate) mod lock;
pub(crate) mod mapping;
pub(crate) mod memfd;
pub(crate) mod name;
pub(crate) mod netlink;
pub(crate) mod numbered;
pub(crate) mod offload;
pub(crate) mod perf;
pub(crate) mod pidfd;
pub(crate) mod privilege;
pub(crate) mod probe;
#[cfg(feature = "tokio")]
pub(crate) mod reactor;
pub(crate) mod send_ring;
pub(crate) mod seqpacket;
pub(crate) mod transfer;
pub(crate) mod uring;
pub(crate) mod writer;
pub(crate) mod xattr;
pub(crate) mod zerocopy;

use crate::error::Errno;

/// Result of one system call.
pub(crate) type Sys<T> = Result<T, Errno>;

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Errno {
        Errno::from_raw(errno.raw_os_error())
    }
}

/// The calling thread's `errno`, after a libc function said -1.
fn last_errno() -> Errno {
    Errno::from_raw(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}
