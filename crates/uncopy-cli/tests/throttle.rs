//! `--max-bandwidth` is kept over any two seconds, as the kernel counts the program's bytes.
//!
//! A short run copies one scene at one rate, `UNCOPY_TEST_FULL=1` three, and `UNCOPY_TEST_FULL=soak`
//! every scene at every rate that suits it, on each filesystem; each prints a row of JSON, as recorded in
//! `docs/evidence/throttle.jsonl`. A program of its own: other tests would take the processor from it.
#![cfg(target_os = "linux")]

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use testbed::{Case, Content, Place, by_extent, cases, wait_for};
use uncopy::copy::Throttle;

/// Largest deviation of a window from the rate.
const TOLERANCE: f64 = 0.03;
/// A window that is off may have met a device or a processor that was busy.
const ATTEMPTS: usize = 3;
/// Bytes a second.
const RATES: [u64; 5] = [256_000, 2_000_000, 10_000_000, 50_000_000, 200_000_000];
/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(20);
/// A window whose samples are further apart than this says nothing: the machine did not run us.
const FROZEN: Duration = Duration::from_millis(60);
const WINDOW: Duration = Duration::from_secs(2);
/// Exit code of the program: no mechanism was allowed that works here.
const NO_MECHANISM: i32 = 5;
/// Making more files than this takes longer than copying them.
const MAX_FILES: u64 = 30_000;

/// Returns how long a copy lasts at its rate: two windows and a half, or one and a half.
fn seconds() -> u64 {
    by_extent([3, 5, 5])
}

fn main() -> ExitCode {
    testbed::run(env!("CARGO_TARGET_TMPDIR"), || -> Vec<Case> {
        cases![
            [] every_window_counts,
            [] a_machine_that_stood_still_says_nothing,
            [] waiting_before_the_first_byte_and_after_the_last_is_no_window,
            [] counters_are_read_by_name,
            [] the_kernel_counts_for_another_process,
            [] rates_are_kept,
        ]
    })
}

/// Files, and how they are copied.
struct Scene {
    name: &'static str,
    /// `None`: one file.
    file_bytes: Option<u64>,
    workers: usize,
    method: &'static str,
    counter: &'static str,
}

/// `wchar` of `/proc/PID/io` counts what `write(2)` and `sendfile(2)` were given, to the byte
/// (`fs/read_write.c`, `add_wchar`), but no splices and no direct writes of a ring. `write_bytes` counts
/// pages that became dirty, and direct writes (`mm/page-writeback.c`, `folio_account_dirtied`): a large
/// folio counts whole, and so does metadata in such pages, so that it is fit for one large file.
/// Lengths and blocks of the copies leap where blocks are reserved beforehand.
#[rustfmt::skip]
const SCENES: [Scene; 7] = [
    Scene { name: "one file, read_write", file_bytes: None, workers: 1, method: "read-write", counter: "wchar" },
    Scene { name: "one file, splice", file_bytes: None, workers: 1, method: "splice", counter: "write_bytes" },
    Scene { name: "one file, sendfile", file_bytes: None, workers: 1, method: "sendfile", counter: "wchar" },
    Scene { name: "one file, direct", file_bytes: None, workers: 1, method: "direct", counter: "write_bytes" },
    Scene { name: "files of 4 KiB, 2 workers", file_bytes: Some(4 << 10), workers: 2, method: "read-write", counter: "wchar" },
    Scene { name: "files of 100 KiB, 8 workers", file_bytes: Some(100 << 10), workers: 8, method: "sendfile", counter: "wchar" },
    Scene { name: "files of 4 MiB, 4 workers", file_bytes: Some(4 << 20), workers: 4, method: "sendfile", counter: "wchar" },
];

/// Pieces below and above what the mechanism moves in a call, one file and many.
const FULL: [(&str, u64); 3] = [
    ("files of 4 KiB, 2 workers", 2_000_000),
    ("one file, read_write", 256_000),
    ("one file, splice", 50_000_000),
];

fn rates_are_kept() {
    let count = by_extent([1, FULL.len(), usize::MAX]);
    let mut places = vec![Place::Disk];
    if count == usize::MAX && Place::Xfs.needs().iter().all(|need| need.unmet().is_none()) {
        places.extend([Place::Xfs, Place::Btrfs]);
    }
    let mut off = Vec::new();
    for place in places {
        for scene in &SCENES {
            for rate in RATES {
                let named = FULL.iter().take(count).any(|one| *one == (scene.name, rate));
                if (named || count == usize::MAX && scene.suits(rate)) && !keeps(place, scene, rate)
                {
                    off.push(format!("{place:?}: {} at {rate} B/s", scene.name));
                }
            }
        }
    }
    assert!(off.is_empty(), "not kept within {:.0} %: {off:?}", TOLERANCE * 100.0);
}

