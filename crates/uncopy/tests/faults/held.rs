//! Resources that a process holds, and which of them have grown afterwards.

use std::io::IoSlice;
use std::path::PathBuf;

use uncopy::channel::Channel;

use crate::faults::ALLOCATOR;
use crate::faults::sends::lent;

/// Less than any buffer that an operation makes: what it learns once and keeps, and messages.
const KEPT_BYTES: usize = 4096;

/// Counts of a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    lent: usize,
    threads: usize,
    bytes: usize,
    descriptors: usize,
}

impl Held {
    pub(crate) fn now() -> Held {
        fill_pool();
        let (lent, threads, descriptors) =
            (lent(), entries("/proc/self/task"), descriptors().len());
        Held { lent, threads, bytes: ALLOCATOR.live_bytes(), descriptors }
    }

    /// Describes the resources that have grown. Descriptors come last: if they are reported, nothing
    /// else has grown.
    pub(crate) fn more_than(&self, before: &Held) -> Option<String> {
        let more = |now: usize, then: usize| now.saturating_sub(then);
        if self.lent > before.lent {
            return Some(format!("buffers: {} never came back", self.lent - before.lent));
        }
        if self.threads > before.threads {
            return Some(format!("threads: {} more", self.threads - before.threads));
        }
        let bytes = more(self.bytes, before.bytes);
        if bytes > KEPT_BYTES {
            return Some(format!("memory: {bytes} bytes more"));
        }
        let fds = more(self.descriptors, before.descriptors);
        (fds > 0).then(|| format!("descriptors: {fds} more: {:?}", descriptors()))
    }
}

/// More messages of each size than an operation has at once, and fewer than a thread keeps.
const AT_ONCE: usize = 12;

/// A thread keeps the memory of as many messages as it had at once, which a fault may make one more.
/// Having had [`AT_ONCE`] it keeps as many every time, and a message that is never dropped counts.
fn fill_pool() {
    let (near, far) = Channel::pair();
    for bytes in (6..=16).map(|power| vec![0; 1 << power]) {
        for _ in 0..AT_ONCE {
            near.write(&[IoSlice::new(&bytes)], vec![]).expect("the channel has room");
        }
        let messages = (0..AT_ONCE).map(|_| far.read());
        drop(messages.collect::<Result<Vec<_>, _>>().expect("they are there"));
    }
}

fn entries(directory: &str) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// Returns the targets of all open descriptors.
pub(crate) fn descriptors() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok()).collect()
}
