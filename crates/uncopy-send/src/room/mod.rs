//! Memory that the kernel may read: whoever lends it, whoever counts it, and the only place of this crate where
//! unsafe code stands.
#![allow(unsafe_code)]

pub(crate) mod cached_answer;
pub(crate) mod inet;
mod owner;
mod payload;
mod registered;
pub(crate) mod send_ring;
pub(crate) mod sequence_map;
pub(crate) mod writer;
pub(crate) mod zerocopy;

pub use owner::StableBytes;
pub use payload::Payload;
pub use registered::{PageSize, Pages, Pool, PoolSlice};
