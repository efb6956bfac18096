//! Rate of a copy and remaining time, computed from bytes and time at work only.

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

/// Texts about the rate of a copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Speed {
    /// `12.50 MiB/s`.
    pub(super) rate: String,
    /// `3s left`; only if the rest is known.
    pub(super) left: Option<String>,
}

/// Formats rate and remaining time.
pub(super) fn speed(done_bytes: u64, rest_bytes: Option<u64>, at_work: Duration) -> Speed {
    let left = rest_bytes.and_then(|rest| left(done_bytes, rest, at_work));
    Speed {
        rate: format!("{}/s", BinaryBytes(rate(done_bytes, at_work))),
        left: left.map(|left| format!("{:#} left", HumanDuration(left))),
    }
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
        for (rest, expected) in
            [(Some(2 << 20), Some("2s left")), (Some(0), Some("0s left")), (None, None)]
        {
            let (rate, left) = (String::from("1.00 MiB/s"), expected.map(String::from));
            assert_eq!(speed(1 << 20, rest, SECOND), Speed { rate, left });
        }
        assert_eq!(speed(0, Some(1), SECOND), Speed { rate: "0 B/s".into(), left: None });
    }
}
