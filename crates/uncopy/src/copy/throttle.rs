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

/// So long a copy waits before it asks whether it is to stop.
const PATIENCE: Duration = Duration::from_millis(50);

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
        let turn = self.turn(wanted);
        while !turn.has_come() {}
        turn.bytes
    }

    /// Takes back what was admitted and not submitted after all: a step may move less than it was
    /// asked for, or find a hole.
    pub fn give_back(&self, bytes: u64) {
        let mut through = self.through.lock().unwrap_or_else(PoisonError::into_inner);
        *through = through.checked_sub(self.takes(bytes)).unwrap_or(*through);
    }

    /// A place behind all that was admitted so far.
    pub(crate) fn turn(&self, wanted: u64) -> Turn {
        let bytes = wanted.min(self.piece_bytes());
        let mut through = self.through.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, end) = plan(*through, Instant::now(), self.takes(bytes));
        *through = end;
        Turn { bytes, start }
    }

    fn takes(&self, bytes: u64) -> Duration {
        let nanoseconds =
            u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.get());
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

/// A piece that is admitted, and when it may be moved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) bytes: u64,
    start: Instant,
}

impl Turn {
    /// Sleeps until the piece may be moved; `false`: it may not yet, and it is time to ask whether
    /// the copy is to go on. At a low rate pieces are seconds apart.
    pub(crate) fn has_come(&self) -> bool {
        thread::sleep(self.start.saturating_duration_since(Instant::now()).min(PATIENCE));
        self.start <= Instant::now()
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
    fn what_was_not_moved_is_given_back() {
        let throttle = Throttle::new(NonZeroU64::new(50 * 4096).unwrap());
        let begin = *throttle.through.lock().unwrap();
        assert_eq!(throttle.turn(1 << 20).bytes, 4096);
        throttle.give_back(1024);
        let through = *throttle.through.lock().unwrap();
        let took = through.saturating_duration_since(begin);
        // The turn may have begun somewhat after `begin`, and not before it.
        assert!(took >= PIECE * 3 / 4 && through < Instant::now() + PIECE * 3 / 4, "{took:?}");
    }

    #[test]
    fn a_turn_far_away_lets_its_copy_be_asked_meanwhile() {
        let throttle = Throttle::new(NonZeroU64::MIN);
        assert!(throttle.turn(1).has_come());
        throttle.turn(4096);
        assert!(!throttle.turn(4096).has_come(), "it comes after more than an hour");
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
