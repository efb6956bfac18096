//! What this kernel, filesystem and device offer.

mod device;
mod filesystem;

pub use device::{Device, DeviceKind};
pub use filesystem::Filesystem;
