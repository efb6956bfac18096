//! Defines what a peer can do wrong.

use std::fmt;

/// Something that no peer of this protocol sends. The connection cannot be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The peer did not greet within [`MAX_BANNER_BYTES`](crate::MAX_BANNER_BYTES).
    NoGreeting,
    /// There is no version that both sides speak.
    NoCommonVersion {
        /// Lowest version of the peer.
        min: u16,
        /// Highest version of the peer.
        max: u16,
    },
    /// A frame is longer than allowed.
    FrameTooLong {
        /// Its length in bytes.
        bytes: u32,
    },
    /// A frame is of an unknown kind.
    UnknownFrame {
        /// Its kind.
        kind: u8,
    },
    /// A payload ends too early or too late, or holds a value out of range.
    Malformed {
        /// Description of the part.
        what: &'static str,
    },
    /// A name is empty, `.` or `..`, too long, or holds a slash or a zero byte.
    BadName,
    /// An answer to a question that was not asked, or was answered already.
    Unasked {
        /// Number of the call.
        call: u32,
    },
    /// A call has the number of another one that is not answered yet.
    CallTwice {
        /// Number of the call.
        call: u32,
    },
    /// A call names a handle that is not open, or of another kind.
    BadHandle {
        /// The handle.
        handle: u32,
    },
    /// A call names a root that does not exist.
    BadRoot {
        /// Its number.
        number: u32,
    },
    /// More calls are under way than allowed.
    TooManyCalls,
    /// A frame came that only the other side sends.
    WrongSide,
    /// A frame came before or behind its time: a second job, output of a job that has ended.
    WrongOrder,
    /// A data connection asks for something other than bytes of a file and entries of a directory.
    OnlyReads,
    /// A job, a refusal or an output is longer than a frame.
    TooLong,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::NoGreeting => f.write_str("the other end does not greet as uncopy does"),
            Violation::NoCommonVersion { min, max } => {
                write!(f, "the other end speaks versions {min} to {max} of the protocol")
            }
            Violation::FrameTooLong { bytes } => write!(f, "a frame of {bytes} bytes is too long"),
            Violation::UnknownFrame { kind } => write!(f, "frame of unknown kind {kind}"),
            Violation::Malformed { what } => write!(f, "malformed {what}"),
            Violation::BadName => f.write_str("a name that no directory has"),
            Violation::Unasked { call } => write!(f, "an answer to call {call}, which is not open"),
            Violation::CallTwice { call } => write!(f, "call {call} comes twice"),
            Violation::BadHandle { handle } => write!(f, "handle {handle} is not open for that"),
            Violation::BadRoot { number } => write!(f, "there is no root {number}"),
            Violation::TooManyCalls => f.write_str("too many calls at once"),
            Violation::WrongSide => f.write_str("a frame that only the other side sends"),
            Violation::WrongOrder => f.write_str("a frame at a time when none of its kind is due"),
            Violation::OnlyReads => f.write_str(
                "a data connection asks for more than bytes of files and entries of directories",
            ),
            Violation::TooLong => f.write_str("more than fits into a frame"),
        }
    }
}

impl std::error::Error for Violation {}
