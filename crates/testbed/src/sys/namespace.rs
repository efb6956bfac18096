use rustix::thread::UnshareFlags;

/// Moves the calling thread, and what it starts from now on, into a network namespace of its own.
pub(crate) fn leave_network() -> rustix::io::Result<()> {
    // SAFETY: a network namespace is the thread's own; of what `unshare_unsafe` warns of, it
    // touches neither file descriptors nor memory.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
}