/// Whether a scene keeps to its rate in one of a few attempts. Prints a row.
fn keeps(place: Place, scene: &Scene, rate: u64) -> bool {
    let directory = place.scratch();
    for attempt in 1..=ATTEMPTS {
        let Some(samples) = scene.copy(directory.path(), rate, true) else {
            println!("{place:?}: {}: skipped: it does not work here", scene.name);
            return true;
        };
        let spread = spread(&samples, rate);
        let is_kept =
            spread.is_some_and(|s| s.least >= 1.0 - TOLERANCE && s.most <= 1.0 + TOLERANCE);
        // The rate is promised where the device manages twice as much.
        let is_too_slow = !is_kept && spread.is_some() && {
            let alone = scene.copy(directory.path(), rate, false).expect("it was copied before");
            let took = alone.last().map_or(INTERVAL, |last| last.at).max(INTERVAL);
            seconds() as f64 / took.as_secs_f64() < 2.0
        };
        let outcome = match () {
            () if is_kept => "kept",
            () if is_too_slow => "too_slow",
            () if spread.is_none() => "too_short",
            () => "off",
        };
        if !matches!(outcome, "off" | "too_short") || attempt == ATTEMPTS {
            let percent = |share: f64| (share * 10_000.0).round() / 100.0;
            let piece_bytes = NonZeroU64::new(rate).map(|rate| Throttle::new(rate).piece_bytes());
            println!(
                "{}",
                json!({
                    "what": "throttle", "place": format!("{place:?}").to_lowercase(),
                    "scene": scene.name, "bytes_per_second": rate, "piece_bytes": piece_bytes,
                    "witness": scene.counter, "outcome": outcome, "attempts": attempt,
                    "windows": spread.map_or(0, |spread| spread.windows),
                    "least_percent": spread.map(|spread| percent(spread.least)),
                    "most_percent": spread.map(|spread| percent(spread.most)),
                })
            );
            return is_kept || is_too_slow;
        }
    }
    false
}

impl Scene {
    /// Whether there are enough files to keep the rate, and not too many.
    fn suits(&self, rate: u64) -> bool {
        self.file_bytes.is_none_or(|each| (8..=MAX_FILES).contains(&(rate * seconds() / each)))
    }

    /// Copies what takes [`seconds`] at this rate, and samples how far it is. `None`: this filesystem does not
    /// have the mechanism.
    fn copy(&self, directory: &Path, rate: u64, is_limited: bool) -> Option<Vec<Sample>> {
        let (source, destination) = (directory.join("source"), directory.join("copy"));
        let bytes = self.write(&source, rate * seconds());
        let mut command = Command::new(env!("CARGO_BIN_EXE_uncopy"));
        command.args(["cp", "-rT", "--on-error=abort", "--method", self.method]);
        command.arg(format!("--jobs={}", self.workers));
        command.args(is_limited.then(|| format!("--max-bandwidth={rate}")));
        command.args([&source, &destination]).env("UNCOPY_CONFIG", "/dev/null");
        let (begin, mut samples) = (Instant::now(), Vec::new());
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let status = loop {
            let written = count(&child, self.counter);
            // Nothing is counted any more of a program that has ended, and only root may ask.
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            samples.push(Sample { at: begin.elapsed(), bytes: written.unwrap() });
            std::thread::sleep(INTERVAL);
        };
        let is_copied = status.success();
        assert!(is_copied || status.code() == Some(NO_MECHANISM), "{command:?}: {status}");
        assert!(!is_copied || bytes_in(&destination) == bytes, "not all was copied");
        fs::remove_dir_all(&source).unwrap();
        if destination.exists() {
            fs::remove_dir_all(&destination).unwrap();
        }
        is_copied.then_some(samples)
    }

    /// Makes the files; returns how many bytes they have together.
    fn write(&self, source: &Path, bytes: u64) -> u64 {
        let each = self.file_bytes.unwrap_or(bytes);
        let files = (bytes / each).max(1);
        for number in 0..files {
            let directory = source.join(format!("{:03}", number / 256));
            fs::create_dir_all(&directory).unwrap();
            drop(Content::dense(each).write(&directory.join(number.to_string())));
        }
        files * each
    }
}

/// The lengths of all files below.
fn bytes_in(directory: &Path) -> u64 {
    let mut waiting: Vec<PathBuf> = vec![directory.to_owned()];
    let mut bytes = 0;
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            match entry.metadata().unwrap() {
                found if found.is_dir() => waiting.push(entry.path()),
                found => bytes += found.len(),
            }
        }
    }
    bytes
}

