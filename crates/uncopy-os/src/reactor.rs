//! Descriptors registered with a Tokio runtime.

use std::io::Result;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::fork::Generation;

type Registered = AsyncFd<Arc<OwnedFd>>;

/// A descriptor that is registered with a Tokio runtime.
pub struct Watched {
    registered: ManuallyDrop<Registered>,
    generation: Generation,
}

/// Registers `fd` with the current runtime, for readability. Panics outside a runtime.
pub fn watch(fd: Arc<OwnedFd>) -> Result<Watched> {
    // SAFETY: the registered value owns the descriptor, which stays open and keeps its number for as long
    // as that value lives.
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
    /// Deregisters the descriptor. A child of `fork(2)` shares the parent's epoll set: deregistering there
    /// would remove the descriptor from the parent's runtime (`epoll(7)`), so it only closes the descriptor.
    fn drop(&mut self) {
        if self.generation == Generation::current() {
            // SAFETY: the field is not used after this drop.
            unsafe { ManuallyDrop::drop(&mut self.registered) };
            return;
        }
        let fd = self.registered.get_ref();
        if Arc::strong_count(fd) == 1 {
            // SAFETY: the only owner is never dropped, so nothing else closes the descriptor.
            drop(unsafe { OwnedFd::from_raw_fd(fd.as_raw_fd()) });
        }
    }
}
