//! What can go wrong: which operation, on what, and why.

mod errno;
mod standard;

use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::option::CopyOption;
use crate::receipt::{Refusal, Unseen};
pub use errno::{Errno, SystemError};

/// Everything the library reports as an error names the operation that failed, the file it failed
/// on and what to do next.
///
/// ```
/// let error = uncopy::copy::copy_file("/nonexistent/a", "/tmp/b", &Default::default()).unwrap_err();
/// assert!(error.is_not_found());
/// assert!(error.to_string().starts_with("cannot open /nonexistent/a"), "{error}");
/// ```
#[derive(Debug, Clone)]
pub struct Error(
    // So that a result that is none takes no more room than one that is.
    Box<Facts>,
);

#[derive(Debug, Clone)]
struct Facts {
    operation: &'static str,
    subject: PathBuf,
    reason: Reason,
    /// The destination was being written in place.
    in_place: bool,
    /// A call on the destination was refused, and whether the next file would meet that too.
    at_destination: Option<bool>,
}

/// Result of an operation of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The system refused a call.
    #[error("{} ({errno})", errno.message())]
    System {
        /// What it answered.
        errno: Errno,
    },
    /// A system other than Linux refused a call.
    #[error("{error}")]
    OtherSystem {
        /// What it answered.
        error: SystemError,
    },
    /// The system refused a call on a socket or a ring.
    #[error("{} ({errno})", errno.message())]
    Network {
        /// What it answered.
        errno: Errno,
    },
    /// A symbolic link that somebody may have planted: it lies, at the end of a path, in a sticky
    /// directory that everybody may write to, and belongs neither to who follows it nor to the
    /// directory's owner (`fs.protected_symlinks` in proc_sys_fs(5)).
    #[error(
        "{} is a symbolic link of user {owner} in a sticky directory that everybody may write to, and \
         is not followed (EACCES)",
        link.display()
    )]
    ForeignLink {
        /// The link.
        link: PathBuf,
        /// The user id that it belongs to.
        owner: u32,
    },
    /// Source and destination are one file, by device and inode of the open files.
    #[error("it is the same file as {} (a hard link, a symbolic link or a bind mount of it)", source_path.display())]
    SameFile {
        /// The source as it was named.
        source_path: PathBuf,
    },
    /// Not a regular file, and not asked for.
    #[error("it is {kind}")]
    NotRegular {
        /// What it is, with its article: "a directory", "a FIFO".
        kind: &'static str,
    },
    /// The source was written to, truncated or extended while it was copied.
    #[error("it changed while it was copied ({what})")]
    SourceChanged {
        /// Which witness differs: size, mtime, ctime.
        what: String,
    },
    /// The destination does not hold the bytes of the source.
    #[error(
        "its contents differ from the source: {algorithm} {found}, expected {expected}{}",
        doubt.map(|doubt| format!("; {doubt}")).unwrap_or_default()
    )]
    VerificationFailed {
        /// Name of the digest.
        algorithm: &'static str,
        /// The source's digest, hexadecimal.
        expected: String,
        /// The destination's digest, hexadecimal.
        found: String,
        /// Why the source may be what changed. `None`: it is known that it did not, and the copy is bad.
        doubt: Option<SourceDoubt>,
    },
    /// Compressed data that cannot be decompressed.
    #[error("{what} (at byte {offset})")]
    Damaged {
        /// What is wrong with it.
        what: String,
        /// Where in the file.
        offset: u64,
    },
    /// No mechanism that the options allow can copy this file here.
    #[error("no allowed way works here: {}", joined(refusals))]
    NoMechanism {
        /// Why not, for every mechanism, the cheapest first.
        refusals: Vec<Refusal>,
    },
    /// Options that contradict each other ([`Contradiction`](crate::copy::Contradiction)), or that
    /// this system cannot obey.
    #[error("{0}")]
    Options(String),
    /// Options that work on Linux and not on this system. Nothing was touched.
    #[error("{} {} not work on this system yet", named(options), does(options))]
    NotHere {
        /// Which, in the order of [`CopyOption::ALL`].
        options: Vec<CopyOption>,
    },
    /// It belongs to the process that forked this one.
    #[error("it belongs to the process that forked this one")]
    Forked,
    /// The caller asked to stop; nothing was left behind.
    #[error("stopped on request")]
    Cancelled,
    /// Anything else: a plain sentence.
    #[error("{0}")]
    Refused(String),
}

