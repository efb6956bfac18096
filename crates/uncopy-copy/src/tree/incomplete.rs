//! Keeps a new tree whose job failed because of its destination: it keeps its temporary name, and a
//! journal in the same directory names it, so that another run resumes it and no run removes it.
//!
//! A run without a journal notes nothing while it copies. The files in its tree are complete all
//! the same: a file is written under its own name, and removed if it fails. It remains to show that
//! each copy is of its source as it is now, which times show ([`is_current`]). From then on the
//! journal serves like one kept from the beginning.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FileType;

use super::aside::{Aside, is_there};
use super::directory::Open;
use super::journal::{Begun, Built, Finished, Journal};
use super::resume::Resume;
use super::tally::Tally;
use super::target::open_journal;
use crate::jobs::{Incomplete, JobOptions, fingerprint};
use crate::small::NextSmallFile;
use crate::{Control, Transform, stale};
use uncopy_core::{Errno, Error, Objection, Reason, Result};
use uncopy_os::capabilities::Filesystem;
use uncopy_os::file::{self, Stat};
use uncopy_os::{Sys, clock, directory, name};

/// How often room is made for the journal.
const MAX_ATTEMPTS: usize = 3;

/// Removed beyond what the journal takes: its own blocks, those of its directory, and what a filesystem
/// keeps for itself.
const SPARE_BYTES: u64 = 16 << 10;

/// A difference between the clocks that only setting the clock explains, and not drift.
const MAX_DRIFT: Duration = Duration::from_secs(1);

/// A tree under a temporary name that no worker uses any more.
pub(super) struct Unfinished<'a> {
    pub(super) options: &'a JobOptions,
    pub(super) resume: &'a Resume,
    pub(super) tally: &'a Tally<'a>,
    pub(super) source: &'a Path,
    /// Status of the source.
    pub(super) inode: u64,
    pub(super) destination: &'a Path,
    pub(super) open: &'a Open,
    pub(super) aside: &'a Aside,
}

/// A position in both trees.
struct TreePosition<'a> {
    /// Path from the root.
    way: &'a Path,
    /// Open directory; `None` if it cannot be opened.
    source: Option<&'a OwnedFd>,
    destination: &'a OwnedFd,
}

