//! Memory that the kernel may read, and who owns it meanwhile. The only module of this crate with unsafe
//! code.
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
pub(crate) use payload::ByteRange;
pub use payload::Payload;
pub use registered::{PageSize, Pages, Pool, PoolSlice};
