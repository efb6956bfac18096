//! The cost of one message or send.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use super::metric::{CPU_EACH, SYSTEM_EACH, Sample, TIME_EACH, USER_EACH};

/// Runs `operation` for about `time` and says what one costs.
pub(super) fn sample(time: Duration, mut operation: impl FnMut() -> Result<()>) -> Result<Sample> {
    let count = calibrate(time, &mut operation)?;
    let cpu_before = cpu_nanoseconds();
    let each = nanoseconds_each(count, &mut operation)?;
    let cpu = (cpu_nanoseconds() - cpu_before) / f64::from(count);
    Ok(Sample::from([(TIME_EACH, each), (CPU_EACH, cpu)]))
}

/// The kernel tells user from system time by samples of its clock, 100 to 1000 in a second: in less
/// than this they say nothing.
const TOLD_APART: Duration = Duration::from_millis(200);

/// Runs `operation` again and again for about `time`, each time on what `prepare` makes outside the
/// measured time, and says what one costs; of runs that are long enough also how much of the
/// processor time program and kernel have.
pub(super) fn sample_prepared<T>(
    time: Duration,
    mut prepare: impl FnMut() -> Result<T>,
    mut operation: impl FnMut(T) -> Result<()>,
) -> Result<Sample> {
    let (mut wall, mut cpu, mut user, mut system, mut count) = (0.0, 0.0, 0.0, 0.0, 0u32);
    while wall < time.as_nanos() as f64 {
        let prepared = prepare()?;
        let before = getrusage(UsageWho::RUSAGE_SELF)?;
        let (begin, cpu_before) = (Instant::now(), cpu_nanoseconds());
        operation(prepared)?;
        cpu += cpu_nanoseconds() - cpu_before;
        let after = getrusage(UsageWho::RUSAGE_SELF)?;
        user += nanoseconds(after.user_time() - before.user_time());
        system += nanoseconds(after.system_time() - before.system_time());
        wall += begin.elapsed().as_nanos() as f64;
        count += 1;
    }
    let count = f64::from(count);
    let mut sample = Sample::from([(TIME_EACH, wall / count), (CPU_EACH, cpu / count)]);
    if time >= TOLD_APART {
        sample.extend([(USER_EACH, user / count), (SYSTEM_EACH, system / count)]);
    }
    Ok(sample)
}

fn nanoseconds(time: TimeVal) -> f64 {
    time.num_microseconds() as f64 * 1e3
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

/// Output of a program that measures itself.
#[derive(Deserialize)]
struct Printed {
    nanoseconds: f64,
    cpu_nanoseconds: f64,
}

/// Runs a program that measures itself.
pub(super) fn printed_by(command: &mut Command) -> Result<Sample> {
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", said.lines().next().unwrap_or("it said nothing"));
    let printed: Printed = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("{} did not print its figures", command.get_program().display())
    })?;
    Ok(Sample::from([(TIME_EACH, printed.nanoseconds), (CPU_EACH, printed.cpu_nanoseconds)]))
}

fn cpu_nanoseconds() -> f64 {
    processor_time().as_nanos() as f64
}

/// Returns the processor time of this process.
pub(super) fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
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
    fn what_is_prepared_is_used_once_and_not_measured() {
        let made = Cell::new(0);
        let prepare = || {
            made.set(made.get() + 1);
            std::thread::sleep(Duration::from_millis(20));
            Ok(made.get())
        };
        let mut used = Vec::new();
        let operation = |number| {
            used.push(number);
            std::thread::sleep(Duration::from_micros(500));
            Ok(())
        };
        let sample = sample_prepared(Duration::from_millis(1), prepare, operation).unwrap();
        assert_eq!(used, (1..=made.get()).collect::<Vec<_>>());
        assert!(sample[&TIME_EACH] >= 500e3);
        assert_eq!(sample.len(), 2, "samples of the clock say nothing of a millisecond");
    }

    #[test]
    fn user_and_system_time_of_long_runs_are_separate() {
        let busy = |()| {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(10) {
                std::hint::spin_loop();
            }
            Ok(())
        };
        let sample = sample_prepared(TOLD_APART, || Ok(()), busy).unwrap();
        // Other tests of this process add to both.
        assert!(sample[&USER_EACH] > 0.0 && sample.contains_key(&SYSTEM_EACH), "{sample:?}");
    }

    #[test]
    fn programs_print_their_figures_or_say_why_not() {
        let sh = |script: &str| printed_by(Command::new("sh").args(["-c", script]));
        let sample = sh(r#"echo '{"nanoseconds":2.5,"cpu_nanoseconds":1}'"#).unwrap();
        assert_eq!((sample[&TIME_EACH], sample[&CPU_EACH]), (2.5, 1.0));
        assert_eq!(sh("echo no >&2; exit 1").unwrap_err().to_string(), "no");
        let silent = sh("exit 0").unwrap_err().to_string();
        assert_eq!(silent, "sh did not print its figures");
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
