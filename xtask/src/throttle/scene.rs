//! What is copied at a rate.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::Content;
use uncopy::Mechanism;

use super::windows::Sample;
use super::witness::Witness;

/// How often it is looked how far the copy is.
const EVERY: Duration = Duration::from_millis(20);

/// A copy lasts for so long at its rate: two windows and a half.
const LASTS: u64 = 5;

/// Of the program: nothing moves bytes in the way that was asked for.
const NO_MECHANISM: i32 = 5;

/// What the files are like, who copies them, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene {
    pub(super) name: &'static str,
    /// Bytes of each file; `None`: there is one.
    file_bytes: Option<u64>,
    workers: usize,
    mechanism: Mechanism,
}

/// Buffered ways, in which pieces are below and above a chunk of theirs, and direct writes. Many files go
/// by calls that the kernel counts to the byte.
pub(super) const SCENES: [Scene; 7] = [
    scene("one file, read_write", None, 1, Mechanism::ReadWrite),
    scene("one file, splice", None, 1, Mechanism::Splice),
    scene("one file, sendfile", None, 1, Mechanism::Sendfile),
    scene("one file, direct", None, 1, Mechanism::Direct),
    scene("files of 4 KiB, 2 workers", Some(4 << 10), 2, Mechanism::ReadWrite),
    scene("files of 100 KiB, 8 workers", Some(100 << 10), 8, Mechanism::Sendfile),
    scene("files of 4 MiB, 4 workers", Some(4 << 20), 4, Mechanism::Sendfile),
];

const fn scene(
    name: &'static str,
    file_bytes: Option<u64>,
    workers: usize,
    mechanism: Mechanism,
) -> Scene {
    Scene { name, file_bytes, workers, mechanism }
}

/// More files than this take longer to make than to copy, and no device makes them at such a rate.
const MOST_FILES: u64 = 30_000;

impl Scene {
    /// Whether there are files enough to keep the rate, and not too many.
    pub(super) fn suits(&self, rate: NonZeroU64) -> bool {
        let bytes = rate.get() * LASTS;
        self.file_bytes.is_none_or(|each| (8..=MOST_FILES).contains(&(bytes / each)))
    }

    /// Who counts its bytes.
    pub(super) fn witness(&self) -> Witness {
        Witness::of(self.mechanism)
    }

    /// How many bytes a second a copy moves of what is copied at this rate, when nothing holds it
    /// back.
    pub(super) fn unthrottled(
        &self,
        uncopy: &Path,
        directory: &Path,
        rate: NonZeroU64,
    ) -> Result<f64> {
        let begin = Instant::now();
        let copied = self.copy(uncopy, directory, rate, None)?;
        ensure!(copied.is_some(), "it was copied before and is not now");
        let took = copied.and_then(|samples| samples.last().map(|last| last.at));
        let took = took.unwrap_or(begin.elapsed()).max(EVERY);
        Ok((rate.get() * LASTS) as f64 / took.as_secs_f64())
    }

    /// Copies, and says how far it was when; the bytes were written to `directory`. `None`: this
    /// filesystem does not have the mechanism.
    pub(super) fn run(
        &self,
        uncopy: &Path,
        directory: &Path,
        rate: NonZeroU64,
    ) -> Result<Option<Vec<Sample>>> {
        self.copy(uncopy, directory, rate, Some(rate))
    }

    fn copy(
        &self,
        uncopy: &Path,
        directory: &Path,
        rate: NonZeroU64,
        limit: Option<NonZeroU64>,
    ) -> Result<Option<Vec<Sample>>> {
        let (source, destination) = (directory.join("source"), directory.join("copy"));
        let bytes = self.write(&source, rate.get() * LASTS)?;
        let mut command = Command::new(uncopy);
        command
            .args(["cp", "-rT", "--on-error=abort", "--method"])
            .arg(self.mechanism.name().replace('_', "-"))
            .arg(format!("--jobs={}", self.workers))
            .args(limit.map(|rate| format!("--max-bandwidth={rate}")))
            .args([&source, &destination])
            .env("UNCOPY_CONFIG", "/dev/null");
        let (status, samples) = sampled(&mut command, self.witness())?;
        let copied = match status.code() {
            Some(0) => {
                ensure!(bytes_in(&destination)? == bytes, "not all of {bytes} bytes were copied");
                Some(samples)
            }
            Some(NO_MECHANISM) => None,
            _ => anyhow::bail!("{command:?} failed: {status}"),
        };
        fs::remove_dir_all(&source)?;
        if destination.exists() {
            fs::remove_dir_all(&destination)?;
        }
        Ok(copied)
    }

    /// Makes the files; returns how many bytes they have together.
    fn write(&self, source: &Path, bytes: u64) -> Result<u64> {
        fs::create_dir(source).with_context(|| format!("cannot make {}", source.display()))?;
        let each = self.file_bytes.unwrap_or(bytes);
        let files = (bytes / each).max(1);
        for number in 0..files {
            let directory = source.join(format!("{:03}", number / 256));
            fs::create_dir_all(&directory)?;
            drop(Content::dense(each).write(&directory.join(number.to_string())));
        }
        Ok(files * each)
    }
}

/// The lengths of all files below.
fn bytes_in(directory: &Path) -> Result<u64> {
    let mut waiting: Vec<PathBuf> = vec![directory.to_owned()];
    let mut bytes = 0;
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            match entry.metadata()? {
                found if found.is_dir() => waiting.push(entry.path()),
                found => bytes += found.len(),
            }
        }
    }
    Ok(bytes)
}

/// Runs the program, and looks all the time how far the kernel says that it is.
fn sampled(command: &mut Command, witness: Witness) -> Result<(ExitStatus, Vec<Sample>)> {
    let begin = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let mut samples = Vec::new();
    loop {
        let bytes = witness.count(&child)?;
        // Of a program that has ended nothing is counted any more.
        if let Some(status) = child.try_wait()? {
            return Ok((status, samples));
        }
        samples.push(Sample { at: begin.elapsed(), bytes });
        std::thread::sleep(EVERY);
    }
}
