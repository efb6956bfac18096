//! Abilities of this kernel, filesystem and device, found by trying them.
//!
//! ```no_run
//! use uncopy::capabilities::{Answer, kernel, storage};
//! println!("Linux {}", kernel().release);
//! match storage("/home")?.reflink {
//!     Answer::Yes(()) => println!("/home has reflinks"),
//!     Answer::No { reason, .. } => println!("/home has none: {reason}"),
//!     Answer::Unknown { reason } => println!("not tried: {reason}"),
//! }
//! # Ok::<(), uncopy::Error>(())
//! ```

mod device;
mod kernel;
#[cfg_attr(not(target_os = "linux"), path = "portable.rs")]
mod probe;
mod reason;
mod storage;

use std::path::Path;
use std::sync::OnceLock;

pub use device::{Device, DeviceKind};
pub use kernel::{IoUring, Kernel, Limit, Limits, SocketProtocol, UringOperation, ZerocopySocket};
#[cfg(target_os = "linux")]
pub use probe::{TrialFiles, sharing};
pub use reason::AnswerReason;
pub use storage::{Alignment, Sharing, Storage};

pub use uncopy_core::Filesystem;
use uncopy_core::{Errno, Result};

/// Result of trying something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T = ()> {
    /// It works; the value holds details.
    Yes(T),
    /// It does not work here.
    No {
        /// Answer of the kernel; `None` where it accepted the call and did something else.
        errno: Option<Errno>,
        /// Why.
        reason: AnswerReason,
    },
    /// It could not be tried, or the trial was inconclusive.
    Unknown {
        /// Why.
        reason: AnswerReason,
    },
}

impl<T> Answer<T> {
    /// Whether it was tried and works.
    #[must_use]
    pub const fn is_yes(&self) -> bool {
        matches!(self, Answer::Yes(_))
    }

    pub fn unknown(reason: AnswerReason) -> Answer<T> {
        Answer::Unknown { reason }
    }
}

impl<T> From<Result<T, Errno>> for Answer<T> {
    /// Converts the result of a trial. An error that says nothing about the ability (no space, no permission,
    /// a broken device) gives [`Answer::Unknown`].
    fn from(result: Result<T, Errno>) -> Answer<T> {
        match result {
            Ok(value) => Answer::Yes(value),
            Err(
                errno @ (Errno::ENOSPC
                | Errno::EDQUOT
                | Errno::EIO
                | Errno::EACCES
                | Errno::EROFS
                | Errno::ENOMEM
                | Errno::EMFILE
                | Errno::ENFILE),
            ) => Answer::unknown(AnswerReason::Inconclusive(errno)),
            Err(errno) => Answer::No { errno: Some(errno), reason: AnswerReason::Refused(errno) },
        }
    }
}

/// Returns the kernel features that this process can use. The first call takes about a millisecond and opens
/// and closes a few sockets and one io_uring; the result is cached.
pub fn kernel() -> &'static Kernel {
    static KERNEL: OnceLock<Kernel> = OnceLock::new();
    KERNEL.get_or_init(probe::kernel)
}

/// Returns the current limits for this thread. They may differ between network namespaces.
pub fn limits() -> Limits {
    probe::limits()
}

/// Tries the features of the filesystem at `path`, with temporary files in that directory, or in the
/// directory of that file, of less than 2 MiB together. They have no name where the filesystem supports
/// that; otherwise a random name, which is removed at once. The result is not cached, as a filesystem can
/// be remounted. A call flushes a file, which takes milliseconds.
///
/// If the directory is not writable, the answers are [`Answer::Unknown`] with that reason.
///
/// # Errors
/// `path` cannot be opened or examined.
pub fn storage(path: impl AsRef<Path>) -> Result<Storage> {
    probe::storage(path.as_ref())
}

/// Identity of a filesystem, which survives a reboot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Kind of the filesystem, with its UUID or its id: `ext4 uuid 0123…`, `9p fsid 4f2a…`.
    pub id: String,
    /// Its kind.
    pub filesystem: Filesystem,
}

/// Returns the identity of the filesystem of `path`: its UUID (`FS_IOC_GETFSUUID`, Linux 6.9), or `f_fsid` of
/// `statfs(2)`. A tmpfs gets a new identity each time it is mounted.
///
/// # Errors
/// `path` cannot be opened or examined, or the filesystem has neither.
pub fn identity(path: impl AsRef<Path>) -> Result<Identity> {
    probe::identity(path.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_about_the_ability_mean_no() {
        assert_eq!(Answer::from(Ok(3)), Answer::Yes(3));
        for (errno, is_no) in [
            (Errno::EOPNOTSUPP, true),
            (Errno::EINVAL, true),
            (Errno::ENOSYS, true),
            (Errno::EXDEV, true),
            (Errno::ENOSPC, false),
            (Errno::EROFS, false),
            (Errno::EACCES, false),
        ] {
            let answer = Answer::<()>::from(Err(errno));
            assert_eq!(matches!(answer, Answer::No { .. }), is_no, "{errno}: {answer:?}");
        }
    }
}
