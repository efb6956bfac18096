//! Decides how long a job waits before it tries a file again (pure).

use std::time::Duration;

/// Wait before the first retry; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Maximum wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Interval at which a waiting worker checks whether the job is over. Every wait is a multiple of
/// it.
pub(crate) const GLANCE: Duration = Duration::from_millis(50);

/// Returns the wait before the next retry.
pub(crate) fn delay(time: u32) -> Duration {
    let doublings = time.saturating_sub(1).min(16);
    (FIRST_WAIT * 2_u32.pow(doublings)).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_longer_up_to_a_limit() {
        let waits = [1, 2, 3, 9, 10, 100, u32::MAX].map(|time| delay(time).as_millis());
        assert_eq!(waits, [100, 200, 400, 25_600, 30_000, 30_000, 30_000]);
        assert!(waits.iter().all(|wait| wait.is_multiple_of(GLANCE.as_millis())));
    }
}
