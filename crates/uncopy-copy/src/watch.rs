//! Detects stores into the source through a mapping during the copy, by looking at its cached pages.
//!
//! The first store into a clean page faults: the kernel changes the times of the file, marks the page
//! dirty, and makes it writable, in this order (`page_mkwrite`: `ext4_page_mkwrite`, `xfs_write_fault`,
//! `btrfs_page_mkwrite`). Further stores are invisible until the page is written back, before which it
//! is write-protected again (`folio_clear_dirty_for_io` in `mm/page-writeback.c`). So if all pages are
//! clean when the copy begins, a store shows in the times, or in a page that is dirty or under
//! writeback. One store escapes: its fault was already in progress when the times were read, and its
//! page was written back before the next look.

use std::time::Duration;

use super::options::{CopyOptions, IfChanged};
use uncopy_core::Errno;
use uncopy_core::{MappedWrites, Unseen};
use uncopy_os::Sys;
use uncopy_os::capabilities::Filesystem;
use uncopy_os::file::{CachedPages, Stat};

/// Maximum number of flushes of a source before one attempt to copy it.
const MAX_FLUSHES: u32 = 3;

/// Filesystems that know which pages are dirty, tried on each. tmpfs never has a dirty page
/// (`shmem_aops` in `mm/shmem.c`), so a count of zero is no evidence there.
fn counts_dirty_pages(filesystem: Filesystem) -> bool {
    [Filesystem::EXT4, Filesystem::XFS, Filesystem::BTRFS].contains(&filesystem)
}

/// Returns why stores into a file cannot be detected, before any look.
pub(crate) fn unseen(stat: &Stat, filesystem: Filesystem) -> Option<Unseen> {
    if stat.file_type() != rustix::fs::FileType::RegularFile || !counts_dirty_pages(filesystem) {
        return Some(Unseen::Filesystem);
    }
    // Stores go to the device, and no page is cached.
    stat.may_be_dax.then_some(Unseen::Dax)
}

/// Returns the result for a file whose blocks are shared by one call: XFS and btrfs flush the file and
/// block page faults meanwhile (`xfs_reflink_remap_prep` with `XFS_MMAPLOCK_EXCL`,
/// `btrfs_remap_file_range` with `i_mmap_lock`), so the copy is the file at one moment.
pub(crate) fn of_snapshot(filesystem: Filesystem) -> MappedWrites {
    match [Filesystem::XFS, Filesystem::BTRFS].contains(&filesystem) {
        true => MappedWrites::NoneSeen,
        false => MappedWrites::Unknown(Unseen::Filesystem),
    }
}

/// Whether a source with dirty pages is flushed first.
pub(crate) fn may_flush(options: &CopyOptions) -> bool {
    match options.if_changed {
        IfChanged::Fail => options.flush_source,
        IfChanged::Retry => true,
        IfChanged::Accept => false,
    }
}

/// Action before the first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Copy.
    Go,
    /// Flush the source, and look again.
    Flush,
    /// Fail: it was flushed as often as permitted, and is dirty again.
    Busy,
}

/// Result of all looks at one source so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Nothing is known.
    Blind(Unseen),
    /// Clean when the copy began, except for this number of pages under writeback, which are protected
    /// like clean ones and only become fewer.
    Clean { writing: u64 },
    /// A store was detected.
    Seen,
}

impl Watch {
    /// Takes the look before the first byte, after this number of flushes in this attempt.
    pub(crate) fn begin(looked: Sys<CachedPages>, may_flush: bool, flushes: u32) -> (Watch, Begin) {
        match looked {
            Err(errno) => (Watch::blind(errno), Begin::Go),
            Ok(pages) if pages.dirty == 0 => (Watch::Clean { writing: pages.writing }, Begin::Go),
            Ok(_) => {
                let next = match may_flush {
                    false => Begin::Go,
                    true if flushes < MAX_FLUSHES => Begin::Flush,
                    true => Begin::Busy,
                };
                (Watch::Blind(Unseen::DirtyPages), next)
            }
        }
    }

    /// Takes a later look.
    pub(crate) fn look(self, looked: Sys<CachedPages>) -> Watch {
        match (self, looked) {
            (Watch::Clean { .. }, Err(errno)) => Watch::blind(errno),
            (Watch::Clean { writing }, Ok(pages)) => {
                match pages.dirty > 0 || pages.writing > writing {
                    true => Watch::Seen,
                    false => Watch::Clean { writing: pages.writing },
                }
            }
            (known, _) => known,
        }
    }

    /// Takes the only look at a file that was read at once, and whose last change was long before that.
    /// A page that is dirty now was dirty before the read, since the times would show otherwise.
    pub(crate) fn after_the_only_read(looked: Sys<CachedPages>) -> Watch {
        match looked {
            Err(errno) => Watch::blind(errno),
            Ok(CachedPages { dirty: 0, writing: 0, .. }) => Watch::Clean { writing: 0 },
            Ok(_) => Watch::Blind(Unseen::DirtyPages),
        }
    }

    fn blind(errno: Errno) -> Watch {
        match errno {
            Errno::EPERM | Errno::EACCES => Watch::Blind(Unseen::Refused),
            _ => Watch::Blind(Unseen::Unavailable),
        }
    }

