//! Compares a file with the one that has its name in the destination.

use std::os::fd::AsFd;

use rustix::fs::OFlags;

use super::file_progress::FileProgress;
use super::place::Place;
use crate::compare::contents::{Buffers, SideError, are_same};
use crate::destination::ExistingEntry;
use crate::observer::{self, Phase, Progress};
use crate::source::{Source, difference};
use uncopy_core::{Error, Result};
use uncopy_os::file;

/// Result of a comparison.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Contents {
    /// Whether both files have the same bytes, and neither changed while they were read.
    pub(super) are_same: bool,
    /// Bytes up to the first difference, of both; in whole pieces.
    pub(super) same_bytes: u64,
}

/// Reads both files. One of the destination that cannot be read is not the same.
///
/// # Errors
/// The source cannot be read, or the observer stopped the job.
pub(super) fn compare_contents(
    place: &Place<'_>,
    source: &Source<'_>,
    found: &ExistingEntry,
    progress: &mut FileProgress<'_>,
) -> Result<Contents> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let Ok(existing) = file::reopen(&found.handle, flags) else { return Ok(Contents::default()) };
    let (mut done_bytes, mut stopped) = (0, None);
    let same = are_same(source.fd(), &existing, &mut Buffers::new(), |more| {
        done_bytes += more;
        let (phase, total_bytes) = (Phase::Verifying, source.stat.size);
        let read = Progress { phase, done_bytes, total_bytes };
        stopped = observer::report(progress, read, place.source()).err();
        stopped.is_none()
    });
    if let Some(error) = stopped {
        return Err(error);
    }
    let are_same = match same {
        Ok(are_same) => are_same,
        Err(SideError::Source(errno)) => return Err(Error::system("read", place.source(), errno)),
        Err(SideError::Destination(_)) => false,
    };
    let is_as_begun = |fd, stat| file::stat(fd).is_ok_and(|now| difference(stat, &now).is_none());
    let are_same = are_same
        && is_as_begun(source.fd(), &source.stat)
        && is_as_begun(existing.as_fd(), &found.stat);
    Ok(Contents { are_same, same_bytes: done_bytes * 2 })
}