impl Unfinished<'_> {
    /// Leaves the tree to the caller, with this many entries in it.
    pub(super) fn keep(&self, journal: Option<&Journal>, entries: u64) -> Incomplete {
        let mut removed = 0;
        let noted = match journal {
            Some(journal) => {
                // Files that were not flushed are copied again.
                let _ = journal.flush();
                journal.keep().map_err(|errno| self.unwritten(errno))
            }
            None => self.begin_journal(&mut removed),
        };
        // From now on no run removes it, unless a record still marks it as a killed run's. Even
        // then, a tree that a journal names is kept.
        let removed_by_next = !self.aside.register.withdraw() && noted.is_err();
        // The owner can remove it, regardless of the modes that its directories were to get.
        let _ = self.walk(|_, _| true);
        let path = std::path::absolute(self.destination);
        let path = path.as_deref().unwrap_or(self.destination);
        Incomplete {
            source: self.source.to_owned(),
            destination: self.destination.to_owned(),
            path: path.with_file_name(&self.aside.temporary),
            entries: entries.saturating_sub(removed),
            no_journal: noted.err().map(|error| error.reason().clone()),
            removed_by_next,
        }
    }

    fn unwritten(&self, errno: Errno) -> Error {
        Error::destination("write the journal for", self.destination, errno)
    }

    /// Writes a journal that lists the finished files. `removed`: files that were removed to make
    /// room for it.
    fn begin_journal(&self, removed: &mut u64) -> Result<()> {
        // If nothing else failed, removing the file that did not fit has made room.
        let journal = self.with_room(0, removed, || self.open_journal())?;
        let begun = self.note_all(&journal, removed).and_then(|()| journal.keep());
        begun.map_err(|errno| self.unwritten(errno))
    }

    /// Runs an operation that needs this many bytes. If there is no room, files of the tree are
    /// removed, which are copied again later.
    fn with_room<T>(
        &self,
        bytes: u64,
        removed: &mut u64,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        for _ in 1..MAX_ATTEMPTS {
            match attempt() {
                Err(error) if matches!(error.errno(), Some(Errno::ENOSPC | Errno::EDQUOT)) => {
                    *removed += self.remove_some(bytes);
                }
                other => return other,
            }
        }
        attempt()
    }

    /// Opens the journal and begins it.
    fn open_journal(&self) -> Result<Journal> {
        let Unfinished { options, source, destination, aside, .. } = self;
        let parent = aside.parent.as_fd();
        let fingerprint = fingerprint(options, source, self.inode);
        let mut journal = open_journal(destination, parent, &aside.name, fingerprint)?;
        let other = journal.begun().and_then(|begun| begun.aside.as_ref());
        if let Some(other) = other.filter(|other| is_there(parent, other)) {
            let tree = destination.with_file_name(&other.name);
            let reason = Reason::Refused(Objection::JournalOfTree { tree });
            return Err(Error::new("begin a journal for", destination, reason));
        }
        let id = file::stat(&*self.open.destination).map_err(|e| self.unwritten(e))?.id();
        let built = Built { name: aside.temporary.clone(), id };
        let begun = journal.begin(Begun { fingerprint, aside: Some(built) }, parent);
        begun.map(|()| journal).map_err(|errno| {
            // An empty journal is of no use. Its lock was released with it.
            let _ = name::unlink(parent, &stale::journal_name(&aside.name));
            self.unwritten(errno)
        })
    }

    /// Notes every file whose copy matches its source as it is now. Others are copied again.
    fn note_all(&self, journal: &Journal, removed: &mut u64) -> Sys<()> {
        let is_shown_by_times = self.options.copy.transform == Transform::None
            && !self.resume.has_remnants()
            && is_steady(self.resume.begun_at(), (clock::realtime(), clock::boot()))
            && has_kernel_times(self.open.filesystems.1);
        if !is_shown_by_times {
            return Ok(());
        }
        let files = self.tally.done_entries();
        let bytes = Journal::bytes_for(files);
        // Without reserved space, as many are noted as fit.
        let _ = self.with_room(bytes, removed, || {
            journal.reserve(files).map_err(|errno| self.unwritten(errno))
        });
        // A batch that cannot be written is copied again.
        let _ = self
            .walk(|position, name| note(journal, position, name).is_ok() && self.may_continue());
        let _ = journal.flush();
        Ok(())
    }

    /// Whether the observer wants to continue.
    fn may_continue(&self) -> bool {
        self.tally.report_progress() == Control::Continue
    }

    /// Removes files of at least this many bytes, and one at least. Returns their number.
    fn remove_some(&self, bytes: u64) -> u64 {
        let (mut removed, mut freed) = (0, 0);
        let _ = self.walk(|position, name| {
            let found = directory::stat_name(position.destination, name);
            if let Ok(stat) = found.as_ref()
                && stat.links == 1
                && name::unlink(position.destination, name).is_ok()
            {
                removed += 1;
                freed += stat.blocks * 512;
            }
            removed == 0 || freed < bytes + SPARE_BYTES
        });
        // Some filesystems free the blocks of a removed file only then.
        let _ = file::sync_filesystem(&*self.open.destination);
        removed
    }

    /// Visits every regular file of the tree until `visit` returns false, and makes every directory
    /// one that its owner can empty.
    fn walk(&self, mut visit: impl FnMut(&TreePosition<'_>, &OsStr) -> bool) -> Sys<()> {
        let mut waiting = vec![PathBuf::new()];
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut may_continue = true;
        while let Some(way) = waiting.pop().filter(|_| may_continue) {
            let names: Vec<&OsStr> = way.iter().collect();
            let destination = directory::open_beneath(&*self.open.destination, &names, false)?;
            // Another machine has another clock.
            let source = self.open.source.here();
            let source =
                source.and_then(|source| directory::open_beneath(source, &names, true).ok());
            let source = source.filter(|fd| {
                file::filesystem_magic(fd)
                    .is_ok_and(|magic| has_kernel_times(Filesystem::from_magic(magic)))
            });
            let position =
                TreePosition { way: &way, source: source.as_ref(), destination: &destination };
            directory::list(&destination, buffer.spare_capacity_mut(), |entry| {
                let name = OsStr::from_bytes(entry.name.to_bytes());
                match entry.kind {
                    FileType::Directory => {
                        let _ = make_removable(destination.as_fd(), name);
                        waiting.push(way.join(name));
                    }
                    FileType::RegularFile => may_continue = visit(&position, name),
                    _ => {}
                }
                may_continue
            })?;
        }
        Ok(())
    }
}

fn make_removable(parent: BorrowedFd<'_>, name: &OsStr) -> Sys<()> {
    let mode = directory::stat_name(parent, name)?.permissions();
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    let handle = directory::open_child_path(parent, name)?;
    directory::set_permissions_of_handle(handle, mode | 0o700)
}

