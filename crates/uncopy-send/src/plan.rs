//! Decides what to do after the kernel has refused a send. Pure: makes no system call.

use super::counters::FallbackReason;
use crate::room::inet::Transport;
use uncopy_core::Errno;

/// How a sender chooses between lending its buffers to the kernel and having them copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// The cheaper of the two, judged by earlier sends on the path: small sends are copied, large ones are
    /// lent unless the path copies anyway, and both are tried from time to time.
    #[default]
    Auto,
    /// Every send is lent, unless the kernel refuses.
    Zerocopy,
    /// Every send is copied.
    Copy,
}

/// The next step after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterRefusal {
    /// Wait until the socket has room, and try again.
    WaitForRoom,
    /// Read the error queue and try again.
    Drain,
    /// Have this send copied.
    Copy(FallbackReason),
    /// Report the error.
    Fail,
}

/// A send that the kernel has refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefusedSend {
    pub(crate) errno: Errno,
    pub(crate) transport: Transport,
    /// Whether it was to be lent.
    pub(crate) lent: bool,
    /// Whether the error queue was read since the last refusal of this kind, for this send.
    pub(crate) drained: bool,
}

/// Decides what to do after a refusal.
pub(crate) fn after(refused: RefusedSend) -> AfterRefusal {
    let RefusedSend { errno, transport, lent, drained } = refused;
    match errno {
        Errno::EAGAIN => AfterRefusal::WaitForRoom,
        _ if !lent => AfterRefusal::Fail,
        // Reports take up option memory until they are read, and lent pages count towards the limit on
        // locked memory until they are released. Only reports that are queued now help: waiting for more
        // could take for ever, since none may be outstanding.
        Errno::ENOBUFS | Errno::ENOMEM if !drained => AfterRefusal::Drain,
        Errno::ENOBUFS => AfterRefusal::Copy(FallbackReason::NoBufferSpace),
        Errno::ENOMEM => AfterRefusal::Copy(FallbackReason::LockedMemory),
        // More than 17 regions in separate pages (`MAX_SKB_FRAGS`). If the datagram is too long, copying
        // fails with the same error. A stream continues in another packet.
        Errno::EMSGSIZE if transport == Transport::Udp => {
            AfterRefusal::Copy(FallbackReason::TooManyRegions)
        }
        // Device memory, or pages of a file that was truncated.
        Errno::EFAULT => AfterRefusal::Copy(FallbackReason::CannotBePinned),
        Errno::EOPNOTSUPP | Errno::ENOSYS => AfterRefusal::Copy(FallbackReason::NotSupported),
        _ => AfterRefusal::Fail,
    }
}

/// Number of lent sends after which the error queue is read.
const DRAIN_AFTER_SENDS: usize = 16;
/// Number of lent bytes after which the error queue is read.
const DRAIN_AFTER_BYTES: usize = 1 << 20;

/// Returns whether to read the error queue before the next send. Only the amount lent decides: a socket
/// that always has room gives no other occasion.
pub(crate) fn is_drain_due(lent_since: usize, bytes_since: usize) -> bool {
    lent_since >= DRAIN_AFTER_SENDS || bytes_since >= DRAIN_AFTER_BYTES
}

#[cfg(test)]
mod tests {
    use super::{AfterRefusal, FallbackReason, RefusedSend, Transport, after, is_drain_due};
    use uncopy_core::Errno;

    #[test]
    fn every_refusal_has_its_next_step() {
        use AfterRefusal::{Copy, Drain, Fail, WaitForRoom};
        use Transport::{Tcp, Udp};
        for (errno, transport, lent, drained, expected) in [
            (Errno::EAGAIN, Tcp, true, false, WaitForRoom),
            (Errno::EAGAIN, Udp, false, true, WaitForRoom),
            (Errno::ENOBUFS, Udp, true, false, Drain),
            (Errno::ENOBUFS, Udp, true, true, Copy(FallbackReason::NoBufferSpace)),
            (Errno::ENOBUFS, Tcp, true, true, Copy(FallbackReason::NoBufferSpace)),
            // A device queue is full, with IP_RECVERR: reading reports does not help.
            (Errno::ENOBUFS, Udp, false, false, Fail),
            (Errno::ENOMEM, Udp, true, false, Drain),
            (Errno::ENOMEM, Udp, true, true, Copy(FallbackReason::LockedMemory)),
            (Errno::ENOMEM, Udp, false, true, Fail),
            (Errno::EMSGSIZE, Udp, true, false, Copy(FallbackReason::TooManyRegions)),
            (Errno::EMSGSIZE, Udp, false, false, Fail),
            (Errno::EMSGSIZE, Tcp, true, false, Fail),
            (Errno::EFAULT, Tcp, true, false, Copy(FallbackReason::CannotBePinned)),
            (Errno::EFAULT, Tcp, false, false, Fail),
            (Errno::EOPNOTSUPP, Udp, true, false, Copy(FallbackReason::NotSupported)),
            (Errno::EPIPE, Tcp, true, false, Fail),
            (Errno::ECONNRESET, Tcp, true, true, Fail),
            (Errno::ECONNREFUSED, Udp, true, false, Fail),
            (Errno::EPERM, Udp, true, false, Fail),
            (Errno::EINVAL, Udp, true, false, Fail),
        ] {
            let refused = RefusedSend { errno, transport, lent, drained };
            assert_eq!(after(refused), expected, "{refused:?}");
        }
    }

    #[test]
    fn draining_is_due_by_the_amount_lent() {
        for (sends, bytes, due) in [
            (0, 0, false),
            (15, 1000, false),
            (16, 0, true),
            (1, 1 << 20, true),
            (3, 200_000, false),
        ] {
            assert_eq!(is_drain_due(sends, bytes), due, "{sends} {bytes}");
        }
    }
}
