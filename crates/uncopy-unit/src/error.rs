//! Errors of plans, units and ledgers.

use std::fmt;
use std::path::PathBuf;

use crate::format::FormatError;

/// Reason why an operation on a plan, a unit or a ledger failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// An operation on a file failed.
    #[error(transparent)]
    System(#[from] uncopy_core::Error),
    /// A directory has no plan.
    #[error("there is no plan in {}", .directory.display())]
    NoPlan {
        /// The directory.
        directory: PathBuf,
    },
    /// A root is on another machine, and nobody has logged in there.
    #[error("{} is on another machine", .root.display())]
    Elsewhere {
        /// The root.
        root: PathBuf,
    },
    /// A root is not the directory that the plan saw, or is missing.
    #[error("{} is not the directory that the plan saw", .root.display())]
    OtherRoot {
        /// The root.
        root: PathBuf,
    },
    /// A file is not in its format.
    #[error("cannot use {}: {error}", .file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// The first thing that is wrong with it.
        error: FormatError,
    },
    /// The ledger has a record of a unit with this number, and it was another file.
    #[error(
        "cannot do {}: unit {unit} of its plan was done from another file, with the digest {digest}",
        .file.display()
    )]
    OtherUnit {
        /// The file.
        file: PathBuf,
        /// Number of the unit.
        unit: crate::format::UnitNumber,
        /// Digest of the file that was done.
        digest: String,
    },
    /// Something else than a regular file has the name of one, and was not opened.
    #[error("cannot read {}: {role} is a regular file", .file.display())]
    NotRegular {
        /// The file.
        file: PathBuf,
        /// Role that it should have.
        role: FileRole,
    },
    /// A file belongs to another plan or unit than its name or its place says.
    #[error("cannot use {}: it belongs to {found}, not to {expected}", .file.display())]
    Misplaced {
        /// The file.
        file: PathBuf,
        /// Plan or unit that it says it belongs to.
        found: String,
        /// Plan or unit that its place stands for.
        expected: String,
    },
}

/// Role of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there are no others")]
pub enum FileRole {
    /// The file of a unit.
    Unit,
    /// The file that says that a directory has a plan.
    Plan,
    /// A file of a ledger.
    Ledger,
}

impl fmt::Display for FileRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileRole::Unit => "a unit",
            FileRole::Plan => "a plan",
            FileRole::Ledger => "each file of a ledger",
        })
    }
}