    /// Whether another look can add information.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Watch::Clean { .. })
    }

    pub(crate) fn verdict(self) -> MappedWrites {
        match self {
            Watch::Blind(why) => MappedWrites::Unknown(why),
            Watch::Clean { .. } => MappedWrites::NoneSeen,
            Watch::Seen => MappedWrites::Seen,
        }
    }
}

/// Whether it is time for a look between two pieces: looks cost 60 µs per GiB in the page cache, and
/// should take at most about a hundredth of the time.
pub(crate) fn is_due(since_last: Duration, last_took: Duration) -> bool {
    since_last >= last_took * 64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(dirty: u64, writing: u64) -> Sys<CachedPages> {
        Ok(CachedPages { cached: 100, dirty, writing })
    }

    #[test]
    fn a_copy_begins_clean_or_claims_nothing() {
        use Begin::{Busy, Flush, Go};
        let dirty = Watch::Blind(Unseen::DirtyPages);
        let (refused, missing) = (Watch::Blind(Unseen::Refused), Watch::Blind(Unseen::Unavailable));
        for (looked, may_flush, flushes, expected) in [
            (pages(0, 0), false, 0, (Watch::Clean { writing: 0 }, Go)),
            (pages(0, 0), true, 3, (Watch::Clean { writing: 0 }, Go)),
            (pages(0, 7), true, 0, (Watch::Clean { writing: 7 }, Go)),
            (pages(1, 0), false, 0, (dirty, Go)),
            (pages(1, 7), true, 0, (dirty, Flush)),
            (pages(1, 0), true, 2, (dirty, Flush)),
            (pages(1, 0), true, 3, (dirty, Busy)),
            (Err(Errno::EPERM), true, 0, (refused, Go)),
            (Err(Errno::ENOSYS), true, 0, (missing, Go)),
            (Err(Errno::EINVAL), false, 0, (missing, Go)),
            (Err(Errno::EOPNOTSUPP), false, 0, (missing, Go)),
        ] {
            let found = Watch::begin(looked, may_flush, flushes);
            assert_eq!(found, expected, "{looked:?} {may_flush} {flushes}");
        }
    }

    #[test]
    fn what_was_clean_and_is_not_has_changed() {
        use MappedWrites::{NoneSeen, Seen, Unknown};
        let clean = |writing| Watch::Clean { writing };
        let dirty = Watch::Blind(Unseen::DirtyPages);
        for (before, looks, expected) in [
            (clean(0), &[][..], NoneSeen),
            (clean(0), &[pages(0, 0), pages(0, 0)], NoneSeen),
            (clean(0), &[pages(1, 0)], Seen),
            (clean(0), &[pages(0, 1)], Seen),
            (clean(0), &[pages(1, 0), pages(0, 0)], Seen),
            (clean(0), &[pages(1, 0), Err(Errno::ENOSYS)], Seen),
            (clean(0), &[pages(0, 0), Err(Errno::EPERM)], Unknown(Unseen::Refused)),
            (clean(0), &[Err(Errno::EIO), pages(0, 0)], Unknown(Unseen::Unavailable)),
            // Under writeback before the first byte was read.
            (clean(5), &[pages(0, 5), pages(0, 2), pages(0, 0)], NoneSeen),
            (clean(5), &[pages(0, 6)], Seen),
            (clean(5), &[pages(0, 2), pages(0, 3)], Seen),
            (clean(5), &[pages(1, 4)], Seen),
            (dirty, &[pages(0, 0)], Unknown(Unseen::DirtyPages)),
            (dirty, &[pages(9, 9)], Unknown(Unseen::DirtyPages)),
        ] {
            let found = looks.iter().fold(before, |watch, looked| watch.look(*looked));
            assert_eq!(found.verdict(), expected, "{before:?} {looks:?}");
            assert_eq!(found.is_open(), expected == NoneSeen, "{before:?} {looks:?}");
        }
    }

    #[test]
    fn one_look_after_one_read_distinguishes_clean_from_unknown() {
        for (looked, expected) in [
            (pages(0, 0), MappedWrites::NoneSeen),
            (pages(1, 0), MappedWrites::Unknown(Unseen::DirtyPages)),
            (pages(0, 1), MappedWrites::Unknown(Unseen::DirtyPages)),
            (Err(Errno::EPERM), MappedWrites::Unknown(Unseen::Refused)),
            (Err(Errno::ENOSYS), MappedWrites::Unknown(Unseen::Unavailable)),
        ] {
            assert_eq!(Watch::after_the_only_read(looked).verdict(), expected, "{looked:?}");
        }
    }

    #[test]
    fn a_source_is_flushed_only_on_request() {
        for (if_changed, flush_source, expected) in [
            (IfChanged::Fail, false, false),
            (IfChanged::Fail, true, true),
            (IfChanged::Retry, false, true),
            (IfChanged::Retry, true, true),
            (IfChanged::Accept, false, false),
            (IfChanged::Accept, true, false),
        ] {
            let options = CopyOptions { if_changed, flush_source, ..CopyOptions::default() };
            assert_eq!(may_flush(&options), expected, "{if_changed:?} {flush_source}");
        }
    }

    #[test]
    fn looks_take_a_small_part_of_the_time() {
        let micros = Duration::from_micros;
        for (since, took, expected) in
            [(1, 0, true), (6_399, 100, false), (6_400, 100, true), (0, 1, false)]
        {
            assert_eq!(is_due(micros(since), micros(took)), expected, "{since} {took}");
        }
    }
}
