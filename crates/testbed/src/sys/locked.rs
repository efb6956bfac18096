//! Tries how much memory may be locked now.

use std::io::Result;

use io_uring::IoUring;

/// Registers `bytes` with a ring, and gives them back.
///
/// # Errors
/// The limit on locked memory is used up (`ENOMEM`), or rings are forbidden.
pub(crate) fn try_to_lock(bytes: usize) -> Result<()> {
    let ring = IoUring::new(1)?;
    let mut memory = vec![0_u8; bytes];
    let whole = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: bytes };
    // SAFETY: the memory is taken back below, before it is freed, and no operation uses it.
    unsafe { ring.submitter().register_buffers(&[whole]) }?;
    // Whoever only closes a ring gives its memory back some time later.
    ring.submitter().unregister_buffers()
}
