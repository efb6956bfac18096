//! A rate limit for one copy or for many copies together.

use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::control::Control;

/// Duration of a piece at the rate: a limited copy moves evenly, not in bursts.
const PIECE: Duration = Duration::from_millis(20);

/// Unused time that may be made up for: a sleep is never exact, and a device stops
/// now and then.
const CREDIT: Duration = Duration::from_millis(40);

/// Interval at which a waiting copy asks whether it is to stop.
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
    times: Mutex<Times>,
}

#[derive(Debug, Clone, Copy)]
struct Times {
    /// Time at which everything admitted so far will have been submitted.
    through: Instant,
    /// Time before which no credit is granted: the limit was created then, or a pause ended.
    since: Instant,
}

impl Throttle {
    /// Makes a limit in bytes per second; it is kept evenly from 256 kB/s on.
    #[must_use]
    pub fn new(bytes_per_second: NonZeroU64) -> Throttle {
        let now = Instant::now();
        Throttle { bytes_per_second, times: Mutex::new(Times { through: now, since: now }) }
    }

    /// Returns the size of a piece: 20 ms of the rate, and a page at least.
    #[must_use]
    pub fn piece_bytes(&self) -> u64 {
        let bytes = self.bytes_per_second.get() / (1000 / PIECE.as_millis() as u64);
        (bytes / PAGE_BYTES * PAGE_BYTES).max(PAGE_BYTES)
    }

    /// Waits until a piece of `wanted` bytes may be moved. Returns how many of them: at most
    /// [`Throttle::piece_bytes`].
    pub fn admit(&self, wanted: u64) -> u64 {
        wait_for_turn(Some(self), || Control::Continue, wanted).unwrap_or(wanted)
    }

    /// Returns admitted bytes that were not submitted: a step may move less than requested, or find
    /// a hole.
    pub fn give_back(&self, bytes: u64) {
        let mut times = self.lock();
        times.through = times.through.checked_sub(self.takes(bytes)).unwrap_or(times.through);
    }

    /// Records the end of a pause: bytes that could have been moved during it are not made up for.
    /// Turns from before lapse.
    pub(crate) fn restart(&self, at: Instant) {
        let mut times = self.lock();
        times.since = times.since.max(at);
    }

    /// Reserves a turn behind everything admitted so far.
    pub(crate) fn turn(&self, wanted: u64) -> Turn {
        let bytes = wanted.min(self.piece_bytes());
        let mut times = self.lock();
        let (start, end) = plan(*times, Instant::now(), self.takes(bytes));
        times.through = end;
        Turn { bytes, start }
    }

    /// Whether a turn that is due is still valid; one from before a pause is given back.
    fn keeps(&self, turn: Turn) -> bool {
        let kept = self.lock().since <= turn.start;
        if !kept {
            self.give_back(turn.bytes);
        }
        kept
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Returns whether the piece may be moved. If not, sleeps; the caller then asks whether to
    /// continue, because at a low rate pieces are seconds apart.
    fn has_come(&self) -> bool {
        let left = self.start.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::sleep(left.min(PATIENCE));
        }
        left.is_zero()
    }
}

/// Returns how many of `wanted` bytes may be moved now; waits as the rate requires, if there is one.
/// `None`: the copy is to stop. Calls `ask` after each sleep, which may itself wait for the end of a pause.
pub(crate) fn wait_for_turn(
    throttle: Option<&Throttle>,
    mut ask: impl FnMut() -> Control,
    wanted: u64,
) -> Option<u64> {
    let Some(throttle) = throttle else { return Some(wanted) };
    loop {
        let turn = throttle.turn(wanted);
        while !turn.has_come() {
            if ask() == Control::Stop {
                return None;
            }
        }
        if throttle.keeps(turn) {
            return Some(turn.bytes);
        }
    }
}

/// Returns when a piece of this duration may start and when it will be done: after everything
/// admitted before it, but with no more credit than the limit for idle time, and not before the end
/// of a pause.
fn plan(times: Times, now: Instant, takes: Duration) -> (Instant, Instant) {
    let earliest = now.checked_sub(CREDIT).unwrap_or(now);
    let start = times.through.max(earliest).max(times.since);
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
        // Columns: admitted until, credit since, now, duration; then start and end.
        for (through, since, now, takes, start, end) in [
            (0, 0, 0, 20, 0, 20),
            (20, 0, 5, 20, 20, 40),
            (20, 0, 30, 20, 20, 40),
            (20, 0, 500, 20, 460, 480),
            (500, 0, 0, 20, 500, 520),
            // After a pause not even the credit is left; and what was put off before it still is.
            (20, 490, 500, 20, 490, 510),
            (700, 490, 500, 20, 700, 720),
        ] {
            let times = Times { through: begin + ms(through), since: begin + ms(since) };
            let found = plan(times, begin + ms(now), ms(takes));
            assert_eq!(found, (begin + ms(start), begin + ms(end)), "{through} {since} {now}");
        }
    }

    /// Four workers that had a turn when a pause began continue one after the other.
    #[test]
    fn turns_from_before_a_pause_lapse() {
        let throttle = Throttle::new(NonZeroU64::new(50 * 4096).unwrap());
        let turns = [(); 4].map(|()| throttle.turn(4096));
        let over = turns[3].start + Duration::from_secs(5);
        throttle.restart(over);
        // A report of an earlier pause changes nothing.
        throttle.restart(over - Duration::from_secs(1));
        assert!(turns.iter().all(|turn| !throttle.keeps(*turn)));
        let starts = [(); 4].map(|()| throttle.turn(4096).start);
        let expected = [0, 1, 2, 3].map(|place| over + PIECE * place);
        assert_eq!(starts, expected);
        assert!(throttle.keeps(Turn { bytes: 4096, start: over }));
    }

    #[test]
    fn who_waits_for_a_turn_is_asked_and_gets_another_after_a_pause() {
        let throttle = Throttle::new(NonZeroU64::new(50 * 4096).unwrap());
        // The next turn is half a second away, and the first question finds a pause that is over after it.
        for _ in 0..25 {
            let _ = throttle.turn(4096);
        }
        let mut over = None;
        let ask = || {
            throttle.restart(*over.get_or_insert_with(|| Instant::now() + PIECE * 30));
            Control::Continue
        };
        let bytes = wait_for_turn(Some(&throttle), ask, 9000);
        assert_eq!(bytes, Some(4096));
        assert!(over.is_some_and(|over| Instant::now() >= over), "{over:?}");
        throttle.restart(Instant::now() + Duration::from_secs(3600));
        assert_eq!(wait_for_turn(Some(&throttle), || Control::Stop, 1), None);
    }

    #[test]
    fn what_was_not_moved_is_given_back() {
        let throttle = Throttle::new(NonZeroU64::new(50 * 4096).unwrap());
        let begin = throttle.lock().through;
        assert_eq!(throttle.turn(1 << 20).bytes, 4096);
        throttle.give_back(1024);
        let through = throttle.lock().through;
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
        // Compares planned times, not the clock: 40 pieces of 20 ms end after 800 ms less the
        // credit, whichever worker requested them.
        let throttle = Throttle::new(NonZeroU64::new(50 * 4096).unwrap());
        let begin = throttle.lock().through;
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10).for_each(|_| assert_eq!(throttle.admit(1 << 20), 4096)));
            }
        });
        let through = throttle.lock().through;
        assert!(through >= begin + PIECE * 40, "{:?}", through - begin);
    }
}
