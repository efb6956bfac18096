//! Memory for system calls and for messages.
#![allow(unsafe_code)]

mod aligned;
mod gather;
mod owner;
mod payload;
mod pool;
mod registered;

pub(crate) use aligned::AlignedBuffer;
pub use gather::{Filling, TooLong};
pub(crate) use gather::{append, scatter};
pub use owner::StableBytes;
pub use payload::Payload;
pub(crate) use pool::Buffer;
pub use registered::{PageSize, Pages, Pool, PoolSlice};
