//! What no safe code can do.
#![allow(unsafe_code)]

mod allocator;

pub use allocator::CountingAllocator;
