//! Gives up a large copy that was stopped, without waiting until its space is free.

use std::thread;

use super::{Place, Staging};
use uncopy_os::file;

/// Minimum space that a thread of its own frees, in units of 512 bytes: 64 MiB take about 10 ms.
const MIN_BLOCKS: u64 = (64 << 20) / 512;

impl Staging<'_> {
    /// Removes the name of the unfinished file, if it has one. Its space is freed by another thread, which closes the last
    /// descriptor.
    pub(crate) fn free_aside(self) {
        let is_large = || file::stat(&self.fd).is_ok_and(|stat| stat.blocks >= MIN_BLOCKS);
        let last = match self.place {
            Place::Final => None,
            _ if is_large() => file::duplicate(&self.fd).ok(),
            _ => None,
        };
        drop(self);
        if let Some(last) = last {
            // If no thread can be started, it is closed here.
            let _ = thread::Builder::new().name("uncopy".into()).spawn(move || drop(last));
        }
    }
}
