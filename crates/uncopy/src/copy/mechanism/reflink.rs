//! `FICLONE` and `FICLONERANGE`: the destination shares the source's extents.

use super::Ends;
use crate::sys::{Sys, transfer};

/// Shares everything from `offset` to the end of the source. The destination's size follows.
pub(crate) fn share(ends: Ends<'_>, offset: u64) -> Sys<()> {
    match offset {
        0 => transfer::clone_file(ends.source, ends.destination),
        _ => transfer::clone_from(ends.source, ends.destination, offset),
    }
}
