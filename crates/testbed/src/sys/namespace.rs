use rustix::thread::UnshareFlags;

/// Moves the calling thread, and processes that it starts from now on, into a new network
/// namespace.
pub(crate) fn leave_network() -> rustix::io::Result<()> {
    // SAFETY: a network namespace is the thread's own; of what `unshare_unsafe` warns of, it
    // touches neither file descriptors nor memory.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
}
