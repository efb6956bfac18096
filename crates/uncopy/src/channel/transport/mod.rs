//! How messages get from one end to the other.

pub(super) mod local;
