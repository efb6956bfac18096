//! Descriptors that a Tokio runtime watches.

use std::io::Result;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor in the set of the runtime that this runs in.
pub(crate) type Watched = AsyncFd<Arc<OwnedFd>>;

/// Has the runtime tell when `fd` becomes readable. Panics outside a runtime.
pub(crate) fn watch(fd: Arc<OwnedFd>) -> Result<Watched> {
    // SAFETY: what is registered owns the descriptor, which is open and the same for as long as
    // that lives, and gives the same number each time.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    Ok(watched?)
}
