//! Rings that belong to the process that made them.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use io_uring::IoUring;

use uncopy_os::fork::Generation;

/// A ring whose memory a child of `fork(2)` does not have (`MADV_DONTFORK`, `madvise(2)`). There it
/// must not be touched, and what lies at its addresses may be something else.
pub(crate) struct ProcessRing {
    ring: ManuallyDrop<IoUring>,
    generation: Generation,
}

impl ProcessRing {
    /// A ring that was made with `dontfork`.
    pub(super) fn new(ring: IoUring) -> ProcessRing {
        ProcessRing { ring: ManuallyDrop::new(ring), generation: Generation::current() }
    }

    /// It belongs to the process that forked this one.
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
    /// In a child closes the descriptor, and unmaps nothing.
    fn drop(&mut self) {
        if self.is_inherited() {
            // SAFETY: the ring owns the descriptor and is never dropped, so that nobody else closes it.
            drop(unsafe { OwnedFd::from_raw_fd(self.ring.as_raw_fd()) });
            return;
        }
        // SAFETY: this is the drop, after which nobody looks at the field again.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }
}