/// Why a difference between source and copy may be the source's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceDoubt {
    /// It changed while it was copied, and that is accepted.
    Changed,
    /// Somebody may have stored into it through a mapping, which cannot be seen.
    Unseen(Unseen),
}

impl fmt::Display for SourceDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            SourceDoubt::Changed => return f.write_str("the source changed meanwhile"),
            SourceDoubt::Unseen(Unseen::DirtyPages) => "it had dirty pages when the copy began",
            SourceDoubt::Unseen(Unseen::Resumed) => "an earlier run copied a part of it",
            SourceDoubt::Unseen(Unseen::Refused) => {
                "the kernel tells of stores through a mapping only who owns it or may write to it"
            }
            SourceDoubt::Unseen(Unseen::Unavailable) => {
                "this kernel does not tell of stores through a mapping"
            }
            SourceDoubt::Unseen(Unseen::NotLooked) => "nobody looked for stores through a mapping",
            SourceDoubt::Unseen(Unseen::Filesystem | Unseen::Dax) => {
                "its filesystem does not tell of stores through a mapping"
            }
        };
        write!(f, "the source may have changed meanwhile: {why}")
    }
}

impl Error {
    /// An error of `operation` ("open", "write to") on `subject`.
    pub(crate) fn new(operation: &'static str, subject: impl AsRef<Path>, reason: Reason) -> Error {
        let subject = subject.as_ref().to_owned();
        Error(Box::new(Facts { operation, subject, reason, in_place: false, at_destination: None }))
    }

    /// The same of another subject, by which people know where it happened.
    pub(crate) fn with_subject(mut self, subject: &Path) -> Error {
        self.0.subject = subject.to_owned();
        self
    }

    /// The same, met while the destination was written in place.
    pub(crate) fn while_in_place(mut self) -> Error {
        let nothing_written =
            matches!(self.0.reason, Reason::NoMechanism { .. } | Reason::Options(_));
        self.0.in_place = !nothing_written;
        self
    }

    /// The same, if it is a failed verification, with this doubt about the source.
    pub(crate) fn with_doubt(mut self, about_source: Option<SourceDoubt>) -> Error {
        if let Reason::VerificationFailed { doubt, .. } = &mut self.0.reason {
            *doubt = about_source;
        }
        self
    }

    /// A system call's refusal.
    pub(crate) fn system(
        operation: &'static str,
        subject: impl AsRef<Path>,
        errno: impl Into<Errno>,
    ) -> Error {
        Error::new(operation, subject, Reason::System { errno: errno.into() })
    }

    /// The refusal of a call that looks at the destination or changes it, and nothing else.
    pub(crate) fn destination(
        operation: &'static str,
        subject: impl AsRef<Path>,
        errno: impl Into<Errno>,
    ) -> Error {
        let errno = errno.into();
        Error::system(operation, subject, errno).met_at_destination(errno)
    }

    /// The same, for a reason that names the answer in its own words.
    pub(crate) fn met_at_destination(self, errno: Errno) -> Error {
        self.of_destination(lasts(errno))
    }

    /// The same, if the next file would meet it too as told.
    pub(crate) fn of_destination(mut self, lasts: bool) -> Error {
        self.0.at_destination = Some(lasts);
        self
    }

    /// A refusal of a call on a socket, or on the ring that serves it.
    pub(crate) fn network(
        operation: &'static str,
        subject: impl AsRef<Path>,
        errno: impl Into<Errno>,
    ) -> Error {
        Error::new(operation, subject, Reason::Network { errno: errno.into() })
    }

    /// What was attempted, as a verb phrase: "open", "write to".
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The file it was attempted on; for a socket, protocol and address: `udp 192.0.2.1:9000`.
    #[must_use]
    pub fn subject(&self) -> &Path {
        &self.0.subject
    }

