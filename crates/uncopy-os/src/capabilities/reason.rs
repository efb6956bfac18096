//! Reasons why a feature does not work or was not tried.

use std::fmt;
use std::path::PathBuf;

use uncopy_core::{Errno, Obstacle, Reason};

/// Reason why a feature does not work here, or was not tried.
///
/// `Display` gives a text for people; [`code`](AnswerReason::code) is for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerReason {
    /// The kernel refused it.
    Refused(Errno),
    /// The kernel's answer says nothing about the ability: no space, no permission.
    Inconclusive(Errno),
    /// A copying mechanism was stopped.
    StoppedBy(Obstacle),
    /// The call succeeded but copied nothing.
    CopiedNothing,
    /// Ranges that were never written take space.
    SpaceTaken,
    /// Holes are reported as data.
    HolesAreData,
    /// The directory cannot be opened or examined.
    NotExamined {
        /// The directory.
        directory: PathBuf,
        /// Reason of the failure.
        reason: Reason,
    },
    /// No file can be created in the directory.
    NoFile {
        /// The directory.
        directory: PathBuf,
        /// Answer of the kernel.
        errno: Errno,
    },
    /// The directory is on another filesystem.
    OtherFilesystem {
        /// The directory.
        directory: PathBuf,
    },
    /// Source and destination are not two files of known size.
    NotTwoFiles,
    /// The feature was not tried.
    NotAsked,
    /// The feature is not probed on this system yet.
    NotAskedHere,
}

uncopy_core::codes! { AnswerReason {
    AnswerReason::Refused(_) => "refused",
    AnswerReason::Inconclusive(_) => "inconclusive",
    AnswerReason::CopiedNothing => "copied_nothing",
    AnswerReason::SpaceTaken => "space_taken",
    AnswerReason::HolesAreData => "holes_are_data",
    AnswerReason::NotExamined { .. } => "not_examined",
    AnswerReason::NoFile { .. } => "no_file",
    AnswerReason::OtherFilesystem { .. } => "directory_elsewhere",
    AnswerReason::NotTwoFiles => "not_two_files",
    AnswerReason::NotAsked => "not_asked",
    AnswerReason::NotAskedHere => "not_asked_here",
} else { AnswerReason::StoppedBy(obstacle) => obstacle.code() } }

impl fmt::Display for AnswerReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerReason::Refused(errno) => f.write_str(&errno.message()),
            AnswerReason::Inconclusive(errno) => write!(f, "{} ({errno})", errno.message()),
            AnswerReason::StoppedBy(obstacle) => write!(f, "{obstacle}"),
            AnswerReason::CopiedNothing => f.write_str("the call succeeded but copied nothing"),
            AnswerReason::SpaceTaken => f.write_str("ranges that were never written take space"),
            AnswerReason::HolesAreData => f.write_str("holes are reported as data"),
            AnswerReason::NotExamined { directory, reason } => {
                write!(f, "{}: {reason}", directory.display())
            }
            AnswerReason::NoFile { directory, errno } => {
                let directory = directory.display();
                write!(f, "cannot create a file in {directory}: {} ({errno})", errno.message())
            }
            AnswerReason::OtherFilesystem { directory } => {
                write!(f, "{} is on another filesystem", directory.display())
            }
            AnswerReason::NotTwoFiles => {
                f.write_str("source and destination are not two files of known size")
            }
            AnswerReason::NotAsked => f.write_str("no trial was requested"),
            AnswerReason::NotAskedHere => f.write_str("not supported on this system yet"),
        }
    }
}
