//! Errors: the operation that failed, its subject, and the reason.

mod coded;
mod contradiction;
mod next_step;
mod objection;
mod standard;

use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::CopyOption;
use crate::errno::{Errno, SystemError};
use crate::{FileKind, Refusal, Unseen};
pub use contradiction::Contradiction;
pub use next_step::NextStep;
pub use objection::Objection;

/// An error of this library: the operation that failed, the file it failed on, and the next step.
///
/// ```
/// let error = uncopy::copy::copy_file("/nonexistent/a", "/tmp/b", &Default::default()).unwrap_err();
/// assert!(error.is_not_found());
/// assert!(error.to_string().starts_with("cannot open /nonexistent/a"), "{error}");
/// ```
#[derive(Debug, Clone)]
pub struct Error(
    // Boxed to keep `Result<T, Error>` small.
    Box<ErrorFacts>,
);

#[derive(Debug, Clone)]
struct ErrorFacts {
    operation: &'static str,
    subject: PathBuf,
    reason: Reason,
    /// Whether the destination was being written in place.
    in_place: bool,
    /// `Some` if a call on the destination was refused; the value says whether the next file would
    /// fail too.
    at_destination: Option<bool>,
}

/// Result of an operation of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The system refused a call.
    System {
        /// The error number returned.
        errno: Errno,
    },
    /// A system other than Linux refused a call.
    OtherSystem {
        /// The error returned.
        error: SystemError,
    },
    /// The system refused a call on a socket or a ring.
    Network {
        /// The error number returned.
        errno: Errno,
    },
    /// A symbolic link that an attacker may have planted: the last component of a path, in a
    /// world-writable sticky directory, owned neither by the caller nor by the directory's owner
    /// (`fs.protected_symlinks` in proc_sys_fs(5)).
    ForeignLink {
        /// The link.
        link: PathBuf,
        /// Its owner's user id.
        owner: u32,
    },
    /// Source and destination are one file, by device and inode of the open files.
    SameFile {
        /// The source, as given by the caller.
        source_path: PathBuf,
    },
    /// Not a regular file, and the options do not allow anything else.
    NotRegular {
        /// Kind of the file.
        kind: FileKind,
    },
    /// The source was written to, truncated or extended while it was copied.
    SourceChanged {
        /// The attribute that differs: size, mtime, ctime.
        what: String,
    },
    /// The destination does not hold the bytes of the source.
    VerificationFailed {
        /// Name of the digest.
        algorithm: &'static str,
        /// The source's digest, hexadecimal.
        expected: String,
        /// The destination's digest, hexadecimal.
        found: String,
        /// Reason why the source may have changed. `None`: the source is known not to have changed,
        /// so the copy is bad.
        doubt: Option<SourceDoubt>,
    },
    /// Compressed data that cannot be decompressed.
    Damaged {
        /// Description of the damage.
        what: String,
        /// Byte offset in the file.
        offset: u64,
    },
    /// No mechanism that the options allow can copy this file here.
    NoMechanism {
        /// Refusal of each mechanism, the cheapest first.
        refusals: Vec<Refusal>,
    },
    /// Options that conflict, are not in this build, or do not fit the files.
    Options(Contradiction),
    /// Options that work on Linux but not on this system. Nothing was changed.
    NotHere {
        /// The options, in the order of [`CopyOption::ALL`].
        options: Vec<CopyOption>,
    },
    /// The object belongs to the process that forked this one.
    Forked,
    /// The caller asked to stop; nothing was left behind.
    Cancelled,
    /// The library refuses the operation, although no system call failed.
    Refused(Objection),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::System { errno } | Reason::Network { errno } => {
                write!(f, "{} ({errno})", errno.message())
            }
            Reason::OtherSystem { error } => error.fmt(f),
            Reason::ForeignLink { link, owner } => write!(
                f,
                "{} is a symbolic link of user {owner} in a sticky directory that everybody may write to, \
                 and is not followed (EACCES)",
                link.display()
            ),
            Reason::SameFile { source_path } => write!(
                f,
                "it is the same file as {} (a hard link, a symbolic link or a bind mount of it)",
                source_path.display()
            ),
            Reason::NotRegular { kind } => write!(f, "it is {kind}"),
            Reason::SourceChanged { what } => write!(f, "it changed while it was copied ({what})"),
            Reason::VerificationFailed { algorithm, expected, found, doubt } => {
                write!(
                    f,
                    "its contents differ from the source: {algorithm} {found}, expected {expected}"
                )?;
                match doubt {
                    Some(doubt) => write!(f, "; {doubt}"),
                    None => Ok(()),
                }
            }
            Reason::Damaged { what, offset } => write!(f, "{what} (at byte {offset})"),
            Reason::NoMechanism { refusals } => {
                write!(f, "no allowed way works here: {}", joined(refusals))
            }
            Reason::Options(contradiction) => contradiction.fmt(f),
            Reason::NotHere { options } => {
                write!(f, "{} {} not work on this system yet", named(options), does(options))
            }
            Reason::Forked => f.write_str("it belongs to the process that forked this one"),
            Reason::Cancelled => f.write_str("stopped on request"),
            Reason::Refused(objection) => objection.fmt(f),
        }
    }
}

impl std::error::Error for Reason {}

/// Reason why a difference between source and copy may come from a change of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceDoubt {
    /// The source changed while it was copied, and the options accept that.
    Changed,
    /// The source may have been written to through a mapping, which cannot be observed.
    Unseen(Unseen),
}

