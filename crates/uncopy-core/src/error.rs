//! What can go wrong: which operation, on what, and why.

mod coded;
mod contradiction;
mod next_step;
mod objection;
mod standard;

use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::CopyOption;
use crate::errno::{Errno, SystemError};
use crate::{Refusal, Unseen};
pub use contradiction::Contradiction;
pub use next_step::NextStep;
pub use objection::Objection;

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
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The system refused a call.
    System {
        /// What it answered.
        errno: Errno,
    },
    /// A system other than Linux refused a call.
    OtherSystem {
        /// What it answered.
        error: SystemError,
    },
    /// The system refused a call on a socket or a ring.
    Network {
        /// What it answered.
        errno: Errno,
    },
    /// A symbolic link that somebody may have planted: it lies, at the end of a path, in a sticky
    /// directory that everybody may write to, and belongs neither to who follows it nor to the
    /// directory's owner (`fs.protected_symlinks` in proc_sys_fs(5)).
    ForeignLink {
        /// The link.
        link: PathBuf,
        /// The user id that it belongs to.
        owner: u32,
    },
    /// Source and destination are one file, by device and inode of the open files.
    SameFile {
        /// The source as it was named.
        source_path: PathBuf,
    },
    /// Not a regular file, and not asked for.
    NotRegular {
        /// What it is, with its article: "a directory", "a FIFO".
        kind: &'static str,
    },
    /// The source was written to, truncated or extended while it was copied.
    SourceChanged {
        /// Which witness differs: size, mtime, ctime.
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
        /// Why the source may be what changed. `None`: it is known that it did not, and the copy is bad.
        doubt: Option<SourceDoubt>,
    },
    /// Compressed data that cannot be decompressed.
    Damaged {
        /// What is wrong with it.
        what: String,
        /// Where in the file.
        offset: u64,
    },
    /// No mechanism that the options allow can copy this file here.
    NoMechanism {
        /// Why not, for every mechanism, the cheapest first.
        refusals: Vec<Refusal>,
    },
    /// Options that cannot be obeyed together, not by this build, or not for what the files are.
    Options(Contradiction),
    /// Options that work on Linux and not on this system. Nothing was touched.
    NotHere {
        /// Which, in the order of [`CopyOption::ALL`].
        options: Vec<CopyOption>,
    },
    /// It belongs to the process that forked this one.
    Forked,
    /// The caller asked to stop; nothing was left behind.
    Cancelled,
    /// The library refuses.
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
    pub fn new(operation: &'static str, subject: impl AsRef<Path>, reason: Reason) -> Error {
        let subject = subject.as_ref().to_owned();
        Error(Box::new(Facts { operation, subject, reason, in_place: false, at_destination: None }))
    }

    /// The same of another subject, by which people know where it happened.
    pub fn with_subject(mut self, subject: &Path) -> Error {
        self.0.subject = subject.to_owned();
        self
    }

    /// The same, met while the destination was written in place.
    pub fn while_in_place(mut self) -> Error {
        let nothing_written =
            matches!(self.0.reason, Reason::NoMechanism { .. } | Reason::Options(_));
        self.0.in_place = !nothing_written;
        self
    }

    /// The same, if it is a failed verification, with this doubt about the source.
    pub fn with_doubt(mut self, about_source: Option<SourceDoubt>) -> Error {
        if let Reason::VerificationFailed { doubt, .. } = &mut self.0.reason {
            *doubt = about_source;
        }
        self
    }

    /// A system call's refusal.
    pub fn system(
        operation: &'static str,
        subject: impl AsRef<Path>,
        errno: impl Into<Errno>,
    ) -> Error {
        Error::new(operation, subject, Reason::System { errno: errno.into() })
    }

    /// The refusal of a call that looks at the destination or changes it, and nothing else.
    pub fn destination(
        operation: &'static str,
        subject: impl AsRef<Path>,
        errno: impl Into<Errno>,
    ) -> Error {
        let errno = errno.into();
        Error::system(operation, subject, errno).met_at_destination(errno)
    }

    /// The same, for a reason that names the answer in its own words.
    pub fn met_at_destination(self, errno: Errno) -> Error {
        self.with_lasting(lasts(errno))
    }

    /// The same, if the next file would meet it too as told.
    pub(crate) fn with_lasting(mut self, lasts: bool) -> Error {
        self.0.at_destination = Some(lasts);
        self
    }

    /// A refusal of a call on a socket, or on the ring that serves it.
    pub fn network(
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
    pub fn next_step(&self) -> Option<NextStep> {
        if self.0.in_place {
            return Some(NextStep::CopyAgainInPlace);
        }
        next_step::after(self.0.operation, &self.0.reason)
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
