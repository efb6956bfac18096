//! Result of copying one file.

use std::path::{Path, PathBuf};

use crate::Skip;
use uncopy_core::Receipt;

/// Result of copying one file.
///
/// ```
/// use uncopy::copy::{CopyOptions, Existing, Outcome, copy_file};
/// # let directory = tempfile::tempdir()?;
/// # let (source, destination) = (directory.path().join("a"), directory.path().join("b"));
/// # std::fs::write(&source, "text")?;
/// let options = CopyOptions::new().existing(Existing::Keep);
/// for _ in 0..2 {
///     match copy_file(&source, &destination, &options)? {
///         Outcome::Copied(receipt) => println!("{} bytes", receipt.bytes),
///         Outcome::Skipped { reason, .. } => println!("left alone: {reason}"),
///         other => println!("{other:?}"),
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "nearly every one is a receipt")]
pub enum Outcome {
    /// It was copied.
    Copied(Receipt),
    /// It was left alone, and so was its destination.
    Skipped {
        /// Why.
        reason: Skip,
        /// The path that the copy would have, where
        /// [`CopyOptions::suffix`](crate::CopyOptions::suffix) changed its name.
        renamed: Option<PathBuf>,
    },
}

impl Outcome {
    /// Returns what the copy did; `None`: nothing was copied.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        match self {
            Outcome::Copied(receipt) => Some(receipt),
            Outcome::Skipped { .. } => None,
        }
    }

    /// Takes out what the copy did; `None`: nothing was copied.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        match self {
            Outcome::Copied(receipt) => Some(receipt),
            Outcome::Skipped { .. } => None,
        }
    }

    /// Returns whether the file was left alone.
    #[must_use]
    pub fn is_skipped(&self) -> bool {
        matches!(self, Outcome::Skipped { .. })
    }

    /// Returns the path of the destination, where [`CopyOptions::suffix`](crate::CopyOptions::suffix)
    /// changed its name.
    #[must_use]
    pub fn renamed(&self) -> Option<&Path> {
        match self {
            Outcome::Copied(receipt) => receipt.renamed.as_deref(),
            Outcome::Skipped { renamed, .. } => renamed.as_deref(),
        }
    }

    /// The outcome for a destination that exists and is to be kept.
    pub(crate) const fn exists() -> Outcome {
        Outcome::Skipped { reason: Skip::Exists, renamed: None }
    }

    /// The same under another name.
    pub(crate) fn with_name(mut self, name: Option<PathBuf>) -> Outcome {
        match &mut self {
            Outcome::Copied(receipt) => receipt.renamed = name,
            Outcome::Skipped { renamed, .. } => *renamed = name,
        }
        self
    }
}