    /// Why it failed.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// Linux's error number, if a system call failed, or the one that a refusal stands for. What other
    /// systems answer is in [`Reason::OtherSystem`].
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self.0.reason {
            Reason::System { errno } | Reason::Network { errno } => Some(errno),
            Reason::ForeignLink { .. } => Some(Errno::EACCES),
            _ => None,
        }
    }

    /// The destination refused a call, and not the source.
    #[must_use]
    pub fn is_at_destination(&self) -> bool {
        self.0.at_destination.is_some()
    }

    /// The destination refused a call, and would refuse it for the next file too: no room is left
    /// (`ENOSPC`, `EDQUOT`), it is read-only (`EROFS`), files become too long for it (`EFBIG`), or its
    /// device fails (`EIO`).
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        self.0.at_destination.unwrap_or(false)
    }

    /// The file or its directory does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match &self.0.reason {
            Reason::OtherSystem { error } => error.get().kind() == io::ErrorKind::NotFound,
            _ => self.errno() == Some(Errno::ENOENT),
        }
    }

    /// Source and destination are one file.
    #[must_use]
    pub fn is_same_file(&self) -> bool {
        matches!(self.0.reason, Reason::SameFile { .. })
    }

    /// The source changed under the copy.
    #[must_use]
    pub fn is_source_changed(&self) -> bool {
        matches!(self.0.reason, Reason::SourceChanged { .. })
    }

    /// Source and destination differ after the copy.
    #[must_use]
    pub fn is_verification_failed(&self) -> bool {
        matches!(self.0.reason, Reason::VerificationFailed { .. })
    }

    /// The options leave no way to copy this file.
    #[must_use]
    pub fn is_no_mechanism(&self) -> bool {
        matches!(self.0.reason, Reason::NoMechanism { .. })
    }

    /// The observer asked to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0.reason, Reason::Cancelled)
    }

    /// What a person can do about it, if there is something.
    #[must_use]
    pub fn next_step(&self) -> Option<&'static str> {
        if self.0.in_place {
            return Some(
                "the destination was written in place and may be a mixture of old and new now; \
                 copy to it again when the cause is gone",
            );
        }
        match &self.0.reason {
            Reason::System { errno } => next_step_after(*errno),
            Reason::OtherSystem { error } => next_step_elsewhere(error.get().kind()),
            Reason::Network { errno } => next_step_on_network(*errno),
            Reason::ForeignLink { .. } => Some("name what it leads to, or have the link removed"),
            Reason::SameFile { .. } => Some("name another destination"),
            Reason::NotRegular { kind: "a directory" } if self.0.operation == "copy" => {
                Some("name a file, or pass --recursive to copy it with all that is in it")
            }
            Reason::NotRegular { kind: "a directory" } => Some("name the file to write instead"),
            Reason::NotRegular { .. } => Some("pass --copy-contents to read or write its bytes"),
            Reason::SourceChanged { .. } => {
                Some("copy again when nobody writes to it, or pass --if-changed=retry or =accept")
            }
            Reason::VerificationFailed { doubt: None, .. } => {
                Some("check the device and its cables; the bad copy was not put in place")
            }
            Reason::VerificationFailed {
                doubt: Some(SourceDoubt::Unseen(Unseen::DirtyPages)),
                ..
            } => Some(
                "copy again with if-changed=retry, which flushes the source first, and check the device \
                 if they still differ; this copy was not put in place",
            ),
            Reason::VerificationFailed { doubt: Some(_), .. } => Some(
                "copy again when nobody writes to the source, and check the device if they still \
                 differ; this copy was not put in place",
            ),
            Reason::Damaged { .. } => {
                Some("get the file anew, or copy it as it is, without --decompress")
            }
            Reason::NoMechanism { .. } => {
                Some("leave out --method, --require-zero-copy or --no-user-copy to fall back")
            }
            Reason::NotHere { .. } => Some("leave out what does not work"),
            Reason::Forked => Some("make a new one in this process"),
            Reason::Options(_) | Reason::Cancelled | Reason::Refused(_) => None,
        }
    }
}

/// Whether the next file meets it too (`write(2)`, `open(2)`, `fsync(2)`).
fn lasts(errno: Errno) -> bool {
    matches!(errno, Errno::ENOSPC | Errno::EDQUOT | Errno::EROFS | Errno::EFBIG | Errno::EIO)
}

fn joined(refusals: &[Refusal]) -> String {
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn named(options: &[CopyOption]) -> String {
    options.iter().map(|option| option.name()).collect::<Vec<_>>().join(", ")
}

fn does(options: &[CopyOption]) -> &'static str {
    if options.len() == 1 { "does" } else { "do" }
}

