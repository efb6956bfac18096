//! Packets over a socket to another process.

pub(super) mod carrier;
pub(super) mod gather;
pub(super) mod packet;
pub(super) mod parcel;
mod plan;
pub(super) mod wire;
