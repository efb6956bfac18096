//! Compares files and trees with others, and with manifests: contents, types and targets of links.
//!
//! Nothing is written. No symbolic link is followed but those that the two paths of the caller end in,
//! and no special file is opened. Files are read in pieces; memory depends on the largest directory alone.

pub(crate) mod contents;
mod manifest;
mod result;
mod trees;

use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;

pub use manifest::{check_manifest, digest_beneath};
pub use result::{
    CompareFinding, CompareObserver, CompareProgress, CompareSummary, Difference, FindingKind,
};
pub use trees::compare;

use super::options::Digest;
use super::setters::setters;
use result::Comparison;

pub use crate::manifest::{ManifestLine, manifest_line};

/// How to compare.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompareOptions {
    /// Report what the destination has and the source, or the manifest, has not.
    pub strict: bool,
    /// Number of threads. `None`: as many as there are processors.
    pub jobs: Option<NonZeroUsize>,
    /// The algorithm of a manifest's digests. `None`: shown by each line; for 64 digits, the algorithm by
    /// which the first file agrees.
    pub digest: Option<Digest>,
}

setters! {
    CompareOptions { strict: bool, jobs: Option<NonZeroUsize>, digest: Option<Digest>, }
}

impl CompareOptions {
    /// Makes the default options.
    #[must_use]
    pub fn new() -> CompareOptions {
        CompareOptions::default()
    }

    fn threads(&self) -> usize {
        let all = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.jobs.map_or_else(all, NonZeroUsize::get)
    }
}

/// Ends a comparison: the summary, unless the observer stopped it.
fn finish(comparison: Comparison<'_>, subject: &Path) -> uncopy_core::Result<CompareSummary> {
    if comparison.is_stopped() {
        let reason = uncopy_core::Reason::Cancelled;
        return Err(uncopy_core::Error::new("compare", subject, reason));
    }
    Ok(comparison.into_summary())
}