fn next_step_after(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::ENOENT => "check the path; the directory of a destination must exist",
        Errno::EACCES | Errno::EPERM => {
            "check the permissions and attributes of file and directory"
        }
        Errno::ENOSPC => "free space on the destination's filesystem",
        Errno::EDQUOT => "free space in your quota",
        Errno::EROFS => "the filesystem is mounted read-only; name another destination",
        Errno::EMFILE | Errno::ENFILE => "raise the limit on open files (ulimit -n)",
        Errno::ENOTDIR => "name a path of which every part but the last is a directory",
        Errno::ELOOP => "name the file by a path with fewer symbolic links",
        Errno::ESRCH => "check the process id (ps)",
        Errno::ENODEV | Errno::ENXIO => {
            "check the name, and that the device is there (ip link, lsblk)"
        }
        Errno::EBUSY | Errno::ETXTBSY => "try again when nobody uses it any more",
        Errno::ENOMEM => "free memory, or raise the limit on it (ulimit -v, a control group's)",
        Errno::ENAMETOOLONG => "shorten the name (255 bytes at most on most filesystems)",
        Errno::EFBIG => "the file is larger than the filesystem or the limit (ulimit -f) allows",
        Errno::EIO => "the device reported an error; see the kernel log (dmesg)",
        _ => return None,
    })
}

/// Words for what systems other than Linux answer: nothing that only Linux has is named.
fn next_step_elsewhere(kind: io::ErrorKind) -> Option<&'static str> {
    use io::ErrorKind;
    Some(match kind {
        ErrorKind::NotFound => "check the path; the directory of a destination must exist",
        ErrorKind::PermissionDenied => "check the permissions of file and directory",
        ErrorKind::StorageFull => "free space on the destination's filesystem",
        ErrorKind::QuotaExceeded => "free space in your quota",
        ErrorKind::ReadOnlyFilesystem => "the filesystem is read-only; name another destination",
        ErrorKind::NotADirectory => "name a path of which every part but the last is a directory",
        ErrorKind::ResourceBusy | ErrorKind::ExecutableFileBusy => {
            "try again when nobody uses it any more"
        }
        ErrorKind::OutOfMemory => "free memory",
        ErrorKind::FileTooLarge => "the file is larger than the filesystem allows",
        _ => return None,
    })
}

fn next_step_on_network(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::ECONNREFUSED => "start the receiver, or check address and port",
        Errno::ECONNRESET | Errno::EPIPE | Errno::ECONNABORTED | Errno::ENOTCONN => {
            "the connection is over; make a new one"
        }
        Errno::ETIMEDOUT => "see that the other end answers, or wait longer",
        Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::ENETDOWN => {
            "check the route to the address (ip route get)"
        }
        Errno::EADDRINUSE => "choose another port, or end what uses this one",
        Errno::EADDRNOTAVAIL => "name an address of this machine (ip address)",
        Errno::EMSGSIZE => "send less at once: a datagram holds 65,507 bytes, over IPv6 65,527",
        Errno::ENOBUFS | Errno::ENOMEM => {
            "wait for releases, or raise net.core.optmem_max or the limit on locked memory \
             (ulimit -l)"
        }
        Errno::EMFILE | Errno::ENFILE => "raise the limit on open files (ulimit -n)",
        Errno::EPERM | Errno::EACCES => {
            "see what forbids it: a firewall, a seccomp filter, kernel.io_uring_disabled, or a \
             broadcast address"
        }
        Errno::EDESTADDRREQ => "name a destination, or connect the socket first",
        Errno::ENOSYS => "use a kernel that has the call",
        Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT => {
            "use a TCP or UDP socket over IPv4 or IPv6"
        }
        _ => return None,
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.0.operation, self.0.subject.display(), self.0.reason)?;
        match self.next_step() {
            Some(step) => write!(f, "; {step}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.reason {
            Reason::OtherSystem { error } => Some(error.get()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_do_not_work_are_named() {
        let reason = |options: &[CopyOption]| {
            Error::new("write to", "b", Reason::NotHere { options: options.to_vec() }).to_string()
        };
        assert_eq!(
            reason(&[CopyOption::Sparse]),
            "cannot write to b: sparse does not work on this system yet; leave out what does not work"
        );
        assert!(
            reason(&[CopyOption::Sparse, CopyOption::PreserveMode])
                .starts_with("cannot write to b: sparse, preserve.mode do not work on this system"),
        );
    }
}