impl fmt::Display for SourceDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            SourceDoubt::Changed => return f.write_str("the source changed meanwhile"),
            SourceDoubt::Unseen(Unseen::DirtyPages) => "it had dirty pages when the copy began",
            SourceDoubt::Unseen(Unseen::Resumed) => "an earlier run copied a part of it",
            SourceDoubt::Unseen(Unseen::Refused) => {
                "the kernel reports writes through a mapping only to the owner or with write permission"
            }
            SourceDoubt::Unseen(Unseen::Unavailable) => {
                "this kernel does not report writes through a mapping"
            }
            SourceDoubt::Unseen(Unseen::NotLooked) => "writes through a mapping were not checked",
            SourceDoubt::Unseen(Unseen::Filesystem | Unseen::Dax) => {
                "its filesystem does not report writes through a mapping"
            }
        };
        write!(f, "the source may have changed meanwhile: {why}")
    }
}

impl Error {
    /// Makes an error of `operation` ("open", "write to") on `subject`.
    pub fn new(operation: &'static str, subject: impl AsRef<Path>, reason: Reason) -> Error {
        let subject = subject.as_ref().to_owned();
        Error(Box::new(ErrorFacts {
            operation,
            subject,
            reason,
            in_place: false,
            at_destination: None,
        }))
    }

    /// Replaces the subject by one that the user knows.
    pub fn with_subject(mut self, subject: &Path) -> Error {
        self.0.subject = subject.to_owned();
        self
    }

    /// Marks the error as met while the destination was written in place.
    pub fn while_in_place(mut self) -> Error {
        let nothing_written =
            matches!(self.0.reason, Reason::NoMechanism { .. } | Reason::Options(_));
        self.0.in_place = !nothing_written;
        self
    }

    /// Adds a doubt about the source, if this is a failed verification.
    pub fn with_doubt(mut self, about_source: Option<SourceDoubt>) -> Error {
        if let Reason::VerificationFailed { doubt, .. } = &mut self.0.reason {
            *doubt = about_source;
        }
        self
    }

    /// Makes an error from the error number of a system call.
    pub fn system(
        operation: &'static str,
        subject: impl AsRef<Path>,
        errno: impl Into<Errno>,
    ) -> Error {
        Error::new(operation, subject, Reason::System { errno: errno.into() })
    }

    /// Makes an error from a refused system call that concerns the destination only.
    pub fn destination(
        operation: &'static str,
        subject: impl AsRef<Path>,
        errno: impl Into<Errno>,
    ) -> Error {
        let errno = errno.into();
        Error::system(operation, subject, errno).met_at_destination(errno)
    }

    /// Marks the error as one of the destination; `errno` decides whether it is lasting.
    pub fn met_at_destination(self, errno: Errno) -> Error {
        self.with_lasting(lasts(errno))
    }

    /// Marks the error as one of the destination, lasting or not.
    pub(crate) fn with_lasting(mut self, lasts: bool) -> Error {
        self.0.at_destination = Some(lasts);
        self
    }

    /// Makes an error from a refused call on a socket, or on the ring that serves it.
    pub fn network(
        operation: &'static str,
        subject: impl AsRef<Path>,
        errno: impl Into<Errno>,
    ) -> Error {
        Error::new(operation, subject, Reason::Network { errno: errno.into() })
    }

    /// Operation attempted, as a verb phrase: "open", "write to".
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// File it was attempted on; for a socket, protocol and address: `udp 192.0.2.1:9000`.
    #[must_use]
    pub fn subject(&self) -> &Path {
        &self.0.subject
    }

    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// Returns Linux's error number if a system call failed, or the one that a refusal stands for.
    /// Errors of other systems are in [`Reason::OtherSystem`].
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self.0.reason {
            Reason::System { errno } | Reason::Network { errno } => Some(errno),
            Reason::ForeignLink { .. } => Some(Errno::EACCES),
            _ => None,
        }
    }

    /// Whether the destination, not the source, refused a call.
    #[must_use]
    pub fn is_at_destination(&self) -> bool {
        self.0.at_destination.is_some()
    }

    /// Whether the destination refused a call and would refuse it for the next file too: no space
    /// is left (`ENOSPC`, `EDQUOT`), it is read-only (`EROFS`), the file is too large for it
    /// (`EFBIG`), or its device fails (`EIO`).
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        self.0.at_destination.unwrap_or(false)
    }

    /// Whether the file or its directory does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match &self.0.reason {
            Reason::OtherSystem { error } => error.get().kind() == io::ErrorKind::NotFound,
            _ => self.errno() == Some(Errno::ENOENT),
        }
    }

    /// Whether source and destination are the same file.
    #[must_use]
    pub fn is_same_file(&self) -> bool {
        matches!(self.0.reason, Reason::SameFile { .. })
    }

    /// Whether the source changed during the copy.
    #[must_use]
    pub fn is_source_changed(&self) -> bool {
        matches!(self.0.reason, Reason::SourceChanged { .. })
    }

    /// Whether source and destination differ after the copy.
    #[must_use]
    pub fn is_verification_failed(&self) -> bool {
        matches!(self.0.reason, Reason::VerificationFailed { .. })
    }

    /// Whether the options leave no mechanism to copy this file.
    #[must_use]
    pub fn is_no_mechanism(&self) -> bool {
        matches!(self.0.reason, Reason::NoMechanism { .. })
    }

    /// Whether the observer asked to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0.reason, Reason::Cancelled)
    }

    /// Returns the next step for the user, if there is one.
    #[must_use]
    pub fn next_step(&self) -> Option<NextStep> {
        if self.0.in_place {
            return Some(NextStep::CopyAgainInPlace);
        }
        next_step::after(self.0.operation, &self.0.reason)
    }
}

/// Whether the next file would fail with it too (`write(2)`, `open(2)`, `fsync(2)`).
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
