use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with counters, for `#[global_allocator]` of a test program.
pub struct CountingAllocator {
    live_bytes: AtomicUsize,
}

impl CountingAllocator {
    /// Makes an allocator with all counters at 0.
    #[must_use]
    pub const fn new() -> CountingAllocator {
        CountingAllocator { live_bytes: AtomicUsize::new(0) }
    }

    /// Returns the number of allocations by the calling thread, reallocations included.
    #[must_use]
    pub fn allocations(&self) -> u64 {
        ALLOCATIONS.get()
    }

    /// Returns the bytes that are allocated now, by all threads.
    #[must_use]
    pub fn live_bytes(&self) -> usize {
        self.live_bytes.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) {
        self.live_bytes.fetch_add(bytes, Ordering::Relaxed);
        // A thread that is ending has no counter any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
    }
}

impl Default for CountingAllocator {
    fn default() -> CountingAllocator {
        CountingAllocator::new()
    }
}

// SAFETY: every call goes to the system's allocator as it is; counting neither allocates (the
// thread's counter needs no destructor and is made at compile time) nor panics.
unsafe impl GlobalAlloc for CountingAllocator {
    /// # Safety
    /// As [`GlobalAlloc::alloc`].
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: the caller keeps to the rules of `GlobalAlloc`, which are those of `System`.
        unsafe { System.alloc(layout) }
    }

    /// # Safety
    /// As [`GlobalAlloc::dealloc`].
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.live_bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; `block` came from `System`.
        unsafe { System.dealloc(block, layout) }
    }

    /// # Safety
    /// As [`GlobalAlloc::realloc`].
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.live_bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        self.count(size);
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}
