//! Whole trees on systems other than Linux: not yet.

use std::path::{Path, PathBuf};

use crate::jobs::{JobObserver, JobOptions, Summary};
use uncopy_core::{Contradiction, Error, Reason, Result};

/// Refuses; see [`crate::job::copy_trees`].
pub(crate) fn run_job(
    pairs: &[(PathBuf, PathBuf)],
    _: &JobOptions,
    _: &dyn JobObserver,
) -> (Summary, Result<()>) {
    let subject = pairs.first().map_or_else(PathBuf::new, |(_, destination)| destination.clone());
    let reason = Reason::Options(Contradiction::TreesOnLinux);
    (Summary::default(), Err(Error::new("write to", subject, reason)))
}

/// There are no journals; see [`crate::job::is_built`].
pub(crate) fn is_built(_: &Path, _: &Path, _: &JobOptions) -> bool {
    false
}
