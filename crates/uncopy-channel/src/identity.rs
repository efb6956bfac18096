//! Kinds of objects, and their names.

// Not shuttle's: a counter of unique numbers needs no scheduling.
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of one object (or one end of a pair) within this process; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Koid(u64);

impl Koid {
    pub(super) fn next() -> Koid {
        // Zircon's first ordinary koid (`ZX_KOID_FIRST`).
        static NEXT: AtomicU64 = AtomicU64::new(1024);
        Koid(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// Kind of a handle's object, with Zircon's numbers (`zx_obj_type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum Kind {
    /// A file descriptor. Zircon has no such kind.
    Descriptor = 0,
    /// Memory.
    Vmo = 3,
    /// An endpoint of a channel.
    Channel = 4,
    /// An event.
    Event = 5,
    /// A port.
    Port = 6,
    /// An end of a stream or datagram socket.
    Socket = 14,
    /// An end of an event pair.
    EventPair = 16,
    /// An end of a fifo.
    Fifo = 19,
}
