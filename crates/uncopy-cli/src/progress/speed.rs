//! Rate of a copy and remaining time, computed from bytes and time at work only.

use std::fmt::Write as _;
use std::time::Duration;

use indicatif::{BinaryBytes, HumanDuration};

/// Returns the average rate in bytes per second.
fn rate(done_bytes: u64, at_work: Duration) -> u64 {
    let microseconds = at_work.as_micros().max(1);
    u64::try_from(u128::from(done_bytes) * 1_000_000 / microseconds).unwrap_or(u64::MAX)
}

/// Returns the remaining time at the average rate; `None` before anything was done.
fn left(done_bytes: u64, rest_bytes: u64, at_work: Duration) -> Option<Duration> {
    rest_bytes.checked_div(rate(done_bytes, at_work)).map(Duration::from_secs)
}

/// Formats rate and remaining time: `12.50 MiB/s  3s left`; the latter only if the rest is known.
pub(super) fn speed(done_bytes: u64, rest_bytes: Option<u64>, at_work: Duration) -> String {
    let mut text = format!("{}/s", BinaryBytes(rate(done_bytes, at_work)));
    if let Some(left) = rest_bytes.and_then(|rest| left(done_bytes, rest, at_work)) {
        let _ = write!(text, "  {:#} left", HumanDuration(left));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_rate_is_bytes_by_time_at_work() {
        for (done, at_work, expected) in [
            (3 << 20, SECOND, 3 << 20),
            (3 << 20, SECOND * 3, 1 << 20),
            (0, SECOND, 0),
            (0, Duration::ZERO, 0),
            (u64::MAX, Duration::ZERO, u64::MAX),
            (1, Duration::from_micros(1), 1_000_000),
        ] {
            assert_eq!(rate(done, at_work), expected, "{done} in {at_work:?}");
        }
    }

    #[test]
    fn the_rest_takes_as_long_as_the_rate_so_far_says() {
        for (done, rest, at_work, expected) in [
            (100, 400, SECOND, Some(4)),
            (100, 400, SECOND * 2, Some(8)),
            (500, 0, SECOND, Some(0)),
            (0, 500, SECOND, None),
            // Less than one byte per second.
            (1, 500, SECOND * 2, None),
        ] {
            let expected = expected.map(Duration::from_secs);
            assert_eq!(left(done, rest, at_work), expected, "{done} and {rest} in {at_work:?}");
        }
    }

    #[test]
    fn rate_and_remaining_time_are_shown() {
        for (rest, expected) in [
            (Some(2 << 20), "1.00 MiB/s  2s left"),
            (Some(0), "1.00 MiB/s  0s left"),
            (None, "1.00 MiB/s"),
        ] {
            assert_eq!(speed(1 << 20, rest, SECOND), expected);
        }
        assert_eq!(speed(0, Some(1), SECOND), "0 B/s");
    }
}
