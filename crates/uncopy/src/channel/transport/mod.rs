//! Where messages go.

pub(super) mod carrier;
mod gather;
pub(super) mod local;
pub(super) mod packet;
pub(super) mod promotion;
mod unpack;
pub(super) mod wire;
