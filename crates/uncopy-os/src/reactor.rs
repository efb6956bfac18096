//! Descriptors that a Tokio runtime watches.

use std::io::Result;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::fork::Generation;

type Registered = AsyncFd<Arc<OwnedFd>>;

/// A descriptor in the set of the runtime that this runs in.
pub struct Watched {
    registered: ManuallyDrop<Registered>,
    generation: Generation,
}

/// Has the runtime tell when `fd` becomes readable. Panics outside a runtime.
pub fn watch(fd: Arc<OwnedFd>) -> Result<Watched> {
    // SAFETY: what is registered owns the descriptor, which is open and the same for as long as
    // that lives, and gives the same number each time.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    let registered = ManuallyDrop::new(watched?);
    Ok(Watched { registered, generation: Generation::current() })
}

impl Deref for Watched {
    type Target = Registered;

    fn deref(&self) -> &Registered {
        &self.registered
    }
}

impl Drop for Watched {
    /// A child of `fork(2)` has the same set as its parent: whoever took a descriptor out of it there
    /// would take it from the parent's runtime (`epoll(7)`). It closes the descriptor alone.
    fn drop(&mut self) {
        if self.generation == Generation::current() {
            // SAFETY: this is the drop, after which nobody looks at the field again.
            unsafe { ManuallyDrop::drop(&mut self.registered) };
            return;
        }
        let fd = self.registered.get_ref();
        if Arc::strong_count(fd) == 1 {
            // SAFETY: its only owner is never dropped, so that nobody else closes it.
            drop(unsafe { OwnedFd::from_raw_fd(fd.as_raw_fd()) });
        }
    }
}
