//! Mode of a source, as its copy gets it on systems other than Linux.

use std::fs::Permissions;

use uncopy_core::Note;

/// Permissions for a copy.
pub(crate) struct SourceMode {
    /// Those that it may have under a temporary name.
    pub(crate) first: Permissions,
    /// Those that it gets with its final name, where they differ.
    pub(crate) last: Option<Permissions>,
    /// Says that a part is not kept.
    pub(crate) note: Option<Note>,
}
