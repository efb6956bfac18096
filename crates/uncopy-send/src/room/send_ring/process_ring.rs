//! An io_uring that belongs to the process that made it.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use io_uring::IoUring;

use uncopy_os::fork::Generation;

/// A ring whose memory a child of `fork(2)` does not have (`MADV_DONTFORK`, `madvise(2)`). The child must
/// not touch it: other memory may be at its addresses.
pub(crate) struct ProcessRing {
    ring: ManuallyDrop<IoUring>,
    generation: Generation,
}

impl ProcessRing {
    /// Wraps a ring that was made with `dontfork`.
    pub(super) fn new(ring: IoUring) -> ProcessRing {
        ProcessRing { ring: ManuallyDrop::new(ring), generation: Generation::current() }
    }

    /// Returns whether the ring belongs to the process that forked this one.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != Generation::current()
    }
}

impl Deref for ProcessRing {
    type Target = IoUring;

    #[inline]
    fn deref(&self) -> &IoUring {
        &self.ring
    }
}

impl DerefMut for ProcessRing {
    #[inline]
    fn deref_mut(&mut self) -> &mut IoUring {
        &mut self.ring
    }
}

impl Drop for ProcessRing {
    /// Closes the ring; in a child it only closes the descriptor and unmaps nothing.
    fn drop(&mut self) {
        if self.is_inherited() {
            // SAFETY: the ring owns the descriptor and is not dropped on this branch, so the descriptor is
            // closed once.
            drop(unsafe { OwnedFd::from_raw_fd(self.ring.as_raw_fd()) });
            return;
        }
        // SAFETY: this is the drop of the owner, after which the field is not used again.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }
}
