//! What is copied at a rate.

use std::fs;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::Content;
use uncopy::Mechanism;
use uncopy::copy::job::{JobObserver, JobOptions, JobProgress, copy_trees};
use uncopy::copy::{Allow, Control};

use super::windows::Sample;

/// How often it is looked how far the copy is.
const EVERY: Duration = Duration::from_millis(20);

/// A copy lasts for so long at its rate: two windows and a half.
const LASTS: u64 = 5;

/// What the files are like, who copies them, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene {
    pub(super) name: &'static str,
    /// Bytes of each file; `None`: there is one.
    file_bytes: Option<u64>,
    workers: usize,
    mechanism: Mechanism,
}

/// Buffered ways, in which pieces are below and above a chunk of theirs, and direct writes.
pub(super) const SCENES: [Scene; 7] = [
    scene("one file, read_write", None, 1, Mechanism::ReadWrite),
    scene("one file, splice", None, 1, Mechanism::Splice),
    scene("one file, sendfile", None, 1, Mechanism::Sendfile),
    scene("one file, direct", None, 1, Mechanism::Direct),
    scene("files of 4 KiB, 2 workers", Some(4 << 10), 2, Mechanism::ReadWrite),
    scene("files of 100 KiB, 8 workers", Some(100 << 10), 8, Mechanism::Splice),
    scene("files of 4 MiB, 4 workers", Some(4 << 20), 4, Mechanism::Splice),
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

    /// How many bytes a second a copy moves of what is copied at this rate, when nothing holds it
    /// back.
    pub(super) fn unthrottled(&self, directory: &Path, rate: NonZeroU64) -> Result<f64> {
        let samples = self.copy(directory, rate, None)?;
        let last = samples.last().context("nothing was seen")?;
        Ok((rate.get() * LASTS) as f64 / last.at.max(EVERY).as_secs_f64())
    }

    /// Copies, and says how far it was when; the bytes were written to `directory`.
    pub(super) fn run(&self, directory: &Path, rate: NonZeroU64) -> Result<Vec<Sample>> {
        self.copy(directory, rate, Some(rate))
    }

    fn copy(
        &self,
        directory: &Path,
        rate: NonZeroU64,
        limit: Option<NonZeroU64>,
    ) -> Result<Vec<Sample>> {
        let (source, destination) = (directory.join("source"), directory.join("copy"));
        let bytes = self.write(&source, rate.get() * LASTS)?;
        let mut options = JobOptions::default();
        options.bytes_per_second = limit;
        options.jobs = NonZeroUsize::new(self.workers);
        options.copy.allow = match self.mechanism {
            Mechanism::ReadWrite => Allow::ReadWrite,
            mechanism => Allow::Only(mechanism),
        };
        let samples = sampled(&[(source.clone(), destination.clone())], &options, bytes);
        fs::remove_dir_all(&source)?;
        if destination.exists() {
            fs::remove_dir_all(&destination)?;
        }
        samples
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

#[derive(Default)]
struct Bytes(AtomicU64);

impl JobObserver for Bytes {
    fn progress(&self, progress: JobProgress) -> Control {
        self.0.fetch_max(progress.bytes, Ordering::Relaxed);
        Control::Continue
    }
}

fn sampled(pairs: &[(PathBuf, PathBuf)], options: &JobOptions, bytes: u64) -> Result<Vec<Sample>> {
    let (through, over) = (Bytes::default(), AtomicBool::new(false));
    let mut samples = Vec::new();
    let (summary, ended) = std::thread::scope(|scope| {
        let copying = scope.spawn(|| {
            let copied = copy_trees(pairs, options, &through);
            over.store(true, Ordering::Release);
            copied
        });
        let begin = Instant::now();
        while !over.load(Ordering::Acquire) {
            let bytes = through.0.load(Ordering::Relaxed);
            samples.push(Sample { at: begin.elapsed(), bytes });
            std::thread::sleep(EVERY);
        }
        copying.join().expect("a copy does not panic")
    });
    ended?;
    ensure!(summary.failed == 0, "{} files could not be copied", summary.failed);
    ensure!(summary.bytes == bytes, "{} of {bytes} bytes were copied", summary.bytes);
    Ok(samples)
}
