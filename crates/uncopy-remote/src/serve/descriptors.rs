//! Descriptors of what is served: how many are open, and which are closed when there are too many.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use uncopy_os::directory;

use super::opened::Opened;

/// Descriptors of this process that are left for everything else.
const RESERVED: u64 = 128;
const MIN_DESCRIPTORS: u64 = 16;
const MAX_DESCRIPTORS: u64 = 16 << 10;

/// Count of open descriptors, and the clock of their use.
#[derive(Debug)]
pub(super) struct Descriptors {
    limit: usize,
    open: Arc<AtomicUsize>,
    clock: AtomicU64,
}

/// Descriptor that counts.
#[derive(Debug)]
pub(super) struct Descriptor {
    fd: OwnedFd,
    open: Arc<AtomicUsize>,
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Descriptors {
    pub(super) fn new() -> Arc<Descriptors> {
        let limit = directory::descriptor_limit().saturating_sub(RESERVED);
        Descriptors::with_limit(limit.clamp(MIN_DESCRIPTORS, MAX_DESCRIPTORS) as usize)
    }

    pub(super) fn with_limit(limit: usize) -> Arc<Descriptors> {
        let (open, clock) = (Arc::default(), AtomicU64::new(1));
        Arc::new(Descriptors { limit, open, clock })
    }

    /// Counts a descriptor.
    pub(super) fn count(&self, fd: OwnedFd) -> Descriptor {
        self.open.fetch_add(1, Ordering::Relaxed);
        Descriptor { fd, open: Arc::clone(&self.open) }
    }

    /// Returns the number of open ones.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns a time that is later than all before.
    pub(super) fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn are_too_many(&self) -> bool {
        self.open() > self.limit
    }

    /// Closes the descriptors of directories that were not used for longest, until a quarter is free. They are opened
    /// again when they are used.
    pub(super) fn evict(&self, open: &[Arc<Opened>]) {
        let mut used: Vec<(u64, &Arc<Opened>)> =
            open.iter().filter_map(|opened| Some((opened.last_use()?, opened))).collect();
        used.sort_unstable_by_key(|(time, _)| *time);
        for (_, opened) in used {
            if self.open() <= self.limit / 4 * 3 {
                break;
            }
            opened.close_descriptor();
        }
    }
}
