//! Measures each setting.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use super::bench::{Bench, Spent};
use super::decide::{self, Round, may_begin};
use super::{Compared, MeasuredSetting};
use crate::jobs::JobOptions;
use crate::speed;
use crate::tree::usual_workers;
use crate::tuning::Tuning;
use crate::{Allow, CopyOptions, Origin, Prefer, Threshold};
use uncopy_core::Result;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Copies of a small file that are timed together.
const TOGETHER: u32 = 8;

const TOO_SLOW: &str = "it takes too long here";
const NO_DIRECT: &str = "direct writes are not taken here, or copied all the same";

/// Measures all settings.
pub(super) fn all(bench: &mut Bench<'_>) -> Result<Vec<MeasuredSetting>> {
    Ok(vec![
        zero_copy_min(bench)?,
        direct_min(bench)?,
        direct_cpu_min(bench)?,
        buffer_size(bench)?,
        jobs(bench)?,
    ])
}

/// Compares reading and writing small files with the way that is used from this size on, whichever the filesystem
/// has.
fn zero_copy_min(bench: &mut Bench<'_>) -> Result<MeasuredSetting> {
    let sizes = [8, 16, 32, 64, 128, 256, 512].map(|kib| kib * KIB);
    bench.begin("zero-copy-min", Duration::from_secs(9));
    let with = |bytes| with_tuning(|tuning| tuning.zero_copy_min = given(bytes));
    let (usual, other) = (with(Tuning::MAX_ZERO_COPY_MIN_BYTES), with(0));
    let rows = rows(
        bench,
        &sizes,
        |bench, bytes| {
            let source = bench.file(bytes)?;
            Ok([bench.copy(&source, &usual, TOGETHER)?, bench.copy(&source, &other, TOGETHER)?])
        },
        |spent| spent.wall,
    )?;
    Ok(crossover(bench, Tuning::BUILT_IN.zero_copy_min, &rows))
}

/// Compares buffered with direct copies, both flushed.
fn direct_min(bench: &mut Bench<'_>) -> Result<MeasuredSetting> {
    let sizes = [256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB];
    direct(bench, "direct-min", Tuning::BUILT_IN.direct_min, &sizes, true)
}

/// Compares them by processor time, not flushed.
fn direct_cpu_min(bench: &mut Bench<'_>) -> Result<MeasuredSetting> {
    let sizes = [MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 32 * MIB];
    direct(bench, "direct-cpu-min", Tuning::BUILT_IN.direct_cpu_min, &sizes, false)
}

fn direct(
    bench: &mut Bench<'_>,
    setting: &'static str,
    built_in: Threshold,
    sizes: &[u64],
    durable: bool,
) -> Result<MeasuredSetting> {
    bench.begin(setting, Duration::from_secs(12));
    if !bench.takes_direct {
        return Ok(untouched(setting, built_in.bytes, NO_DIRECT));
    }
    let prefer = if durable { Prefer::WallTime } else { Prefer::CpuTime };
    let with = |bytes| {
        let options = with_tuning(|tuning| {
            (tuning.direct_min, tuning.direct_cpu_min) = (given(bytes), given(bytes));
        });
        CopyOptions { durable, prefer, ..options }
    };
    // Never, and always.
    let (usual, other) = (with(u64::MAX), with(0));
    let time = |spent: Spent| if durable { spent.wall } else { spent.cpu };
    let rows = rows(
        bench,
        sizes,
        |bench, bytes| {
            let source = bench.file(bytes)?;
            Ok([bench.copy(&source, &usual, 1)?, bench.copy(&source, &other, 1)?])
        },
        time,
    )?;
    Ok(crossover(bench, built_in, &rows))
}

/// Compares the built-in buffer size with others.
fn buffer_size(bench: &mut Bench<'_>) -> Result<MeasuredSetting> {
    let built_in = Tuning::BUILT_IN.buffer;
    let with = |bytes| {
        let options = with_tuning(|tuning| tuning.buffer = given(bytes));
        CopyOptions { allow: Allow::ReadWrite, ..options }
    };
    bench.begin("buffer-size", Duration::from_secs(9));
    let source = bench.file(16 * MIB)?;
    let candidates = [64, 128, 512, 1024].map(|kib| kib * KIB);
    let rows = rows(
        bench,
        &candidates,
        |bench, bytes| {
            Ok([
                bench.copy(&source, &with(built_in.bytes), 1)?,
                bench.copy(&source, &with(bytes), 1)?,
            ])
        },
        |spent| spent.wall,
    )?;
    let value = decide::best(built_in.bytes, &rows);
    Ok(measured("buffer-size", built_in.bytes, value, &rows))
}

