//! Memory of messages, and the only place of this crate where unsafe code stands.
#![allow(unsafe_code)]

mod gather;
pub(crate) mod lock;
mod pool;

pub use gather::{Filling, TooLong};
pub(crate) use gather::{append, scatter};
pub(crate) use pool::Buffer;
