//! Why an answer is not yes.

use std::fmt;
use std::path::PathBuf;

use uncopy_core::{Errno, Obstacle, Reason};

/// Why something does not work here, or was not tried.
///
/// `Display` says it for people; [`code`](AnswerReason::code) is for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerReason {
    /// The kernel refused it.
    Refused(Errno),
    /// The kernel answered something that says nothing about the ability: no space, no permission.
    Inconclusive(Errno),
    /// A mechanism of copying was stopped.
    StoppedBy(Obstacle),
    /// The call was accepted and copied nothing.
    CopiedNothing,
    /// What was never written takes space.
    SpaceTaken,
    /// Holes are reported as data.
    HolesAreData,
    /// The directory cannot be opened or examined.
    NotExamined {
        /// The directory.
        directory: PathBuf,
        /// Why.
        reason: Reason,
    },
    /// No file can be made in the directory.
    NoFile {
        /// The directory.
        directory: PathBuf,
        /// What the kernel answered.
        errno: Errno,
    },
    /// The directory is on another filesystem.
    OtherFilesystem {
        /// The directory.
        directory: PathBuf,
    },
    /// There are no two files of known size.
    NotTwoFiles,
    /// Nobody asked.
    NotAsked,
    /// This system is not asked yet.
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
            AnswerReason::CopiedNothing => f.write_str("it was accepted and copied nothing"),
            AnswerReason::SpaceTaken => f.write_str("what was never written takes space"),
            AnswerReason::HolesAreData => f.write_str("holes are reported as data"),
            AnswerReason::NotExamined { directory, reason } => {
                write!(f, "{}: {reason}", directory.display())
            }
            AnswerReason::NoFile { directory, errno } => {
                let directory = directory.display();
                write!(f, "no file can be made in {directory}: {} ({errno})", errno.message())
            }
            AnswerReason::OtherFilesystem { directory } => {
                write!(f, "{} is on another filesystem", directory.display())
            }
            AnswerReason::NotTwoFiles => f.write_str("there are no two files of known size"),
            AnswerReason::NotAsked => f.write_str("it was not asked"),
            AnswerReason::NotAskedHere => f.write_str("this system is not asked yet"),
        }
    }
}
