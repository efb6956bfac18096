//! Many files: whole trees, copied by the engine that copies single files.
//!
//! A job walks its sources from open directories and never by whole paths, so that trees may be
//! thousands of levels deep and no symbolic link can lead it astray. A directory whose destination
//! does not exist is built beside it and renamed once, when it is complete; where a destination
//! exists, each file is replaced in one step.

mod options;
mod record;
mod select;

use std::path::{Path, PathBuf};

pub use options::{Delete, JobOptions, Links, OnError};
pub use record::{
    Action, EntryKind, Incomplete, JobObserver, JobProgress, Outcome, Record, RefusalCount,
    Summary, Transformed,
};
pub use select::{PatternError, Selection};

use crate::error::{Error, Reason, Result};

/// Copies each source to its destination, directories with all that is in them.
///
/// A source that is a directory becomes the destination, which is made or merged into; nothing is
/// removed from it without [`JobOptions::delete`]. Hard links between entries of all sources are
/// kept. `observer` is told what becomes of each entry.
///
/// ```no_run
/// use uncopy::copy::job::{JobOptions, copy_trees};
/// let pairs = [("photos".into(), "/mnt/usb/photos".into())];
/// let (summary, ended) = copy_trees(&pairs, &JobOptions::default(), &());
/// ended?;
/// println!("{} files, {} bytes, {} failed", summary.files, summary.bytes, summary.failed);
/// # Ok::<(), uncopy::Error>(())
/// ```
///
/// # Errors
/// The summary says how many entries failed; each was told to the observer. The result beside it is
/// an error if the job ended before its time: contradicting options, an error that
/// [ends the job](OnError::ends_job), or the observer's wish
/// ([`is_cancelled`](crate::Error::is_cancelled)). A tree that was being made is then removed, or kept
/// under a temporary name: with [`JobOptions::resume`], and as [`Summary::incomplete`] says. What was
/// merged into existing directories stays, each file whole.
pub fn copy_trees(
    pairs: &[(PathBuf, PathBuf)],
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> (Summary, Result<()>) {
    match options.check() {
        Ok(()) => super::run_job(pairs, options, observer),
        Err(found) => {
            let subject = pairs.first().map_or_else(PathBuf::new, |(_, d)| d.clone());
            let error = Error::new("write to", subject, Reason::Options(found.to_string()));
            (Summary::default(), Err(error))
        }
    }
}

/// Whether an earlier run with [`JobOptions::resume`] and otherwise the same options made the
/// directory `destination` of the directory `source`, and was killed when that had its name and
/// before the journal was removed.
///
/// A program that copies *into* directories which exist asks this first: it would copy the source
/// into its own copy otherwise. [`copy_trees`] with this very pair then finds that all is done, and
/// removes the journal. Nothing is changed here; what cannot be looked at is no such directory.
#[must_use]
pub fn is_built(source: &Path, destination: &Path, options: &JobOptions) -> bool {
    super::is_built(source, destination, options)
}
