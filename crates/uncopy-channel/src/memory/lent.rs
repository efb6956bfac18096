//! Memory that the kernel reads, and whose address it checks.

use uncopy_os::seqpacket;

/// Memory for the kernel to read, as long as the call takes.
#[derive(Clone, Copy)]
pub struct Lent<'a>(seqpacket::Part<'a>);

impl<'a> Lent<'a> {
    /// Lends `bytes`.
    #[inline]
    #[must_use]
    pub fn of(bytes: &'a [u8]) -> Lent<'a> {
        Lent(seqpacket::Part::of(bytes))
    }

    /// Lends memory that may not be there: the kernel checks the address, and the write fails with
    /// [`Status::InvalidArgs`](crate::Status::InvalidArgs).
    ///
    /// # Safety
    /// The kernel may read memory that is there.
    #[inline]
    #[must_use]
    pub unsafe fn at(start: *const u8, length: usize) -> Lent<'a> {
        // SAFETY: the caller's promise.
        Lent(unsafe { seqpacket::Part::at(start, length) })
    }

    #[inline]
    pub(crate) fn into_part(self) -> seqpacket::Part<'a> {
        self.0
    }
}

impl std::fmt::Debug for Lent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lent").field("bytes", &self.0.length()).finish_non_exhaustive()
    }
}
