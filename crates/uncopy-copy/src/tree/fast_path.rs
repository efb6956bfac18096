//! Small files into a directory that this job made, with nobody who wants to hear of each: most files
//! of most copies. What the program does for one of them counts beside its system calls, so that
//! nothing is made here that only the others need: no receipt, no destination to look at.
//!
//! Whatever is out of the ordinary goes the way of any other file, which begins anew.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::place::Place;
use super::small_files::Devices;
use super::worker::Worker;
use crate::jobs::EntryKind;
use crate::mechanism::{Ends, reflink};
use crate::small::{self, EarlyRead, NextSmallFile, SmallCopy};
use crate::{IfChanged, metadata, source, watch};
use uncopy_core::{Cost, InodeFlags, Mechanism};
use uncopy_os::file::Stat;
use uncopy_os::{clock, name};

/// What was done for a file that nobody had looked at.
pub(super) enum Begun<'a> {
    /// It was read.
    Read(EarlyRead),
    /// It shares its blocks with a new file.
    Shared(Shared<'a>),
}

/// A new file that shares the blocks of one that nobody had looked at. It goes unless it is kept.
pub(super) struct Shared<'a> {
    directory: BorrowedFd<'a>,
    name: &'a OsStr,
    mode: u32,
    /// Since the epoch, before the blocks were shared.
    begun: Duration,
    copy: Option<OwnedFd>,
}

impl<'a> Shared<'a> {
    fn new(place: &Place<'a>, source: BorrowedFd<'_>, mode: u32) -> Option<Shared<'a>> {
        let (directory, name) = (place.open.destination.as_fd(), place.target);
        let begun = clock::realtime();
        let copy = name::create_new(directory, name, mode).ok()?;
        let shared = Shared { directory, name, mode, begun, copy: Some(copy) };
        let destination = shared.copy.as_ref()?.as_fd();
        reflink::share(Ends { source, destination }).ok()?;
        Some(shared)
    }

    /// It is a copy of a file that was looked at afterwards, as that was then.
    fn is_of(&self, stat: &Stat) -> bool {
        let is_alike = stat.permissions() & 0o777 == self.mode && stat.size > 0;
        is_alike && small::is_older(stat, self.begun)
    }

    fn keep(mut self) -> Option<OwnedFd> {
        self.copy.take()
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        if self.copy.is_some() {
            // If it stays, the other way tells of it.
            let _ = name::unlink(self.directory, self.name);
        }
    }
}

impl Begun<'_> {
    fn into_read(self) -> Option<EarlyRead> {
        match self {
            Begun::Read(early) => Some(early),
            Begun::Shared(_) => None,
        }
    }
}

/// Begins an open file that is likely to be one of those, because the last one was: before anybody
/// looked at it, which spares the look that comes after other copies. One that is none of them, or
/// has just been changed, costs that in vain, once.
pub(super) fn begin<'a>(
    worker: &mut Worker<'_, '_>,
    place: &Place<'a>,
    fd: &OwnedFd,
) -> Option<Begun<'a>> {
    let next = worker.take_next_small();
    let is_possible = NextSmallFile::is_possible(place.open.filesystems.0);
    let is_throttled = worker.job().context().throttle().is_some();
    if !is_possible || is_throttled || !allows_fast_path(worker, place) {
        return None;
    }
    match next {
        NextSmallFile::Unknown => None,
        NextSmallFile::Read => EarlyRead::read(fd.as_fd(), worker.buffer()).map(Begun::Read),
        // Nobody can open it before the tree has its name.
        NextSmallFile::Share { mode } => Shared::new(place, fd.as_fd(), mode).map(Begun::Shared),
    }
}

/// The directory is new, and nobody wants to hear of each file.
fn allows_fast_path(worker: &Worker<'_, '_>, place: &Place<'_>) -> bool {
    let is_unseen = place.directory.entered.is_unseen();
    is_unseen && !worker.wants_records() && !worker.job().resume().has_journal()
}

/// Copies an open regular file; `false`: it is none of those, and nothing was done.
pub(super) fn copy_by_fast_path(
    worker: &mut Worker<'_, '_>,
    place: &Place<'_>,
    (fd, stat): (&OwnedFd, &Stat),
    begun: Option<Begun<'_>>,
) -> bool {
    // What such flags it has, and its copy has not, is told.
    if !allows_fast_path(worker, place) || stat.is_flagged {
        return false;
    }
    let (job, entered, open) = (worker.job(), &place.directory.entered, place.open);
    let (options, size) = (job.context().copy_options(entered), stat.size);
    if job.context().throttle().is_some_and(|throttle| size > throttle.piece_bytes()) {
        return false;
    }
    let filesystem = open.filesystem_of(&entered.source, fd, stat);
    let filesystems = (filesystem, open.filesystems.1);
    let devices = Devices { source: stat.device, destination: entered.destination.0 };
    let (way, buffer) = worker.small_file_path(devices, filesystems, options);
    if !way.is_for(stat) {
        return false;
    }
    let mode = stat.permissions() & 0o777;
    // Something else may be mounted on its name.
    let begun = begun.filter(|_| NextSmallFile::is_possible(filesystem));
    let (copy, copied) = match begun {
        Some(Begun::Shared(shared)) if shared.is_of(stat) => {
            let mapped_writes = watch::of_snapshot(filesystem);
            (shared.keep(), SmallCopy::Copied(Mechanism::Reflink, Cost::Shared, mapped_writes))
        }
        begun => {
            let read = (buffer, begun.and_then(Begun::into_read));
            // Nobody can open it before the tree has its name.
            let Ok(copy) = name::create_new(&*open.destination, place.target, mode) else {
                return false;
            };
            let ends = Ends { source: fd.as_fd(), destination: copy.as_fd() };
            let copied = way.copy(ends, stat, options, read, || job.wait_for_budget(size));
            (Some(copy), copied)
        }
    };
    let (Some(copy), SmallCopy::Copied(mechanism, cost, mapped_writes)) = (copy, copied) else {
        // If it stays, the other way tells of it.
        let _ = name::unlink(&*open.destination, place.target);
        // The other way would find dirty pages, and could not tell any more that they were clean.
        let is_over = copied == SmallCopy::StoredInto && options.if_changed == IfChanged::Fail;
        if is_over {
            worker.fail(place, EntryKind::File, source::stored_into(place.source()));
        }
        return is_over;
    };
    worker.set_next_small(NextSmallFile::after(mechanism, stat));
    let read = (fd.as_fd(), stat);
    let directory_defaults = job.context().directory_defaults(place.directory);
    let notes =
        metadata::apply_to_new(copy.as_fd(), read, mode, directory_defaults, options.preserve);
    job.tally().count_bytes(size);
    if notes.is_empty() {
        worker.finish_small(size, mechanism, cost);
    } else {
        let mut receipt =
            worker.small_receipt((size, mechanism, cost), (notes, InodeFlags::default()));
        receipt.mapped_writes = mapped_writes;
        worker.finish_copied(place, receipt);
    }
    true
}
