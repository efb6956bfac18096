//! Totals of the sends of one socket: the ledger of how they went, and why sends were copied.

use std::fmt;

use super::release::Fate;
use uncopy_core::Errno;

/// Why a send was copied in the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FallbackReason {
    /// The options say to copy.
    CopyRequested,
    /// The send is so small that lending costs more than copying.
    TooSmall,
    /// Copying cost less when both were tried on this path, or is being tried.
    CopyingIsCheaper,
    /// The path copies anyway, as the last releases reported; it is tried again later.
    PathCopies,
    /// The socket's option memory is full of outstanding reports
    /// (`net.core.optmem_max`), or the limit on locked memory is reached (`ENOBUFS`).
    NoBufferSpace,
    /// The limit on locked memory is reached (`ENOMEM`, `RLIMIT_MEMLOCK`).
    LockedMemory,
    /// The kernel does not put the datagram into one packet without copying (`EMSGSIZE`): it has too many regions, or it
    /// is too long, and then the copied send fails too.
    TooManyRegions,
    /// The memory cannot be pinned (`EFAULT`).
    CannotBePinned,
    /// The kernel or the socket do not support lending.
    NotSupported,
    /// A datagram failed in a way that leaves open whether the kernel counted it. Nothing is lent on this
    /// socket any more.
    CountUncertain,
}

uncopy_core::codes! { FallbackReason {
    FallbackReason::CopyRequested => "asked",
    FallbackReason::TooSmall => "too_small",
    FallbackReason::CopyingIsCheaper => "copying_is_cheaper",
    FallbackReason::PathCopies => "path_copies",
    FallbackReason::NoBufferSpace => "no_buffer_space",
    FallbackReason::LockedMemory => "locked_memory",
    FallbackReason::TooManyRegions => "too_many_regions",
    FallbackReason::CannotBePinned => "cannot_be_pinned",
    FallbackReason::NotSupported => "not_supported",
    FallbackReason::CountUncertain => "count_uncertain",
} }

impl FallbackReason {
    /// Returns the reason in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            FallbackReason::CopyRequested => "the options say to copy",
            FallbackReason::TooSmall => "so small that lending costs more than copying",
            FallbackReason::CopyingIsCheaper => {
                "copying is cheaper on this path, or is being tried"
            }
            FallbackReason::PathCopies => "the path copies anyway",
            FallbackReason::NoBufferSpace => {
                "no room for another report (net.core.optmem_max), or too much memory locked"
            }
            FallbackReason::LockedMemory => "too much memory locked (ulimit -l)",
            FallbackReason::TooManyRegions => "more regions or bytes than fit into one packet",
            FallbackReason::CannotBePinned => "memory that cannot be pinned",
            FallbackReason::NotSupported => "the kernel or the socket do not support it",
            FallbackReason::CountUncertain => {
                "a datagram failed in a way that makes the kernel's count uncertain"
            }
        }
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Sends that were copied for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fallback {
    /// The reason.
    pub reason: FallbackReason,
    /// Number of sends.
    pub sends: u64,
}

/// Totals of the sends of one socket so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Sends that the kernel took whole.
    pub sends: u64,
    /// Bytes that the kernel took.
    pub bytes: u64,
    /// Sends that failed.
    pub failed_sends: u64,
    /// Bytes of released sends that were not copied.
    pub not_copied_bytes: u64,
    /// Bytes of released sends that were copied.
    pub copied_bytes: u64,
    /// Bytes of released sends whose fate is unknown.
    pub unknown_bytes: u64,
    /// Released sends that were not copied.
    pub not_copied_sends: u64,
    /// Released sends that were copied.
    pub copied_sends: u64,
    /// Released sends whose fate is unknown.
    pub unknown_sends: u64,
    /// Number of times that the kernel had no room for another report (`ENOBUFS`, `ENOMEM`).
    pub no_buffer_space: u64,
    /// Sends of registered huge pages that were lent like other memory, because the kernel would charge a
    /// stream, or a receiver on the same machine, with the whole huge page for each packet.
    pub huge_pages_unnamed: u64,
    /// Entries of other origin in the socket's error queue, such as ICMP errors.
    pub foreign_errors: u64,
    /// The last such error.
    pub last_foreign_error: Option<Errno>,
    /// Sends that were copied in the call, by reason.
    pub fallbacks: Vec<Fallback>,
}

impl Counters {
    /// Enters a send that was copied for this reason.
    pub(crate) fn fell_back(&mut self, reason: FallbackReason) {
        match self.fallbacks.iter_mut().find(|fallback| fallback.reason == reason) {
            Some(fallback) => fallback.sends += 1,
            None => self.fallbacks.push(Fallback { reason, sends: 1 }),
        }
    }

    /// Enters a released send.
    pub(crate) fn released(&mut self, fate: Fate, bytes: usize) {
        let (sends, sum) = match fate {
            Fate::NotCopied => (&mut self.not_copied_sends, &mut self.not_copied_bytes),
            Fate::Copied => (&mut self.copied_sends, &mut self.copied_bytes),
            Fate::Unknown => (&mut self.unknown_sends, &mut self.unknown_bytes),
            Fate::Unsent => return,
        };
        *sends += 1;
        *sum += bytes as u64;
    }

    /// Returns the number of sends that were copied for this reason.
    #[must_use]
    pub fn fallbacks_for(&self, reason: FallbackReason) -> u64 {
        self.fallbacks.iter().filter(|f| f.reason == reason).map(|f| f.sends).sum()
    }

    /// Returns whether at least one send was released and none of them was copied, as far as the kernel
    /// reports.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.not_copied_sends > 0 && self.copied_sends == 0 && self.unknown_sends == 0
    }
}

/// Sends whose buffers the kernel still needs, or whose releases were not taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outstanding {
    /// Number of sends.
    pub sends: usize,
    /// Bytes of their buffers.
    pub bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::{Counters, FallbackReason, Fate};

    #[test]
    fn fates_are_counted_separately() {
        let mut counters = Counters::default();
        assert!(!counters.is_zero_copy(), "no send proves nothing");
        counters.released(Fate::NotCopied, 10);
        counters.released(Fate::Unsent, 1000);
        assert!(counters.is_zero_copy());
        counters.released(Fate::Unknown, 20);
        assert!(!counters.is_zero_copy());
        counters.released(Fate::Copied, 30);
        counters.released(Fate::Copied, 31);
        assert_eq!(
            (counters.not_copied_bytes, counters.unknown_bytes, counters.copied_bytes),
            (10, 20, 61)
        );
        assert_eq!(counters.copied_sends, 2);
    }

    #[test]
    fn fallbacks_for_one_reason_share_a_row() {
        let mut counters = Counters::default();
        counters.fell_back(FallbackReason::TooSmall);
        counters.fell_back(FallbackReason::NoBufferSpace);
        counters.fell_back(FallbackReason::TooSmall);
        assert_eq!(counters.fallbacks.len(), 2);
        assert_eq!(counters.fallbacks_for(FallbackReason::TooSmall), 2);
        assert_eq!(counters.fallbacks_for(FallbackReason::CopyRequested), 0);
    }
}
