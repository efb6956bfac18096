//! Memory of messages. The only unsafe code of this crate is here.
#![allow(unsafe_code)]

mod gather;
mod lent;
#[cfg(not(shuttle))]
pub(crate) mod lock;
mod pool;
mod scratch;
mod slots;

#[cfg(test)]
pub(crate) use gather::count;
pub(crate) use gather::scatter;
pub use gather::{Filling, TooLong};
pub use lent::Lent;
pub(crate) use pool::Buffer;
pub(crate) use scratch::Scratch;
pub use slots::{Draft, TrustedPeer};
pub(crate) use slots::{LentSlot, PoolMemory, PoolShape};
