//! Page-aligned memory for `O_DIRECT`.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A zeroed, page-aligned block of bytes.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    layout: Layout,
}

impl AlignedBuffer {
    /// Alignment that satisfies every known `dio_mem_align` (512 or 4096).
    const ALIGN: usize = 4096;

    /// Allocates `length` bytes, rounded up to whole pages of 4096 bytes.
    ///
    /// # Panics
    /// Above `isize::MAX` bytes, as `Vec` does.
    pub fn new(length: usize) -> AlignedBuffer {
        let length = length.max(1).next_multiple_of(Self::ALIGN);
        let layout =
            Layout::from_size_align(length, Self::ALIGN).expect("a buffer below isize::MAX");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        AlignedBuffer { start, layout }
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
    use super::AlignedBuffer;

    #[test]
    fn is_aligned_zeroed_and_whole_pages() {
        let mut buffer = AlignedBuffer::new(5000);
        assert_eq!(buffer.as_ptr() as usize % 4096, 0);
        assert_eq!(buffer.len(), 8192);
        assert!(buffer.iter().all(|b| *b == 0));
        buffer[8191] = 1;
    }
}
