//! Answers of the kernel that are kept for a short time.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use uncopy_os::clock;
use uncopy_os::netlink::route::SegmentationLimits;

/// An answer that is queried again when it is older than `MAX_AGE`.
#[derive(Debug)]
pub(crate) struct CachedAnswer<T> {
    /// The answer's bits, shifted left by one, and 1; 0: no answer.
    answer: AtomicU64,
    /// Time of the query, in milliseconds.
    at: AtomicU64,
    /// Number of uses after which the age is checked.
    uses_per_check: u32,
    uses: AtomicU32,
    kind: PhantomData<T>,
}

/// Age after which an answer is queried again. A query takes half a dozen system calls.
const MAX_AGE: Duration = Duration::from_secs(1);

/// An answer that fits into 63 bits.
pub(crate) trait Answer: Copy {
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

impl<T: Answer> CachedAnswer<T> {
    pub(crate) const fn new(uses_per_check: u32) -> CachedAnswer<T> {
        let (answer, at) = (AtomicU64::new(0), AtomicU64::new(0));
        CachedAnswer { answer, at, uses_per_check, uses: AtomicU32::new(0), kind: PhantomData }
    }

    /// Returns the answer if it is younger than a second or was checked within the last uses; otherwise
    /// queries it. The query gets the previous answer.
    #[inline]
    pub(crate) fn get_or_query(&self, query: impl FnOnce(Option<T>) -> T) -> T {
        // Concurrent uses may be counted once; the count need not be exact.
        let uses = self.uses.load(Ordering::Relaxed);
        match self.last() {
            Some(known) if uses < self.uses_per_check => {
                self.uses.store(uses + 1, Ordering::Relaxed);
                known
            }
            known => self.check(known, query),
        }
    }

    #[inline(never)]
    fn check(&self, known: Option<T>, query: impl FnOnce(Option<T>) -> T) -> T {
        let now = clock::coarse().as_millis() as u64;
        self.uses.store(1, Ordering::Relaxed);
        let age = now.saturating_sub(self.at.load(Ordering::Relaxed));
        match known {
            Some(known) if age < MAX_AGE.as_millis() as u64 => known,
            before => {
                let answer = query(before);
                self.at.store(now, Ordering::Relaxed);
                self.answer.store(answer.to_bits() << 1 | 1, Ordering::Relaxed);
                answer
            }
        }
    }

    /// Returns the last answer, however old.
    #[inline]
    pub(crate) fn last(&self) -> Option<T> {
        let bits = self.answer.load(Ordering::Relaxed);
        (bits != 0).then(|| T::from_bits(bits >> 1))
    }

    /// Drops the answer, so that the next use queries it.
    pub(crate) fn forget(&self) {
        self.answer.store(0, Ordering::Relaxed);
    }
}

impl Answer for bool {
    fn to_bits(self) -> u64 {
        self.into()
    }

    fn from_bits(bits: u64) -> bool {
        bits == 1
    }
}

impl Answer for Option<bool> {
    fn to_bits(self) -> u64 {
        self.map_or(2, u64::from)
    }

    fn from_bits(bits: u64) -> Option<bool> {
        (bits < 2).then_some(bits == 1)
    }
}

impl Answer for Option<SegmentationLimits> {
    /// Neither number is 0, and 31 bits hold the segments of any device.
    fn to_bits(self) -> u64 {
        let segments = |trains: SegmentationLimits| u64::from(trains.segments & (u32::MAX >> 1));
        self.map_or(0, |trains| segments(trains) << 32 | u64::from(trains.bytes))
    }

    fn from_bits(bits: u64) -> Option<SegmentationLimits> {
        (bits != 0)
            .then_some(SegmentationLimits { segments: (bits >> 32) as u32, bytes: bits as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_for_a_while_or_until_it_is_forgotten() {
        let cached = CachedAnswer::new(1);
        assert_eq!(cached.last(), None);
        assert!(cached.get_or_query(|_| true));
        assert!(cached.get_or_query(|_| false), "it is known");
        cached.forget();
        assert_eq!(cached.last(), None);
        assert!(!cached.get_or_query(|before| before.is_some()));
        assert_eq!(cached.last(), Some(false));
        cached.at.fetch_sub(MAX_AGE.as_millis() as u64, Ordering::Relaxed);
        assert!(cached.get_or_query(|before| before == Some(false)), "it is old");
    }

    #[test]
    fn the_age_is_checked_after_a_number_of_uses() {
        let cached = CachedAnswer::new(3);
        cached.get_or_query(|_| false);
        cached.at.fetch_sub(MAX_AGE.as_millis() as u64, Ordering::Relaxed);
        let answers = [(); 4].map(|()| cached.get_or_query(|_| true));
        assert_eq!(answers, [false, false, true, true]);
    }

    #[test]
    fn answers_survive_their_bits() {
        for answer in [None, Some(false), Some(true)] {
            assert_eq!(Option::<bool>::from_bits(answer.to_bits()), answer);
        }
        assert!(bool::from_bits(true.to_bits()) && !bool::from_bits(false.to_bits()));
        for trains in [
            None,
            Some(SegmentationLimits { segments: 65_535, bytes: 65_536 }),
            Some(SegmentationLimits { segments: 1, bytes: u32::MAX }),
        ] {
            assert_eq!(Option::<SegmentationLimits>::from_bits(trains.to_bits()), trains);
        }
    }
}
