//! Packets over a socket to another process.

pub(super) mod carrier;
mod gather;
pub(super) mod packet;
pub(super) mod parcel;
pub(super) mod wire;
