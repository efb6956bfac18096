//! What the sends of one socket came to.

use std::fmt;

use super::release::Fate;
use uncopy_core::Errno;

/// Why a send that might have been without copying was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FallbackReason {
    /// The options ask for copies.
    Asked,
    /// So small that lending costs more than copying.
    TooSmall,
    /// Copying cost less where both were tried on this path, or it is being tried.
    CopyingIsCheaper,
    /// The path copies anyway, as the last releases said; it is tried again later.
    PathCopies,
    /// The socket's option memory is full of reports that the kernel still owes
    /// (`net.core.optmem_max`), or the limit on locked memory is reached (`ENOBUFS`).
    NoBufferSpace,
    /// The limit on locked memory is reached (`ENOMEM`, `RLIMIT_MEMLOCK`).
    LockedMemory,
    /// A datagram of more regions than the kernel puts into one packet without copying.
    TooManyRegions,
    /// The memory cannot be pinned (`EFAULT`).
    CannotBePinned,
    /// Kernel or socket do not have it.
    NotSupported,
    /// A datagram failed in a way that leaves open whether the kernel counted it: nothing is lent
    /// on this socket any more.
    CountUncertain,
}

uncopy_core::codes! { FallbackReason {
    FallbackReason::Asked => "asked",
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
    /// Returns it in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            FallbackReason::Asked => "copying was asked for",
            FallbackReason::TooSmall => "so small that lending costs more than copying",
            FallbackReason::CopyingIsCheaper => "copying is cheaper here, or tried",
            FallbackReason::PathCopies => "the path copies anyway",
            FallbackReason::NoBufferSpace => {
                "no room for another report (net.core.optmem_max), or too much memory locked"
            }
            FallbackReason::LockedMemory => "too much memory locked (ulimit -l)",
            FallbackReason::TooManyRegions => "more regions than one packet has room for",
            FallbackReason::CannotBePinned => "memory that cannot be pinned",
            FallbackReason::NotSupported => "kernel or socket do not have it",
            FallbackReason::CountUncertain => {
                "a datagram failed so that the kernel's count is not certain any more"
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
    /// Why.
    pub reason: FallbackReason,
    /// How many.
    pub sends: u64,
}

/// What the sends of one socket came to so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Sends that the kernel took whole.
    pub sends: u64,
    /// Bytes that it took.
    pub bytes: u64,
    /// Sends that failed.
    pub failed_sends: u64,
    /// Bytes of released sends that were not copied.
    pub not_copied_bytes: u64,
    /// Bytes of released sends that were copied.
    pub copied_bytes: u64,
    /// Bytes of released sends of which the kernel does not say.
    pub unknown_bytes: u64,
    /// Released sends that were not copied.
    pub not_copied_sends: u64,
    /// Released sends that were copied.
    pub copied_sends: u64,
    /// Released sends of which the kernel does not say.
    pub unknown_sends: u64,
    /// Times that the kernel had no room for another report (`ENOBUFS`, `ENOMEM`).
    pub no_buffer_space: u64,
    /// Sends of registered huge pages that were lent like other memory: the kernel charges a
    /// stream, and whoever receives on the same machine, with the whole huge page for each packet.
    pub huge_pages_unnamed: u64,
    /// Errors of other origin in the socket's error queue.
    pub foreign_errors: u64,
    /// The last of them.
    pub last_foreign_error: Option<Errno>,
    /// Sends that were copied in the call, by reason.
    pub fallbacks: Vec<Fallback>,
}

impl Counters {
    /// Adds why sends that a sender was given were copied, and what else it met.
    pub(crate) fn add_reasons(&mut self, of_sender: &Counters) {
        for Fallback { reason, sends } in &of_sender.fallbacks {
            (0..*sends).for_each(|_| self.fell_back(*reason));
        }
        self.no_buffer_space += of_sender.no_buffer_space;
        if of_sender.last_foreign_error.is_some() {
            self.foreign_errors = of_sender.foreign_errors;
            self.last_foreign_error = of_sender.last_foreign_error;
        }
    }

    pub(crate) fn fell_back(&mut self, reason: FallbackReason) {
        match self.fallbacks.iter_mut().find(|fallback| fallback.reason == reason) {
            Some(fallback) => fallback.sends += 1,
            None => self.fallbacks.push(Fallback { reason, sends: 1 }),
        }
    }

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

    /// Returns how often sends were copied for this reason.
    #[must_use]
    pub fn fallbacks_for(&self, reason: FallbackReason) -> u64 {
        self.fallbacks.iter().filter(|f| f.reason == reason).map(|f| f.sends).sum()
    }

    /// Returns whether something was released and nothing of it had been copied, as far as the kernel says.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.not_copied_sends > 0 && self.copied_sends == 0 && self.unknown_sends == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Counters, FallbackReason, Fate};

    #[test]
    fn fates_are_counted_apart() {
        let mut counters = Counters::default();
        assert!(!counters.is_zero_copy(), "nothing is no proof");
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
    fn fallbacks_of_one_reason_are_one_row() {
        let mut counters = Counters::default();
        counters.fell_back(FallbackReason::TooSmall);
        counters.fell_back(FallbackReason::NoBufferSpace);
        counters.fell_back(FallbackReason::TooSmall);
        assert_eq!(counters.fallbacks.len(), 2);
        assert_eq!(counters.fallbacks_for(FallbackReason::TooSmall), 2);
        assert_eq!(counters.fallbacks_for(FallbackReason::Asked), 0);
    }
}
