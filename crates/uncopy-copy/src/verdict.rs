//! Defines the verdict on how files go from one directory to another.

use uncopy_core::{Cost, Mechanism};

/// How the bytes of a file of some megabytes go from one directory to another, found out by trying each
/// mechanism on small temporary files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathVerdict {
    /// The mechanism that a copy uses.
    pub mechanism: Mechanism,
    /// Cost of the bytes.
    pub cost: Cost,
    /// Whether that holds for [`durable`](field@crate::CopyOptions::durable) copies alone: others copy the
    /// bytes, because that takes less time.
    pub when_durable: bool,
}
