//! Shares the source's extents with the destination (`FICLONE`).

use super::Ends;
use uncopy_os::{Sys, transfer};

/// Shares the whole file as a snapshot, also while another process writes to the source. A
/// destination that was longer keeps its end.
pub(crate) fn share(ends: Ends<'_>) -> Sys<()> {
    transfer::clone_file(ends.source, ends.destination)
}

/// Shares these bytes at the beginning of a source of `size` bytes, which are whole blocks.
pub(crate) fn share_beginning(ends: Ends<'_>, size: u64, length: u64) -> Sys<()> {
    transfer::clone_beginning(ends.source, ends.destination, size, length)
}
