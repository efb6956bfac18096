//! Journal files of unfinished jobs. See [`crate::portable`] for those who read and write them here.

pub(crate) mod format;
