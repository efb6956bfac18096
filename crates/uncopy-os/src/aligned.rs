//! Page-aligned memory for `O_DIRECT`.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::Sys;
use uncopy_core::Errno;

/// A zeroed, page-aligned block of bytes.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    layout: Layout,
}

impl AlignedBuffer {
    /// Alignment that satisfies every known `dio_mem_align` (512 or 4096).
    const ALIGN: usize = 4096;

    /// Allocates `length` bytes, rounded up to whole pages of 4096 bytes. `ENOMEM`: there is no room.
    pub fn new(length: usize) -> Sys<AlignedBuffer> {
        let length = length.max(1).checked_next_multiple_of(Self::ALIGN).ok_or(Errno::ENOMEM)?;
        let layout = Layout::from_size_align(length, Self::ALIGN).map_err(|_| Errno::ENOMEM)?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or(Errno::ENOMEM)?;
        Ok(AlignedBuffer { start, layout })
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `layout.size()` initialised bytes that this buffer owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

// SAFETY: the buffer owns its memory alone, like a `Vec<u8>`.
unsafe impl Send for AlignedBuffer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_zeroed_and_whole_pages() {
        let mut buffer = AlignedBuffer::new(5000).unwrap();
        assert_eq!(buffer.as_ptr() as usize % 4096, 0);
        assert_eq!(buffer.len(), 8192);
        assert!(buffer.iter().all(|b| *b == 0));
        buffer[8191] = 1;
    }

    #[test]
    fn is_refused_without_room() {
        for length in [usize::MAX, isize::MAX as usize, 1 << 60] {
            assert_eq!(AlignedBuffer::new(length).err(), Some(Errno::ENOMEM));
        }
    }
}
