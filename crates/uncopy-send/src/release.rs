//! The two events of a send: its result, and later its release.

use std::fmt;

use crate::room::inet::{InetSocket, Transport};
use crate::room::zerocopy::{Completed, Usage};
use crate::room::{Payload, StableBytes};
use uncopy_core::Result;

/// The number of a send of a sender or ring, counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SendId(pub(crate) u64);

impl SendId {
    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The first event of a send: the kernel has taken the bytes, or refused them.
///
/// It does not mean that the bytes were sent or delivered, nor that the buffer is free again. The buffer
/// comes back with the [`Release`] of the same `id`, also after a refusal.
#[derive(Debug)]
#[must_use = "a refusal is only reported here"]
#[non_exhaustive]
pub struct Sent {
    /// The send.
    pub id: SendId,
    /// Number of bytes that the kernel took, which is all of them, or an error. After an error on a stream
    /// some bytes may have been sent; [`Release::bytes`] counts them.
    pub result: Result<usize>,
}

/// The way the kernel treated the bytes of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fate {
    /// It did not copy them.
    NotCopied,
    /// Its report is not reliable.
    Unknown,
    /// It copied some or all of them.
    Copied,
    /// None of them were sent.
    Unsent,
}

impl Fate {
    /// Every fate.
    pub const ALL: [Fate; 4] = [Fate::NotCopied, Fate::Unknown, Fate::Copied, Fate::Unsent];

    /// Returns the name in reports: `not_copied`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Fate::NotCopied => "not_copied",
            Fate::Unknown => "unknown",
            Fate::Copied => "copied",
            Fate::Unsent => "unsent",
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The second event of a send: the buffers are returned, and nothing reads them any more.
///
/// *Released means reusable.* It does not mean sent: a reset connection releases bytes that never left. And
/// it does not mean delivered: a datagram is released when the device has read it, and bytes that the kernel
/// copied are released at once, whether or not they are ever received.
#[derive(Debug)]
#[non_exhaustive]
pub struct Release<B> {
    /// The send.
    pub id: SendId,
    /// The buffers.
    pub payload: Payload<B>,
    /// Whether the kernel copied them.
    pub fate: Fate,
    /// Number of bytes that the kernel took.
    pub bytes: usize,
}

impl<B: StableBytes> Release<B> {
    pub(crate) fn of(completed: Completed<B>, socket: &InetSocket) -> Release<B> {
        let Completed { number, payload, usage } = completed;
        let fate = usage.fate(socket);
        Release { id: SendId(number), payload, fate, bytes: usage.bytes }
    }
}

impl Usage {
    /// Returns the fate of a send on this socket.
    pub(crate) fn fate(self, socket: &InetSocket) -> Fate {
        let transport = socket.transport();
        // The device only matters where the kernel claims not to have copied.
        let is_claimed = transport == Transport::Tcp && self.lent_parts > 0 && !self.copied_later;
        fate(self, transport, is_claimed.then(|| socket.scatter_gather()).flatten())
    }

    /// Returns whether the path copied bytes that were lent on this socket; `None`: unknown.
    pub(crate) fn path_copied(self, socket: &InetSocket) -> Option<bool> {
        if self.lent_parts == 0 {
            return None;
        }
        let transport = socket.transport();
        let is_stream = transport == Transport::Tcp;
        path_copied(self, transport, is_stream.then(|| socket.scatter_gather()).flatten())
    }
}

/// Returns the fate of a send over a device with or without scatter-gather (`None`: unknown).
///
/// Over TCP without scatter-gather the kernel segments in software, which copies, and reports no copy all the
/// same.
fn fate(usage: Usage, transport: Transport, scatter_gather: Option<bool>) -> Fate {
    match (usage.copied_parts, usage.lent_parts) {
        (0, 0) => Fate::Unsent,
        (1.., _) => Fate::Copied,
        _ if usage.copied_later => Fate::Copied,
        _ if usage.is_unreported => Fate::Unknown,
        _ if transport == Transport::Tcp && scatter_gather != Some(true) => Fate::Unknown,
        _ => Fate::NotCopied,
    }
}

/// Returns whether a path over a device with or without scatter-gather (`None`: unknown) copied lent bytes.
/// Over TCP without scatter-gather it always does, whatever is reported.
fn path_copied(usage: Usage, transport: Transport, scatter_gather: Option<bool>) -> Option<bool> {
    match (transport, scatter_gather) {
        _ if usage.copied_later => Some(true),
        (Transport::Tcp, Some(false)) => Some(true),
        _ if usage.is_unreported => None,
        (Transport::Tcp, None) => None,
        (Transport::Tcp, Some(true)) | (Transport::Udp, _) => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::{Fate, Transport, Usage, fate, path_copied};

    #[test]
    fn a_copying_path_is_recognized_by_reports_and_by_its_device() {
        use Transport::{Tcp, Udp};
        for (copied_later, is_unreported, transport, scatter_gather, expected) in [
            (true, false, Tcp, Some(true), Some(true)),
            (true, false, Udp, None, Some(true)),
            (false, false, Tcp, Some(true), Some(false)),
            (false, false, Tcp, Some(false), Some(true)),
            (false, true, Tcp, Some(false), Some(true)),
            (false, false, Tcp, None, None),
            (false, false, Udp, None, Some(false)),
            (false, true, Udp, None, None),
        ] {
            let usage = Usage { lent_parts: 1, copied_later, is_unreported, ..Usage::default() };
            assert_eq!(path_copied(usage, transport, scatter_gather), expected, "{usage:?}");
        }
    }

    #[test]
    fn a_copy_is_never_hidden() {
        let usage = |copied_parts, lent_parts, copied_later| Usage {
            copied_parts,
            lent_parts,
            copied_later,
            is_unreported: false,
            bytes: 0,
        };
        use Transport::{Tcp, Udp};
        for (usage, transport, scatter_gather, expected) in [
            (usage(0, 0, false), Tcp, None, Fate::Unsent),
            (usage(1, 0, false), Udp, None, Fate::Copied),
            (usage(0, 1, false), Udp, None, Fate::NotCopied),
            (usage(0, 1, true), Udp, None, Fate::Copied),
            (usage(1, 3, false), Tcp, Some(true), Fate::Copied),
            (usage(0, 3, false), Tcp, Some(true), Fate::NotCopied),
            (usage(0, 3, false), Tcp, Some(false), Fate::Unknown),
            (usage(0, 3, false), Tcp, None, Fate::Unknown),
            (usage(0, 3, true), Tcp, Some(false), Fate::Copied),
            // Without scatter-gather UDP copies, and reports it.
            (usage(0, 1, true), Udp, Some(false), Fate::Copied),
        ] {
            assert_eq!(fate(usage, transport, scatter_gather), expected, "{usage:?}");
        }
        let unreported = Usage { is_unreported: true, ..usage(0, 1, false) };
        assert_eq!(fate(unreported, Udp, Some(true)), Fate::Unknown);
    }
}
