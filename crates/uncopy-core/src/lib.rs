//! Types that all crates of uncopy share: errors, receipts, and names of options.
//!
//! There are no system calls here. The crate `uncopy` re-exports everything.
#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod choice;
mod codes;
mod errno;
mod error;
mod file_kind;
mod filesystem;
pub mod message;
mod option;
pub mod other_system;
mod receipt;
mod system;
mod threshold;
pub mod windows_path;

pub use choice::Choice;
pub use errno::{Errno, SystemError};
pub use error::{Contradiction, Error, NextStep, Objection, Reason, Result, SourceDoubt};
pub use file_kind::FileKind;
pub use filesystem::Filesystem;
pub use option::CopyOption;
pub use receipt::{
    Compression, CompressionAction, CompressionExpectation, CompressionGuess, CompressionReason,
    CompressionSample, Cost, DigestedFrom, Exclusion, ExpectedBy, GuessedBy, InodeFlags, Leftovers,
    MappedWrites, Mechanism, MetadataPart, Note, Obstacle, Portion, Receipt, Refusal,
    RefusalReason, SourceDigest, Unseen, Verification, VerifiedFrom,
};
pub use system::System;
pub use threshold::{Decision, Origin, Threshold};

/// Whether error numbers are Linux's. Other systems have other numbers.
pub const IS_LINUX: bool = cfg!(target_os = "linux");

#[cfg(target_os = "linux")]
impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Errno {
        Errno::from_raw(errno.raw_os_error())
    }
}

#[cfg(target_os = "linux")]
impl From<rustix::fs::FileType> for FileKind {
    fn from(kind: rustix::fs::FileType) -> FileKind {
        use rustix::fs::FileType;
        match kind {
            FileType::RegularFile => FileKind::Regular,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Symlink,
            FileType::Fifo => FileKind::Fifo,
            FileType::Socket => FileKind::Socket,
            FileType::CharacterDevice => FileKind::CharacterDevice,
            FileType::BlockDevice => FileKind::BlockDevice,
            FileType::Unknown => FileKind::Unknown,
        }
    }
}
