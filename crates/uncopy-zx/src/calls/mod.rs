//! The exported calls, by kind of object.

pub mod bridge;
pub mod call;
pub mod channel;
pub mod clock;
pub mod event;
pub mod fifo;
pub mod handle;
mod message;
pub mod port;
pub mod socket;
mod status;
pub mod unsupported;
pub mod vmar;
pub mod vmo;
pub mod wait;
