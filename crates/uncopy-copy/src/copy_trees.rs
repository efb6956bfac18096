//! Defines the public functions that run a job, and their results.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::job_backend::{is_built as was_built, run_job};
use crate::jobs::{JobObserver, JobOptions, Summary};
use uncopy_core::{Contradiction, Error, Reason, Result};

/// Copies each source to its destination, directories with all that is in them.
///
/// A source that is a directory becomes the destination, which is made or merged into; nothing is
/// removed from it without [`JobOptions::delete`]. Hard links between entries of all sources are
/// kept.
///
/// ```no_run
/// use uncopy::copy::job::{JobOptions, copy_trees};
/// let summary = copy_trees([("photos", "/mnt/usb/photos")], &JobOptions::default())?;
/// println!("{} files, {} bytes, {} failed", summary.files, summary.bytes, summary.failed);
/// # Ok::<(), uncopy::copy::job::JobError>(())
/// ```
///
/// # Errors
/// The job ended before its time: contradicting options, or an error that
/// [ends the job](crate::job::OnError::ends_job). A tree that was being made is then removed, or kept under a
/// temporary name: with [`JobOptions::resume`], and as [`Summary::incomplete`] says. What was merged into
/// existing directories stays, each file whole. Entries that failed are no error of the job:
/// [`Summary::failed`] counts them.
pub fn copy_trees<P: AsRef<Path>, Q: AsRef<Path>>(
    pairs: impl IntoIterator<Item = (P, Q)>,
    options: &JobOptions,
) -> Result<Summary, JobError> {
    copy_trees_observed(pairs, options, &())
}

/// As [`copy_trees`], telling `observer` what becomes of each entry; it may stop the job.
///
/// # Errors
/// As [`copy_trees`], and one whose [`cause`](JobError::cause)
/// [`is_cancelled`](uncopy_core::Error::is_cancelled) if the observer stopped it.
pub fn copy_trees_observed<P: AsRef<Path>, Q: AsRef<Path>>(
    pairs: impl IntoIterator<Item = (P, Q)>,
    options: &JobOptions,
    observer: &dyn JobObserver,
) -> Result<Summary, JobError> {
    let owned = |(source, destination): (P, Q)| {
        (source.as_ref().to_owned(), destination.as_ref().to_owned())
    };
    let pairs: Vec<(PathBuf, PathBuf)> = pairs.into_iter().map(owned).collect();
    end_job(&pairs, options.check(), || run_job(&pairs, options, observer))
}

/// Runs a job by `run` if its options are possible, and returns its result.
pub(crate) fn end_job(
    pairs: &[(PathBuf, PathBuf)],
    checked: Result<(), Contradiction>,
    run: impl FnOnce() -> (Summary, Result<()>),
) -> Result<Summary, JobError> {
    let (summary, ended) = match checked {
        Ok(()) => run(),
        Err(found) => {
            let subject = pairs.first().map_or_else(PathBuf::new, |(_, d)| d.clone());
            let error = Error::new("write to", subject, Reason::Options(found));
            (Summary::default(), Err(error))
        }
    };
    match ended {
        Ok(()) => Ok(summary),
        Err(cause) => Err(JobError(Box::new((summary, cause)))),
    }
}

/// End of a job before its time. Displayed as its cause.
#[derive(Debug, Clone)]
pub struct JobError(
    // So that a result that is none takes no more room than one that is.
    Box<(Summary, Error)>,
);

impl JobError {
    /// Returns what was done until then.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.0.0
    }

    /// Returns the error that ended it.
    #[must_use]
    pub fn cause(&self) -> &Error {
        &self.0.1
    }

    /// Takes it apart: what was done, and the error that ended it.
    #[must_use]
    pub fn into_parts(self) -> (Summary, Error) {
        *self.0
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause().fmt(f)
    }
}

impl std::error::Error for JobError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().source()
    }
}

impl From<JobError> for Error {
    fn from(error: JobError) -> Error {
        error.into_parts().1
    }
}

impl From<JobError> for io::Error {
    fn from(error: JobError) -> io::Error {
        Error::from(error).into()
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
    was_built(source, destination, options)
}
