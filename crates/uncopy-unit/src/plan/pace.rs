//! Decides when a checkpoint is made.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Distance between checkpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckpointPace {
    /// Ten seconds, and a hundred times as long as the last one took: so they take less than 1 % of the time.
    #[default]
    Usual,
    /// Number of names that are listed in between.
    Names(u64),
}

/// Minimum time between two checkpoints; a plan that takes less makes none.
const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// Ratio of the time between two checkpoints to that of one.
const RATIO: u32 = 100;

/// Number of names after which a listing looks whether a rest is due: a small directory is listed as a whole.
const STEP: u64 = 1024;

/// Returns the time until the next checkpoint.
fn interval(cost: Duration) -> Duration {
    cost.saturating_mul(RATIO).max(MIN_INTERVAL)
}

/// Clock and counter of checkpoints, for all threads.
#[derive(Debug)]
pub(super) struct Pacer {
    pace: CheckpointPace,
    begun: Instant,
    names: AtomicU64,
    /// Milliseconds or names.
    due: AtomicU64,
    /// Time at which the threads were asked for a rest.
    asked: Mutex<Option<Instant>>,
}

impl Pacer {
    pub(super) fn new(pace: CheckpointPace) -> Pacer {
        let due = match pace {
            CheckpointPace::Usual => milliseconds(MIN_INTERVAL),
            CheckpointPace::Names(names) => names,
        };
        Pacer {
            pace,
            begun: Instant::now(),
            names: AtomicU64::new(0),
            due: AtomicU64::new(due),
            asked: Mutex::default(),
        }
    }

    /// Returns the number of names after which [`passed`](Pacer::passed) is to be called.
    pub(super) fn step(&self) -> u64 {
        match self.pace {
            CheckpointPace::Usual => STEP,
            CheckpointPace::Names(names) => names.clamp(1, STEP),
        }
    }

    /// Counts names, and says whether a checkpoint is due.
    pub(super) fn passed(&self, names: u64) -> bool {
        let now = match self.pace {
            CheckpointPace::Usual => milliseconds(self.begun.elapsed()),
            CheckpointPace::Names(_) => self.names.fetch_add(names, Ordering::Relaxed) + names,
        };
        let is_due = now >= self.due.load(Ordering::Relaxed);
        if is_due {
            self.lock().get_or_insert_with(Instant::now);
        }
        is_due
    }

    /// Notes that a checkpoint was made.
    pub(super) fn made(&self) {
        let cost = self.lock().take().map_or(Duration::ZERO, |asked| asked.elapsed());
        let due = match self.pace {
            CheckpointPace::Usual => milliseconds(self.begun.elapsed() + interval(cost)),
            CheckpointPace::Names(names) => self.names.load(Ordering::Relaxed) + names,
        };
        self.due.store(due, Ordering::Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_take_less_than_a_hundredth_of_the_time() {
        for (cost, expected) in [(0, 10_000), (100, 10_000), (101, 10_100), (60_000, 6_000_000)] {
            let found = interval(Duration::from_millis(cost));
            assert_eq!(found, Duration::from_millis(expected), "{cost}");
        }
    }

    #[test]
    fn names_are_counted_from_one_checkpoint_to_the_next() {
        let pacer = Pacer::new(CheckpointPace::Names(10));
        let mut due = Vec::new();
        for number in 0..9 {
            if pacer.passed(4) {
                due.push(number);
                pacer.made();
            }
        }
        assert_eq!((due, pacer.step()), (vec![2, 5, 8], 10));
        assert!(!Pacer::new(CheckpointPace::Usual).passed(1 << 40));
    }
}
