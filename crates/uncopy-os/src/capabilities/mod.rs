//! What this kernel, filesystem and device offer, found out by trying.
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

/// What came of trying something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T = ()> {
    /// It works, and this is how.
    Yes(T),
    /// It does not work here.
    No {
        /// What the kernel answered; `None` where it accepted the call and did something else.
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
    /// It was tried and works.
    #[must_use]
    pub const fn is_yes(&self) -> bool {
        matches!(self, Answer::Yes(_))
    }

    pub fn unknown(reason: AnswerReason) -> Answer<T> {
        Answer::Unknown { reason }
    }
}

impl<T> From<Result<T, Errno>> for Answer<T> {
    /// An error that says nothing about the ability (no space, no permission, a broken device)
    /// leaves the question open.
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

/// What this kernel offers this process. Asked once; takes about a millisecond, and opens and
/// closes a few sockets and one io_uring.
pub fn kernel() -> &'static Kernel {
    static KERNEL: OnceLock<Kernel> = OnceLock::new();
    KERNEL.get_or_init(probe::kernel)
}

/// The limits as they are now, for this thread: they differ between networks.
pub fn limits() -> Limits {
    probe::limits()
}

/// What the filesystem at `path` does, tried with temporary files in that directory, or in the
/// directory of that file, of less than 2 MiB together. They have no name where the filesystem
/// allows that, and else an unguessable one that is removed at once. Not cached: a filesystem can
/// be remounted, and its trial flushes a file, which takes milliseconds.
///
/// A directory that cannot be written to is no error: the answers are then
/// [`Answer::Unknown`], and say so.
///
/// # Errors
/// `path` cannot be opened or examined.
pub fn storage(path: impl AsRef<Path>) -> Result<Storage> {
    probe::storage(path.as_ref())
}

/// What a filesystem is known by, also after a reboot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Its kind and its UUID, or the number that it gives itself: `ext4 uuid 0123…`, `9p fsid 4f2a…`.
    pub id: String,
    /// Its kind.
    pub filesystem: Filesystem,
}

/// What the filesystem of `path` is known by: its UUID (`FS_IOC_GETFSUUID`, Linux 6.9), else `f_fsid` of
/// `statfs(2)`. A tmpfs is another one each time it is mounted.
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
    fn only_an_answer_about_the_ability_is_a_no() {
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
