//! A rate that copies keep to, one or many together.

use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// So long a piece may take at the rate: a copy that is limited moves evenly, not in bursts.
const PIECE: Duration = Duration::from_millis(20);

/// What was not used for so long may be made up for: a sleep is never exact, and a device stops
/// now and then.
const CREDIT: Duration = Duration::from_millis(40);

/// Pieces are whole pages, as direct writes want them.
const PAGE_BYTES: u64 = 4096;

/// Bytes that are submitted in a second, over all copies that share it. Shared extents and holes
/// are not counted: nothing is submitted for them.
///
/// ```
/// use std::num::NonZeroU64;
/// use uncopy::copy::Throttle;
/// let throttle = Throttle::new(NonZeroU64::new(50_000_000).unwrap());
/// assert!(throttle.piece_bytes() <= 1_000_000);
/// ```
#[derive(Debug)]
pub struct Throttle {
    bytes_per_second: NonZeroU64,
    /// When all that was admitted is through.
    through: Mutex<Instant>,
}

impl Throttle {
    /// A rate in bytes a second; from 256 kB/s on it is kept evenly.
    #[must_use]
    pub fn new(bytes_per_second: NonZeroU64) -> Throttle {
        Throttle { bytes_per_second, through: Mutex::new(Instant::now()) }
    }

    /// How much is moved at a time: 20 ms of the rate, and a page at least.
    #[must_use]
    pub fn piece_bytes(&self) -> u64 {
        let bytes = self.bytes_per_second.get() / (1000 / PIECE.as_millis() as u64);
        (bytes / PAGE_BYTES * PAGE_BYTES).max(PAGE_BYTES)
    }

    /// Waits until a piece of `wanted` bytes may be moved. Returns how many of them: at most
    /// [`Throttle::piece_bytes`].
    pub fn admit(&self, wanted: u64) -> u64 {
        let bytes = wanted.min(self.piece_bytes());
        let start = {
            let mut through = self.through.lock().unwrap_or_else(PoisonError::into_inner);
            let (start, end) = plan(*through, Instant::now(), self.takes(bytes));
            *through = end;
            start
        };
        thread::sleep(start.saturating_duration_since(Instant::now()));
        bytes
    }

    fn takes(&self, bytes: u64) -> Duration {
        let nanoseconds =
            u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.get());
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

/// When a piece that takes so long may start, and when it is through: after all that was admitted
/// before it, but not as if nothing had been asked for longer than the credit.
fn plan(through: Instant, now: Instant, takes: Duration) -> (Instant, Instant) {
    let earliest = now.checked_sub(CREDIT).unwrap_or(now);
    let start = through.max(earliest);
    (start, start + takes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_pages_of_at_most_20_ms() {
        for (rate, expected) in [
            (1, 4096),
            (256_000, 4096),
            (1_000_000, 16_384),
            (50_000_000, 999_424),
            (1 << 30, 21_471_232),
        ] {
            let throttle = Throttle::new(NonZeroU64::new(rate).unwrap());
            assert_eq!(throttle.piece_bytes(), expected, "{rate}");
        }
    }

    #[test]
    fn pieces_follow_each_other_at_the_rate() {
        let ms = Duration::from_millis;
        let begin = Instant::now() + ms(1000);
        // Through until, now, takes: starts, is through.
        for (through, now, takes, start, end) in [
            (0, 0, 20, 0, 20),
            (20, 5, 20, 20, 40),
            (20, 30, 20, 20, 40),
            (20, 500, 20, 460, 480),
            (500, 0, 20, 500, 520),
        ] {
            let found = plan(begin + ms(through), begin + ms(now), ms(takes));
            assert_eq!(found, (begin + ms(start), begin + ms(end)), "{through} {now}");
        }
    }

    #[test]
    fn many_threads_share_the_rate() {
        // By the sum of what is planned, not by the clock: 40 pieces of 20 ms are through after
        // 800 ms less the credit, whoever asked for them.
        let throttle = Throttle::new(NonZeroU64::new(50 * 4096).unwrap());
        let begin = *throttle.through.lock().unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10).for_each(|_| assert_eq!(throttle.admit(1 << 20), 4096)));
            }
        });
        let through = *throttle.through.lock().unwrap();
        assert!(through >= begin + PIECE * 40, "{:?}", through - begin);
    }
}
