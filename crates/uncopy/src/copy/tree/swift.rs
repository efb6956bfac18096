//! Small files into a directory that this job made, with nobody who wants to hear of each: most files
//! of most copies. What the program does for one of them counts beside its system calls, so that
//! nothing is made here that only the others need: no receipt, no destination to look at.
//!
//! Whatever is out of the ordinary goes the way of any other file, which begins anew.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::file::{filesystem_of, siblings};
use super::worker::{Devices, Place, Worker};
use crate::copy::mechanism::Ends;
use crate::copy::metadata;
use crate::copy::small::{Early, Small};
use crate::receipt::Mechanism;
use crate::sys::file::Stat;
use crate::sys::name;

impl Worker<'_, '_> {
    /// Reads an open file that is likely to be one of those, because the last one was: before anybody
    /// looked at it, which spares the look that comes after other reads. One that is none of them, or has
    /// just been changed, costs a read in vain, once.
    pub(super) fn read_early(&mut self, place: &Place<'_>, fd: &OwnedFd) -> Option<Early> {
        let is_likely = std::mem::take(&mut self.small.is_next_alike);
        let is_possible = Early::is_possible(place.open.filesystems.0);
        let is_throttled = self.job.throttle.is_some();
        if !is_likely || !is_possible || is_throttled || !self.is_for_swift_ones(place) {
            return None;
        }
        Early::read(fd.as_fd(), &mut self.buffer)
    }

    /// The directory is new, and nobody wants to hear of each file.
    fn is_for_swift_ones(&self, place: &Place<'_>) -> bool {
        let is_unseen = place.directory.entered.is_unseen();
        is_unseen && !self.wants_records && !self.job.has_journal()
    }

    /// Copies an open regular file; `false`: it is none of those, and nothing was done.
    pub(super) fn copy_swiftly(
        &mut self,
        place: &Place<'_>,
        (fd, stat): (&OwnedFd, &Stat),
        early: Option<Early>,
    ) -> bool {
        if !self.is_for_swift_ones(place) {
            return false;
        }
        let (job, entered, open) = (self.job, &place.directory.entered, place.open);
        let (options, size) = (job.copy_options(entered), stat.size);
        if job.throttle.as_ref().is_some_and(|throttle| size > throttle.piece_bytes()) {
            return false;
        }
        let filesystem = filesystem_of(open, &entered.source, fd, stat);
        let filesystems = (filesystem, open.filesystems.1);
        let devices = Devices { source: stat.device, destination: entered.destination.0 };
        self.settle_small_unless(devices);
        let way = self.small.way(devices, filesystems, options);
        if !way.is_for(stat) {
            return false;
        }
        // Nobody can open it before the tree has its name.
        let mode = stat.permissions() & 0o777;
        let Ok(copy) = name::create_new(&*open.destination, place.target, mode) else {
            return false;
        };
        let ends = Ends { source: fd.as_fd(), destination: copy.as_fd() };
        // Something else may be mounted on its name.
        let early = early.filter(|_| Early::is_possible(filesystem));
        let read = (&mut *self.buffer, early);
        let copied = way.copy(ends, stat, options, read, || job.admits(size));
        let Small::Copied(mechanism, cost) = copied else {
            // If it stays, the other way tells of it.
            let _ = name::unlink(&*open.destination, place.target);
            return false;
        };
        self.small.is_next_alike = mechanism == Mechanism::ReadWrite && Early::suits(stat);
        let read = (fd.as_fd(), stat);
        let siblings = siblings(job, place);
        let notes = metadata::apply_to_new(copy.as_fd(), read, mode, siblings, options.preserve);
        job.counters.bytes.fetch_add(size, Ordering::Relaxed);
        if notes.is_empty() {
            self.count_small(size, mechanism, cost);
            self.summary.files += 1;
            self.summary.bytes += size;
            self.entry_done();
        } else {
            let receipt = self.small_receipt((size, mechanism, cost), notes);
            self.finish_copied(place, receipt);
        }
        true
    }
}
