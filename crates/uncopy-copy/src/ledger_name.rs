//! Names ledgers of units of work (pure).

use std::ffi::OsStr;

/// Name of the directory that holds the ledgers of a destination. No job copies, deletes or compares it.
pub const LEDGER_DIRECTORY: &str = ".uncopy-ledger";

/// Whether an entry is such a directory.
#[must_use]
pub fn is_ledger(name: &OsStr, is_directory: bool) -> bool {
    is_directory && name == LEDGER_DIRECTORY
}
