//! Thin wrappers of system calls, and probes of the abilities of a kernel, filesystem and device.
//!
//! There is no policy here. The crate `uncopy` re-exports [`capabilities`]; everything else is internal to
//! uncopy's crates.
#![cfg_attr(not(test), deny(clippy::unwrap_used))]
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
pub mod account;
#[cfg(target_os = "linux")]
pub mod aligned;
#[cfg(target_os = "linux")]
pub mod anonymous;
#[cfg(target_os = "linux")]
pub mod bpf;
pub mod capabilities;
#[cfg(target_os = "linux")]
pub mod clock;
#[cfg(target_os = "linux")]
pub mod directory;
#[cfg(target_os = "linux")]
pub mod epoll;
#[cfg(target_os = "linux")]
pub mod eventfd;
#[cfg(target_os = "linux")]
pub mod file;
pub mod file_id;
#[cfg(target_os = "linux")]
pub mod follow;
#[cfg(target_os = "linux")]
pub mod fork;
#[cfg(target_os = "linux")]
pub mod inherit;
#[cfg(target_os = "linux")]
pub mod mapping;
#[cfg(target_os = "linux")]
pub mod memfd;
#[cfg(target_os = "linux")]
pub mod name;
pub mod native;
#[cfg_attr(target_os = "macos", path = "native/macos.rs")]
#[cfg_attr(target_os = "windows", path = "native/windows.rs")]
#[cfg_attr(not(any(target_os = "macos", target_os = "windows")), path = "native/standard.rs")]
pub mod native_calls;
#[cfg_attr(unix, path = "native/owners.rs")]
#[cfg_attr(not(unix), path = "native/no_owners.rs")]
mod native_owners;
#[cfg(target_os = "linux")]
pub mod netlink;
#[cfg(target_os = "linux")]
pub mod offload;
#[cfg(target_os = "linux")]
pub mod perf;
#[cfg(target_os = "linux")]
pub mod pidfd;
#[cfg(target_os = "linux")]
pub mod privilege;
#[cfg(target_os = "linux")]
pub mod probe;
#[cfg(all(target_os = "linux", feature = "tokio"))]
pub mod reactor;
#[cfg(any(test, target_os = "windows"))]
#[path = "native/references.rs"]
mod references;
#[cfg(target_os = "linux")]
pub mod seqpacket;
#[cfg(target_os = "linux")]
pub mod stream;
#[cfg(target_os = "linux")]
pub mod thread;
#[cfg(target_os = "linux")]
pub mod transfer;
#[cfg(target_os = "linux")]
pub mod uring;
#[cfg(target_os = "linux")]
pub mod xattr;

#[cfg(target_os = "linux")]
pub use aligned::AlignedBuffer;
#[cfg(target_os = "linux")]
use uncopy_core::Errno;

/// Result of one system call.
#[cfg(target_os = "linux")]
pub type Sys<T> = Result<T, Errno>;

/// Returns the calling thread's `errno`, after a libc function returned -1.
#[cfg(target_os = "linux")]
pub fn last_errno() -> Errno {
    Errno::from_raw(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}
