//! Memory for system calls and for messages.
#![allow(unsafe_code)]

mod aligned;
mod gather;
mod pool;

pub(crate) use aligned::AlignedBuffer;
pub(crate) use gather::scatter;
pub use gather::{Filling, TooLong};
pub(crate) use pool::Buffer;
