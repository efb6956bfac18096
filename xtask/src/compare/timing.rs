//! What one message costs.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

use super::metric::{CPU_EACH, Sample, TIME_EACH};

/// Runs `operation` for about `time` and says what one costs.
pub(super) fn sample(time: Duration, mut operation: impl FnMut() -> Result<()>) -> Result<Sample> {
    let count = calibrate(time, &mut operation)?;
    let cpu_before = cpu_nanoseconds();
    let each = nanoseconds_each(count, &mut operation)?;
    let cpu = (cpu_nanoseconds() - cpu_before) / f64::from(count);
    Ok(Sample::from([(TIME_EACH, each), (CPU_EACH, cpu)]))
}

/// How many operations take about `time`; warms up on the way.
pub(super) fn calibrate(time: Duration, operation: &mut impl FnMut() -> Result<()>) -> Result<u32> {
    let wanted = time.as_nanos() as f64;
    let mut count = 8;
    loop {
        let each = nanoseconds_each(count, operation)?;
        if each * f64::from(count) * 8.0 > wanted {
            return Ok((wanted / each) as u32 + 1);
        }
        count *= 2;
    }
}

/// The mean of `count` operations.
#[inline]
pub(super) fn nanoseconds_each(
    count: u32,
    operation: &mut impl FnMut() -> Result<()>,
) -> Result<f64> {
    let begin = Instant::now();
    for _ in 0..count {
        operation()?;
    }
    Ok(begin.elapsed().as_nanos() as f64 / f64::from(count))
}

/// The same for messages that are half a round trip, or many at once.
pub(super) fn divided(sample: Sample, by: f64) -> Sample {
    sample.into_iter().map(|(metric, value)| (metric, value / by)).collect()
}

fn cpu_nanoseconds() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_failing_operation_ends_the_run() {
        let failing = || anyhow::bail!("no");
        assert!(sample(Duration::from_millis(1), failing).is_err());
    }

    #[test]
    fn costs_are_those_of_one_operation() {
        let count = Cell::new(0u32);
        let operation = || {
            count.set(count.get() + 1);
            std::thread::sleep(Duration::from_micros(100));
            Ok(())
        };
        let sample = sample(Duration::from_millis(5), operation).unwrap();
        assert!(sample[&TIME_EACH] >= 100_000.0, "it sleeps at least that long");
        assert!(count.get() >= 8);
        assert_eq!(divided(sample.clone(), 2.0)[&TIME_EACH], sample[&TIME_EACH] / 2.0);
    }
}
