//! Memory of messages. The only unsafe code of this crate is here.
#![allow(unsafe_code)]

mod gather;
pub(crate) mod lock;
mod pool;

pub use gather::{Filling, TooLong};
pub(crate) use gather::{append, scatter};
pub(crate) use pool::Buffer;