/// A counter of `/proc/PID/io` (`proc_pid_io(5)`).
fn count(child: &Child, counter: &str) -> std::io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{}/io", child.id()))?;
    Ok(counted(&text, counter).unwrap_or_else(|| panic!("no {counter} in {text}")))
}

fn counted(text: &str, counter: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(counter)?.strip_prefix(": ")?.parse().ok();
    text.lines().find_map(value)
}

/// Bytes written so far at a time since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    at: Duration,
    bytes: u64,
}

/// Shares of the rate, over all windows.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    windows: usize,
    least: f64,
    most: f64,
}

/// The slowest and the fastest window from the first byte to the last; `None`: the copy was shorter
/// than a window. A window begins at a sample and ends at the first one two seconds later or more.
fn spread(samples: &[Sample], bytes_per_second: u64) -> Option<Spread> {
    let last = samples.last()?.bytes;
    let first = samples.iter().position(|sample| sample.bytes > 0)?;
    let end = samples.iter().position(|sample| sample.bytes == last)?;
    let samples = samples.get(first..end)?;
    let shares = samples.iter().enumerate().filter_map(|(place, from)| {
        let length = samples[place..].iter().position(|to| to.at - from.at >= WINDOW)?;
        let window = &samples[place..=place + length];
        if window.windows(2).any(|pair| pair[1].at - pair[0].at > FROZEN) {
            return None;
        }
        let to = window.last()?;
        let seconds = (to.at - from.at).as_secs_f64();
        Some((to.bytes - from.bytes) as f64 / seconds / bytes_per_second as f64)
    });
    shares.fold(None, |spread: Option<Spread>, share| {
        let Spread { windows, least, most } =
            spread.unwrap_or(Spread { windows: 0, least: share, most: share });
        Some(Spread { windows: windows + 1, least: least.min(share), most: most.max(share) })
    })
}

/// A sample every 20 ms; `rate` says bytes a millisecond at a time in milliseconds.
fn samples(milliseconds: u64, rate: impl Fn(u64) -> u64) -> Vec<Sample> {
    let mut bytes = 0;
    let each = (0..milliseconds).map(|at| {
        bytes += rate(at);
        Sample { at: Duration::from_millis(at), bytes }
    });
    each.step_by(20).collect()
}

fn percent(spread: Option<Spread>) -> Option<(i64, i64)> {
    spread.map(|s| ((s.least * 100.0).round() as i64, (s.most * 100.0).round() as i64))
}

fn every_window_counts() {
    type Row = (&'static str, u64, fn(u64) -> u64, Option<(i64, i64)>);
    #[rustfmt::skip]
    let rows: [Row; 6] = [
        ("even", 5000, |_| 100, Some((100, 100))),
        ("twice as quick", 5000, |_| 200, Some((200, 200))),
        ("too short", 1900, |_| 100, None),
        ("nothing", 5000, |_| 0, None),
        // A stop of 200 ms is a tenth of a window, wherever it lies, and so is a burst.
        ("a stop", 6000, |at| if (3000..3200).contains(&at) { 0 } else { 100 }, Some((90, 100))),
        ("a burst", 6000, |at| if (3000..3100).contains(&at) { 300 } else { 100 }, Some((100, 110))),
    ];
    for (name, milliseconds, rate, expected) in rows {
        let found = spread(&samples(milliseconds, rate), 100_000);
        assert_eq!(percent(found), expected, "{name}");
    }
}

fn a_machine_that_stood_still_says_nothing() {
    let mut samples = samples(9000, |_| 100);
    for sample in samples.iter_mut().filter(|sample| sample.at >= Duration::from_secs(4)) {
        sample.at += Duration::from_secs(1);
    }
    assert_eq!(percent(spread(&samples, 100_000)), Some((100, 100)));
}

fn waiting_before_the_first_byte_and_after_the_last_is_no_window() {
    let rate = |at| if (1000..5000).contains(&at) { 100 } else { 0 };
    assert_eq!(percent(spread(&samples(9000, rate), 100_000)), Some((100, 100)));
}

fn counters_are_read_by_name() {
    let text = "rchar: 1\nwchar: 22\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 66\n\
                cancelled_write_bytes: 7\n";
    assert_eq!(counted(text, "wchar"), Some(22));
    assert_eq!(counted(text, "write_bytes"), Some(66));
    assert_eq!(counted("cancelled_write_bytes: 7\n", "write_bytes"), None);
}

/// A program whose number of written bytes is known.
fn the_kernel_counts_for_another_process() {
    let mut child = Command::new("sh")
        .args(["-c", "printf %0200000d 7 >/dev/null; read -r line"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let written = || count(&child, "wchar").unwrap();
    wait_for("all of it", || written() >= 200_000);
    assert_eq!(written(), 200_000);
    drop(child.stdin.take());
    child.wait().unwrap();
}
