//! Asking Linux: the kernel by its own interfaces, filesystems by trying.

mod kernel;
mod storage;

pub(super) use kernel::kernel;
pub(super) use storage::storage;
