//! Compares a file with the one that has its name in the destination.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::file_progress::FileProgress;
use super::place::Place;
use crate::compare::contents::{Buffers, SideError, are_same};
use crate::destination::ExistingEntry;
use crate::observer::{self, Phase, Progress};
use crate::peer_directory::PeerDirectory;
use crate::peer_file::PeerFile;
use crate::source::{Source, difference};
use crate::source_file::SourceFile;
use crate::throttle::Throttle;
use uncopy_core::{Error, Reason, Result};
use uncopy_os::file::{self, Stat};
use uncopy_os::{Sys, transfer};

/// Result of a comparison.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Contents {
    /// Whether both files have the same bytes, and neither changed while they were read.
    pub(super) are_same: bool,
    /// Bytes up to the first difference, of both; in whole pieces.
    pub(super) same_bytes: u64,
}

/// Reads both files. One of the destination that cannot be read is not the same. A rate counts for bytes of another machine.
///
/// # Errors
/// The source cannot be read, or the observer stopped the job.
pub(super) fn compare_contents(
    place: &Place<'_>,
    source: &Source<'_>,
    found: &ExistingEntry,
    throttle: Option<&Throttle>,
    progress: &mut FileProgress<'_>,
) -> Result<Contents> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let Ok(existing) = file::reopen(&found.handle, flags) else { return Ok(Contents::default()) };
    let (mut done_bytes, mut stopped) = (0, None);
    let go_on = |more| {
        done_bytes += more;
        let (phase, total_bytes) = (Phase::Verifying, source.stat.size);
        let read = Progress { phase, done_bytes, total_bytes };
        let mut left = if source.there().is_some() { more } else { 0 };
        while left > 0 && stopped.is_none() && throttle.is_some() {
            match observer::wait_for_rate(progress, throttle, read, left) {
                Some(admitted) => left -= admitted,
                None => stopped = Some(Error::new("copy", place.source(), Reason::Cancelled)),
            }
        }
        stopped = stopped.take().or_else(|| observer::report(progress, read, place.source()).err());
        stopped.is_none()
    };
    let same = match &source.file {
        SourceFile::Here(fd) => are_same(fd, &existing, &mut Buffers::new(), go_on),
        SourceFile::There(file) => {
            is_same_there(file, &source.stat, existing.as_fd(), throttle.is_none(), go_on)
        }
    };
    if let Some(error) = stopped {
        return Err(error);
    }
    let are_same = match same {
        Ok(are_same) => are_same,
        Err(SideError::Source(errno)) => return Err(Error::system("read", place.source(), errno)),
        Err(SideError::Destination(_)) => false,
    };
    let is_as_begun = |now: Sys<Stat>, stat| now.is_ok_and(|now| difference(stat, &now).is_none());
    // Contents that came with a listing were looked at by the other machine.
    let has_contents = source.there().is_some_and(|file| file.contents().is_some());
    let are_same = are_same
        && (has_contents || is_as_begun(source.file.examine(), &source.stat))
        && is_as_begun(file::stat(&existing), &found.stat);
    Ok(Contents { are_same, same_bytes: done_bytes * 2 })
}

/// Whether a file of another machine, which had this status and is opened, has the bytes of one of this machine, and
/// neither changed. One that cannot be read counts as different.
pub(super) fn is_same_as_there(
    directory: &Arc<PeerDirectory>,
    place: &Place<'_>,
    source: &Stat,
    found: &ExistingEntry,
) -> bool {
    let is_as_seen = |now: &Stat| now.is_same_file(source) && difference(source, now).is_none();
    let Ok(existing) = file::reopen(&found.handle, OFlags::RDONLY | OFlags::NONBLOCK) else {
        return false;
    };
    if let Some(entry) = place.listed.filter(|entry| entry.contents.is_some()) {
        // The other machine looked at the file before and after it was read.
        let file = PeerFile::listed(directory, entry);
        return is_as_seen(&entry.stat)
            && is_same_there(&file, source, existing.as_fd(), true, |_| true).unwrap_or(false);
    }
    let Ok(opened) = directory.open(place.name, false) else { return false };
    if opened.1.size != found.stat.size || !is_as_seen(&opened.1) {
        return false;
    }
    let file = PeerFile::opened(directory, place.name.to_owned(), opened);
    is_same_there(&file, source, existing.as_fd(), true, |_| true).unwrap_or(false)
        && file.examine().is_ok_and(|now| is_as_seen(&now))
        && file.has_changed() == Ok(false)
}

/// Number of bytes of another machine compared at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// Compares a file of another machine with one of this machine, as [`are_same`] does. `may_look_ahead`: where the first piece
/// is the same, the others are asked for before they are needed.
fn is_same_there(
    source: &PeerFile,
    stat: &Stat,
    existing: BorrowedFd<'_>,
    may_look_ahead: bool,
    mut go_on: impl FnMut(u64) -> bool,
) -> Result<bool, SideError> {
    if file::stat(existing).map_err(SideError::Destination)?.size != stat.size {
        return Ok(false);
    }
    let mut buffer = Vec::new();
    let mut offset = 0;
    while offset < stat.size {
        let (piece, mut read) = (PIECE_BYTES.min(stat.size - offset), Ok(true));
        let mut at = offset;
        let mut compare = |bytes: &[u8]| {
            buffer.resize(bytes.len(), 0);
            let found = transfer::read_all_at(existing, &mut buffer, at);
            at += bytes.len() as u64;
            read = found.map(|found| buffer[..found] == *bytes);
            read == Ok(true)
        };
        let end = offset + piece;
        let ahead_to = if may_look_ahead && offset > 0 { stat.size } else { end };
        let came = source.read(offset..end, ahead_to, &mut compare).map_err(SideError::Source)?;
        if !read.map_err(SideError::Destination)? || came < piece {
            return Ok(false);
        }
        offset += piece;
        if !go_on(piece) {
            return Ok(true);
        }
    }
    Ok(true)
}