/// Notes a file, if its copy matches its source as it is now.
fn note(journal: &Journal, position: &TreePosition<'_>, name: &OsStr) -> Sys<()> {
    let Some(source) = position.source.and_then(|from| directory::stat_name(from, name).ok())
    else {
        return Ok(());
    };
    let copy = directory::stat_name(position.destination, name)?;
    if !is_current(&source, &copy) {
        return Ok(());
    }
    let (path, directory) = (&position.way.join(name), position.destination.as_fd());
    journal.add(&Finished { path, source: &source, copy: &copy, bytes: copy.size, directory })
}

/// Whether a copy that is whole was begun after the last change of its source.
///
/// A new file's birth time and the time of a change are of one clock: the tick of the kernel's, which
/// stands still or goes forward as long as nobody sets it (`fs/inode.c`, `inode_set_ctime_current`,
/// `current_time`; `ext4_crtime` and its like are set from that when the inode is made). A change at or
/// after the birth has therefore its time or a later one, and an earlier time is that of a change before
/// it. Every change of contents, length and name sets the time of change, and nobody can set it back
/// (`inode(7)`).
fn is_current(source: &Stat, copy: &Stat) -> bool {
    /// Times are truncated on filesystems that store whole seconds, or two.
    const GRAIN_SECONDS: i64 = 4;
    let is_regular = |stat: &Stat| stat.file_type() == FileType::RegularFile;
    let Some(birth) = copy.birth.filter(|_| is_regular(source) && is_regular(copy)) else {
        return false;
    };
    let changed = source.changed;
    let is_older = match changed.nanoseconds {
        0 => changed.seconds.saturating_add(GRAIN_SECONDS) < birth.seconds,
        _ => (changed.seconds, changed.nanoseconds) < (birth.seconds, birth.nanoseconds),
    };
    is_older && source.size == copy.size
}

/// Times of files are those of this machine's clock, to the nanosecond unless they are whole seconds.
fn has_kernel_times(filesystem: Filesystem) -> bool {
    NextSmallFile::is_possible(filesystem) || filesystem.is_memory()
}

/// Whether the clock was not set between two times, each given since the epoch and since boot.
fn is_steady(begin: (Duration, Duration), end: (Duration, Duration)) -> bool {
    let by_clock = end.0.checked_sub(begin.0);
    let passed = end.1.saturating_sub(begin.1);
    by_clock.is_some_and(|by_clock| by_clock.abs_diff(passed) <= MAX_DRIFT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uncopy_os::file::Timestamp;

    fn stat(mode: u32, size: u64, changed: Timestamp) -> Stat {
        let now = file::stat(tempfile::tempfile().unwrap()).unwrap();
        Stat { mode, size, changed, ..now }
    }

    #[test]
    fn a_copy_is_current_if_it_was_begun_after_the_last_change() {
        const FILE: u32 = 0o100_644;
        let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        let birth = time(100, 500);
        for (what, source, copy, birth, expected) in [
            ("older", (FILE, 5, time(100, 499)), (FILE, 5), Some(birth), true),
            ("at once", (FILE, 5, time(100, 500)), (FILE, 5), Some(birth), false),
            ("later", (FILE, 5, time(101, 3)), (FILE, 5), Some(birth), false),
            ("a second older", (FILE, 5, time(99, 999)), (FILE, 5), Some(birth), true),
            ("a whole second", (FILE, 5, time(96, 0)), (FILE, 5), Some(birth), false),
            ("a whole second, long ago", (FILE, 5, time(95, 0)), (FILE, 5), Some(birth), true),
            ("before the epoch", (FILE, 5, time(i64::MIN, 0)), (FILE, 5), Some(birth), true),
            ("another length", (FILE, 5, time(1, 1)), (FILE, 6), Some(birth), false),
            ("no birth time", (FILE, 5, time(1, 1)), (FILE, 5), None, false),
            ("a link", (0o120_777, 5, time(1, 1)), (FILE, 5), Some(birth), false),
            ("a FIFO", (FILE, 5, time(1, 1)), (0o010_644, 5), Some(birth), false),
        ] {
            let (mode, size, changed) = source;
            let source = stat(mode, size, changed);
            let copy = Stat { birth, ..stat(copy.0, copy.1, time(200, 1)) };
            assert_eq!(is_current(&source, &copy), expected, "{what}");
        }
    }

    #[test]
    fn a_clock_that_was_set_is_noticed() {
        let at = |real, boot| (Duration::from_millis(real), Duration::from_millis(boot));
        for (end, expected) in [
            (at(5000, 2000), true),
            (at(5900, 2000), true),
            (at(4100, 2000), true),
            (at(6100, 2000), false),
            (at(3900, 2000), false),
            (at(3999, 1000), false),
        ] {
            assert_eq!(is_steady(at(4000, 1000), end), expected, "{end:?}");
        }
    }
}
