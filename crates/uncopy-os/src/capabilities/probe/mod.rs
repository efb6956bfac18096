//! Probes on Linux: the kernel through its interfaces, filesystems by trial.

mod identity;
mod kernel;
mod storage;
mod trial;

pub(super) use identity::identity;
pub(super) use kernel::{kernel, limits};
pub(super) use storage::storage;
pub use trial::{TrialFiles, sharing};
