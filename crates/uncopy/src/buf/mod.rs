//! Memory for system calls and for messages.
#![allow(unsafe_code)]

mod aligned;
mod gather;
mod pool;

pub(crate) use aligned::AlignedBuffer;
pub use gather::{Filling, TooLong};
pub(crate) use gather::{append, scatter};
pub(crate) use pool::Buffer;
