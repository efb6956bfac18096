//! Asking Linux: the kernel by its own interfaces, filesystems by trying.

mod kernel;
mod storage;

pub(super) use kernel::{kernel, limits};
pub(super) use storage::storage;
