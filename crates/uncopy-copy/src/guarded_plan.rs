//! Foresees what a guarded job will do with an entry, so that a plan need not have it (pure).

use crate::Existing;
use crate::jobs::{Compare, Decision, EntryKind, Policy, Side, decide};
use uncopy_os::file::Stat;

/// Treatment of an entry whose name is taken at the destination, as far as the two inodes show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there is no fourth way")]
pub enum ForeseenCopy {
    /// It is copied.
    Copied,
    /// Both files are read, and it is copied if they differ.
    Compared,
    /// It counts as unchanged, and is left alone.
    Unchanged,
}

/// Decides with [`JobOptions::update`](crate::job::JobOptions::update) and these comparisons about two entries of one kind or
/// two, of which none is a directory.
#[must_use]
pub fn foresee(
    update: bool,
    compare: Compare,
    source_kind: EntryKind,
    source: &Stat,
    found_kind: EntryKind,
    found: &Stat,
) -> ForeseenCopy {
    let policy = Policy {
        existing: Existing::Replace,
        update,
        compare,
        makes_room: false,
        attributes_only: false,
    };
    let side = |kind, stat: &Stat| Side { kind, modified: stat.modified, size: stat.size };
    match decide(side(source_kind, source), Some(side(found_kind, found)), policy) {
        Decision::Skip(_) => ForeseenCopy::Unchanged,
        Decision::Compare => ForeseenCopy::Compared,
        _ => ForeseenCopy::Copied,
    }
}
