//! Plans a regular file: decided once, by a pure function of its facts.

/// Plan for an open regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilePlan {
    /// Left alone: its destination is to be kept.
    Left,
    /// Compressed or decompressed.
    Transformed,
    /// Copied by one read and one write, or by sharing its blocks at once, to a new file.
    Small,
    /// Copied to a file that another run can resume.
    Resumable,
    /// Copied by the engine: mechanism after mechanism, piece by piece.
    Whole,
}

/// Facts that the plan depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileFacts {
    /// The destination exists and is not to be replaced.
    pub(crate) is_left: bool,
    /// The bytes are compressed or decompressed.
    pub(crate) transforms: bool,
    /// Size in bytes; `None` where it is not reliable, as in `/proc`.
    pub(crate) size: Option<u64>,
    pub(crate) may_have_holes: bool,
    /// An existing file is replaced.
    pub(crate) replaces: bool,
    /// Files below this size may be copied as small ones; 0 where options or filesystems forbid it.
    pub(crate) small_below_bytes: u64,
    /// Maximum number of bytes moved at a time at the rate, if there is one.
    pub(crate) piece_bytes: Option<u64>,
    /// Files from this size on are resumable; `None` without a journal.
    pub(crate) resumable_from_bytes: Option<u64>,
}

impl FilePlan {
    /// Decides what is done with a file.
    pub(crate) fn decide(facts: &FileFacts) -> FilePlan {
        if facts.is_left {
            return FilePlan::Left;
        }
        if facts.transforms {
            // Compressed output cannot be resumed.
            return FilePlan::Transformed;
        }
        let Some(size) = facts.size else { return FilePlan::Whole };
        let is_small = size < facts.small_below_bytes
            && !facts.may_have_holes
            && !facts.replaces
            && facts.piece_bytes.is_none_or(|piece| size <= piece);
        match facts.resumable_from_bytes {
            _ if is_small => FilePlan::Small,
            Some(from) if size >= from => FilePlan::Resumable,
            _ => FilePlan::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FilePlan::{Left, Resumable, Small, Transformed, Whole};
    use super::*;

    const SMALL: u64 = 64 << 10;
    const LARGE: u64 = 64 << 20;

    #[test]
    fn each_fact_decides_what_is_done_with_a_file() {
        let new = FileFacts {
            is_left: false,
            transforms: false,
            size: Some(4096),
            may_have_holes: false,
            replaces: false,
            small_below_bytes: SMALL,
            piece_bytes: None,
            resumable_from_bytes: None,
        };
        let with_journal = FileFacts { resumable_from_bytes: Some(LARGE), ..new };
        let large = FileFacts { size: Some(LARGE), ..with_journal };
        for (facts, expected) in [
            (new, Small),
            (FileFacts { size: Some(0), ..new }, Small),
            (FileFacts { size: Some(SMALL - 1), ..new }, Small),
            (FileFacts { size: Some(SMALL), ..new }, Whole),
            (FileFacts { size: None, ..new }, Whole),
            (FileFacts { may_have_holes: true, ..new }, Whole),
            (FileFacts { replaces: true, ..new }, Whole),
            (FileFacts { small_below_bytes: 0, ..new }, Whole),
            (FileFacts { small_below_bytes: 0, size: Some(0), ..new }, Whole),
            (FileFacts { piece_bytes: Some(4096), ..new }, Small),
            (FileFacts { piece_bytes: Some(4095), ..new }, Whole),
            (with_journal, Small),
            (FileFacts { size: Some(LARGE - 1), ..with_journal }, Whole),
            (large, Resumable),
            (FileFacts { replaces: true, ..large }, Resumable),
            (FileFacts { may_have_holes: true, ..large }, Resumable),
            (FileFacts { size: None, ..large }, Whole),
            (FileFacts { resumable_from_bytes: None, ..large }, Whole),
            (FileFacts { transforms: true, ..new }, Transformed),
            (FileFacts { transforms: true, ..large }, Transformed),
            (FileFacts { is_left: true, ..new }, Left),
            (FileFacts { is_left: true, transforms: true, ..large }, Left),
        ] {
            assert_eq!(FilePlan::decide(&facts), expected, "{facts:?}");
        }
    }
}
