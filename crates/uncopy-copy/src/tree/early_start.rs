//! Starts small files before their status is known: if they are likely to be like the last one,
//! they are read, or share their blocks with a new file, first. One `fstat` afterwards shows that
//! the copy is good, where other copies need one before and one after. A wrong guess only wastes
//! its calls, once.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::context::Context;
use super::place::Place;
use super::resume::Resume;
use super::worker::Worker;
use crate::Transform;
use crate::mechanism::{Ends, reflink};
use crate::small::{self, EarlyRead, NextSmallFile};
use uncopy_os::file::Stat;
use uncopy_os::{clock, name};

/// Work done for a file before its status was known.
pub(super) enum EarlyStart<'a> {
    /// The file was read into the worker's buffer.
    Read(EarlyRead),
    /// A new file shares its blocks.
    Shared(EarlyShare<'a>),
}

impl EarlyStart<'_> {
    /// Returns the bytes read; a new file is removed.
    pub(super) fn into_read(self) -> Option<EarlyRead> {
        match self {
            EarlyStart::Read(read) => Some(read),
            EarlyStart::Shared(_) => None,
        }
    }
}

/// A new file that shares the blocks of one whose status was not known. Removed on drop, unless it is
/// taken.
pub(super) struct EarlyShare<'a> {
    directory: BorrowedFd<'a>,
    name: &'a OsStr,
    mode: u32,
    /// Since the epoch, before the blocks were shared.
    begun: Duration,
    copy: Option<OwnedFd>,
}

impl<'a> EarlyShare<'a> {
    fn new(place: &Place<'a>, source: BorrowedFd<'_>, mode: u32) -> Option<EarlyShare<'a>> {
        let (directory, name) = (place.open.destination.as_fd(), place.target);
        let begun = clock::realtime();
        let copy = name::create_new(directory, name, mode).ok()?;
        let shared = EarlyShare { directory, name, mode, begun, copy: Some(copy) };
        let destination = shared.copy.as_ref()?.as_fd();
        reflink::share(Ends { source, destination }).ok()?;
        Some(shared)
    }

    /// Whether it is a copy of the file as its status, looked up afterwards, describes it.
    pub(super) fn is_of(&self, stat: &Stat) -> bool {
        let is_alike = stat.permissions() & 0o777 == self.mode && stat.size > 0;
        is_alike && small::is_older(stat, self.begun)
    }

    /// Returns the new file.
    pub(super) fn take(mut self) -> Option<OwnedFd> {
        self.copy.take()
    }
}

impl Drop for EarlyShare<'_> {
    fn drop(&mut self) {
        if self.copy.is_some() {
            // If it stays, making it again fails and is reported.
            let _ = name::unlink(self.directory, self.name);
        }
    }
}

/// Starts an open file that is likely to be small, because the last one was.
pub(super) fn begin<'a>(
    worker: &mut Worker<'_, '_>,
    place: &Place<'a>,
    fd: &OwnedFd,
) -> Option<EarlyStart<'a>> {
    let next = worker.take_next_small();
    let is_possible = NextSmallFile::is_possible(place.open.filesystems.0);
    let (context, resume) = (worker.context, worker.resume);
    if !is_possible || worker.reporter.wants_records() || !is_allowed(context, resume, place) {
        return None;
    }
    match next {
        NextSmallFile::Unknown => None,
        NextSmallFile::Read => EarlyRead::read(fd.as_fd(), worker.buffer()).map(EarlyStart::Read),
        // No other process can open it before the tree has its final name.
        NextSmallFile::Share { mode } => {
            EarlyShare::new(place, fd.as_fd(), mode).map(EarlyStart::Shared)
        }
    }
}

/// Whether the job allows an early start: the directory is new, and nothing has to be found out
/// before the copy.
fn is_allowed(context: &Context<'_>, resume: &Resume, place: &Place<'_>) -> bool {
    place.directory.entered.is_unseen()
        && !resume.has_journal()
        && context.throttle().is_none()
        && context.options().link_dest.is_none()
        && context.options().copy.transform == Transform::None
        // The file read early must be the one whose digest is computed.
        && context.options().copy.digest.is_none()
}
