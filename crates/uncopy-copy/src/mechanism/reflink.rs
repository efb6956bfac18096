//! `FICLONE`: the destination shares the source's extents.

use super::Ends;
use uncopy_os::{Sys, transfer};

/// Shares the whole file: a snapshot of it, also while somebody writes to the source. A destination
/// that was longer keeps its end.
pub(crate) fn share(ends: Ends<'_>) -> Sys<()> {
    transfer::clone_file(ends.source, ends.destination)
}
