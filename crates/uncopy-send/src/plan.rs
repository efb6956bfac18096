//! What to do next with a send, decided from what happened. Pure: no system call is made here.

use super::counters::FallbackReason;
use crate::room::inet::Transport;
use uncopy_core::Errno;

/// How a sender chooses between lending its buffers to the kernel and having them copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Whichever costs less, as sends on the path so far say: small ones are copied, large ones lent
    /// where the path does not copy anyway, and both are tried now and then.
    #[default]
    Auto,
    /// Every send is lent, as long as the kernel takes it so.
    Zerocopy,
    /// Every send is copied.
    Copy,
}

/// A step after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterRefusal {
    /// Wait for room and try again.
    WaitForRoom,
    /// Read the error queue and try again.
    Drain,
    /// Have this send copied.
    Copy(FallbackReason),
    /// A real error.
    Fail,
}

/// What is known when the kernel refuses a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefusedSend {
    pub(crate) errno: Errno,
    pub(crate) transport: Transport,
    /// It was to be lent.
    pub(crate) lent: bool,
    /// The error queue was read since the last refusal of this kind, for this send.
    pub(crate) drained: bool,
}

/// What a refusal means for the send.
pub(crate) fn after(refused: RefusedSend) -> AfterRefusal {
    let RefusedSend { errno, transport, lent, drained } = refused;
    match errno {
        Errno::EAGAIN => AfterRefusal::WaitForRoom,
        _ if !lent => AfterRefusal::Fail,
        // Reports take up option memory until they are read, lent pages the limit on locked memory
        // until they are released. Only what is read now counts: waiting for more could be for
        // ever, when nothing is outstanding.
        Errno::ENOBUFS | Errno::ENOMEM if !drained => AfterRefusal::Drain,
        Errno::ENOBUFS => AfterRefusal::Copy(FallbackReason::NoBufferSpace),
        Errno::ENOMEM => AfterRefusal::Copy(FallbackReason::LockedMemory),
        // Eighteen regions in pages of their own (`MAX_SKB_FRAGS`). If it is the length of the
        // datagram, copying fails with it too. A stream goes on in another packet by itself.
        Errno::EMSGSIZE if transport == Transport::Udp => {
            AfterRefusal::Copy(FallbackReason::TooManyRegions)
        }
        // Device memory, pages of a file that was cut off.
        Errno::EFAULT => AfterRefusal::Copy(FallbackReason::CannotBePinned),
        Errno::EOPNOTSUPP | Errno::ENOSYS => AfterRefusal::Copy(FallbackReason::NotSupported),
        _ => AfterRefusal::Fail,
    }
}

/// Lent sends after which the error queue is read without being asked to.
const DRAIN_AFTER_SENDS: usize = 16;
/// Lent bytes after which it is read.
const DRAIN_AFTER_BYTES: usize = 1 << 20;

/// Whether to read the error queue before the next send. What is outstanding alone decides: a
/// socket that can always be written to gives no other occasion.
pub(crate) fn is_drain_due(lent_since: usize, bytes_since: usize) -> bool {
    lent_since >= DRAIN_AFTER_SENDS || bytes_since >= DRAIN_AFTER_BYTES
}

#[cfg(test)]
mod tests {
    use super::{AfterRefusal, FallbackReason, RefusedSend, Transport, after, is_drain_due};
    use uncopy_core::Errno;

    #[test]
    fn every_refusal_has_its_step() {
        use AfterRefusal::{Copy, Drain, Fail, WaitForRoom};
        use Transport::{Tcp, Udp};
        for (errno, transport, lent, drained, expected) in [
            (Errno::EAGAIN, Tcp, true, false, WaitForRoom),
            (Errno::EAGAIN, Udp, false, true, WaitForRoom),
            (Errno::ENOBUFS, Udp, true, false, Drain),
            (Errno::ENOBUFS, Udp, true, true, Copy(FallbackReason::NoBufferSpace)),
            (Errno::ENOBUFS, Tcp, true, true, Copy(FallbackReason::NoBufferSpace)),
            // A full queue of a device, with IP_RECVERR: no report will change that.
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
    fn draining_is_due_by_what_is_outstanding() {
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
