//! `cargo xtask ranges`: whether several threads, each at a range of one large file, copy it quicker
//! than one.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, FallocateFlags, OFlags};
use testbed::Place;

use crate::workspace;

/// What a thread moves at once.
const PIECE_BYTES: u64 = 8 << 20;
/// And through its memory.
const BUFFER_BYTES: usize = 256 << 10;
/// What direct reads and writes begin at.
const ALIGNMENT: usize = 4096;

/// Arguments of `cargo xtask ranges`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to copy [default: target/ranges]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only this place: disk, ext4, xfs or btrfs (the last three in images, as root).
    #[arg(long, default_value = "")]
    only: String,
    /// Length of the file.
    #[arg(long, default_value_t = 2048)]
    mebibytes: u64,
    /// Each with one thread and with several, in turn.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many are several.
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

/// How a thread moves its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    CopyFileRange,
    ReadWrite,
    Direct,
}

/// One copy.
#[derive(Debug, Clone, Copy)]
struct Took {
    /// Until the last thread had moved its range.
    wall: Duration,
    /// Until the copy was flushed, too.
    flushed: Duration,
    /// Of all threads, in the first of these.
    processor: Duration,
}

/// Copies one file by one thread and by several, and prints how long it took.
///
/// # Errors
/// Something cannot be written or read.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let directory = match &arguments.dir {
        Some(directory) => std::path::absolute(directory)?,
        None => workspace::target_directory().join("ranges"),
    };
    fs::create_dir_all(&directory)?;
    workspace::sandboxed(&directory, "the ranges could not be measured", || measure(arguments))
}

fn measure(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.rounds > 0 && arguments.threads > 1, "there is nothing to compare");
    println!(
        "{} MiB, 1 and {} threads, {} rounds in turn; medians of the quotients, many to one",
        arguments.mebibytes, arguments.threads, arguments.rounds
    );
    println!(
        "{:<6} {:<16} {:<5} {:>9} {:>9} {:>7} {:>9} {:>10}",
        "place", "way", "cache", "1, ms", "many, ms", "wall", "flushed", "processor"
    );
    let places = [
        ("disk", Place::Disk),
        ("ext4", Place::Ext4),
        ("xfs", Place::Xfs),
        ("btrfs", Place::Btrfs),
    ];
    for (name, place) in places {
        let is_wanted = arguments.only.is_empty() || arguments.only == name;
        if is_wanted && (place == Place::Disk || rustix::process::geteuid().is_root()) {
            look(arguments, name, &place.scratch())?;
        }
    }
    Ok(())
}

fn look(arguments: &Arguments, place: &str, scratch: &testbed::Scratch) -> Result<()> {
    let source = scratch.join("source");
    let size = arguments.mebibytes << 20;
    let file = File::create(&source)?;
    for start in (0..size).step_by(PIECE_BYTES as usize) {
        file.write_all_at(&testbed::seeded(1, start, PIECE_BYTES.min(size - start)), start)?;
    }
    file.sync_all()?;
    for way in [Way::CopyFileRange, Way::ReadWrite, Way::Direct] {
        for is_warm in [true, false] {
            let mut rounds = Vec::new();
            for _ in 0..arguments.rounds {
                let copy = |threads| copy(&source, &scratch.join("copy"), way, is_warm, threads);
                rounds.push((copy(1)?, copy(arguments.threads)?));
            }
            tell(place, way, is_warm, &rounds);
        }
    }
    Ok(())
}

fn tell(place: &str, way: Way, is_warm: bool, rounds: &[(Took, Took)]) {
    let of = |value: &dyn Fn(&(Took, Took)) -> f64| median(rounds.iter().map(value).collect());
    let quotient = |value: fn(&Took) -> Duration| {
        of(&|(one, many)| value(many).as_secs_f64() / value(one).as_secs_f64())
    };
    println!(
        "{place:<6} {:<16} {:<5} {:>9.0} {:>9.0} {:>7.2} {:>9.2} {:>10.2}",
        format!("{way:?}"),
        if is_warm { "warm" } else { "cold" },
        of(&|(one, _)| one.wall.as_secs_f64() * 1e3),
        of(&|(_, many)| many.wall.as_secs_f64() * 1e3),
        quotient(|took| took.wall),
        quotient(|took| took.flushed),
        quotient(|took| took.processor),
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Copies to a new file, each thread a range, and removes the copy.
fn copy(source: &Path, to: &Path, way: Way, is_warm: bool, threads: u64) -> Result<Took> {
    let from = File::open(source)?;
    let size = from.metadata()?.len();
    if is_warm {
        let mut buffer = vec![0; PIECE_BYTES as usize];
        for start in (0..size).step_by(PIECE_BYTES as usize) {
            let _ = from.read_at(&mut buffer, start)?;
        }
    } else {
        rustix::fs::fadvise(&from, 0, None, Advice::DontNeed)?;
    }
    let flags = if way == Way::Direct { OFlags::DIRECT } else { OFlags::empty() };
    let flags = i32::try_from(flags.bits())?;
    let from = OpenOptions::new().read(true).custom_flags(flags).open(source)?;
    let copy = OpenOptions::new().write(true).create_new(true).custom_flags(flags).open(to)?;
    let begin = (Instant::now(), processor());
    // As `uncopy cp` does; XFS and btrfs have nothing of it.
    if rustix::fs::fstatfs(&copy)?.f_type == 0xEF53 {
        rustix::fs::fallocate(&copy, FallocateFlags::empty(), 0, size)?;
    } else {
        copy.set_len(size)?;
    }
    let range = size.div_ceil(threads).next_multiple_of(PIECE_BYTES);
    std::thread::scope(|scope| -> Result<()> {
        let ranges = (0..threads).map(|n| (n * range).min(size)..((n + 1) * range).min(size));
        let ranges: Vec<_> = ranges.collect();
        let (from, copy) = (&from, &copy);
        let workers: Vec<_> = ranges
            .into_iter()
            .map(|range| scope.spawn(move || move_range(from, copy, way, range)))
            .collect();
        for worker in workers {
            worker.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(())
    })?;
    let (wall, processor) = (begin.0.elapsed(), processor() - begin.1);
    copy.sync_data()?;
    let took = Took { wall, flushed: begin.0.elapsed(), processor };
    fs::remove_file(to)?;
    rustix::fs::syncfs(&from).context("cannot flush the filesystem")?;
    Ok(took)
}

fn move_range(from: &File, copy: &File, way: Way, range: std::ops::Range<u64>) -> Result<()> {
    let mut space = vec![0; BUFFER_BYTES + ALIGNMENT];
    let start = space.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut space[start..start + BUFFER_BYTES];
    let mut at = range.start;
    while at < range.end {
        let left = range.end - at;
        let moved = match way {
            Way::CopyFileRange => {
                let (mut read, mut written) = (at, at);
                let length = left.min(PIECE_BYTES) as usize;
                rustix::fs::copy_file_range(
                    from,
                    Some(&mut read),
                    copy,
                    Some(&mut written),
                    length,
                )?
            }
            Way::ReadWrite | Way::Direct => {
                let length =
                    from.read_at(&mut buffer[..left.min(BUFFER_BYTES as u64) as usize], at)?;
                copy.write_all_at(&buffer[..length], at)?;
                length
            }
        };
        ensure!(moved > 0, "the file ends early");
        at += moved as u64;
    }
    Ok(())
}

/// Of this process so far.
fn processor() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), u32::try_from(spent.tv_nsec).unwrap_or(0))
}
