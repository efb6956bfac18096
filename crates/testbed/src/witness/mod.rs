//! Observers that are independent of the program under test.

mod blocks;
mod extents;
mod trace;

pub use blocks::{allocated_bytes, cached_bytes, data_runs};
pub use extents::{Extent, awaits_allocation, extents, shared_bytes};

pub use trace::{Call, Outcome, Strace, Trace};