/// Compares the usual number of workers with others, on a tree of small files.
fn jobs(bench: &mut Bench<'_>) -> Result<MeasuredSetting> {
    let built_in = usual_workers();
    bench.begin("jobs", Duration::from_secs(12));
    let source = bench.tree(20, 20, 4 * KIB)?;
    let with = |jobs: u64| {
        let jobs = usize::try_from(jobs).ok().and_then(NonZeroUsize::new);
        JobOptions { jobs, ..JobOptions::default() }
    };
    let built_in = built_in as u64;
    let candidates: Vec<u64> = [1, 2, 4, 8].into_iter().filter(|jobs| *jobs != built_in).collect();
    let rows = rows(
        bench,
        &candidates,
        |bench, jobs| {
            let spent = |wall| Spent { wall, cpu: Duration::ZERO };
            let usual = bench.copy_tree(&source, &with(built_in))?.map(spent);
            Ok([usual, bench.copy_tree(&source, &with(jobs))?.map(spent)])
        },
        |spent| spent.wall,
    )?;
    let value = decide::best(built_in, &rows);
    Ok(measured("jobs", built_in, value, &rows))
}

/// Value with its rounds.
type Row = (u64, Vec<Round>);

/// Measures each value once per round while time is left, so that a disturbance affects neighbours
/// alike. Values that take too long are dropped.
fn rows(
    bench: &mut Bench<'_>,
    values: &[u64],
    mut measure: impl FnMut(&mut Bench<'_>, u64) -> Result<[Option<Spent>; 2]>,
    time: impl Fn(Spent) -> Duration,
) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = values.iter().map(|value| (*value, Vec::new())).collect();
    let mut took = vec![Duration::ZERO; values.len()];
    // The first copy pays for one-time setup.
    if let Some(first) = values.first().filter(|_| may_begin(Duration::ZERO, bench.time_left())) {
        measure(bench, *first)?;
    }
    for _ in 0..decide::ROUNDS {
        for (place, (value, rounds)) in rows.iter_mut().enumerate() {
            if !may_begin(took[place], bench.time_left()) {
                continue;
            }
            let begin = Instant::now();
            let [Some(usual), Some(other)] = measure(bench, *value)? else { return Ok(rows) };
            rounds.push(Round { usual: time(usual), other: time(other) });
            took[place] = begin.elapsed();
        }
    }
    Ok(rows)
}

fn crossover(bench: &Bench<'_>, built_in: Threshold, rows: &[Row]) -> MeasuredSetting {
    let value = decide::crossover(built_in.bytes, rows);
    measured(bench.setting, built_in.bytes, value, rows)
}

fn measured(setting: &'static str, built_in: u64, value: u64, rows: &[Row]) -> MeasuredSetting {
    let missing = rows.iter().any(|(_, rounds)| rounds.len() < speed::MIN_MEASUREMENTS);
    let compared = rows.iter().filter_map(|(at, rounds)| {
        Some(Compared {
            at: *at,
            usual: median(rounds.iter().map(|round| round.usual))?,
            other: median(rounds.iter().map(|round| round.other))?,
            ratio: decide::ratio(rounds)?,
            rounds: rounds.len(),
        })
    });
    MeasuredSetting {
        setting,
        built_in,
        value,
        compared: compared.collect(),
        missing: missing.then(|| TOO_SLOW.to_owned()),
    }
}

fn untouched(setting: &'static str, built_in: u64, why: &str) -> MeasuredSetting {
    let missing = Some(why.to_owned());
    MeasuredSetting { setting, built_in, value: built_in, compared: Vec::new(), missing }
}

fn median(times: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    times.get(times.len() / 2).copied()
}

/// Options of copies with blocks of their own, which choose their mechanism by these sizes.
fn with_tuning(change: impl FnOnce(&mut Tuning)) -> CopyOptions {
    let mut tuning = Tuning::BUILT_IN;
    change(&mut tuning);
    CopyOptions { tuning, allow: Allow::Unshared, ..CopyOptions::default() }
}

fn given(bytes: u64) -> Threshold {
    Threshold { bytes, origin: Origin::Given }
}
