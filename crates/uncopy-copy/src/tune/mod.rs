//! Measures a filesystem: the sizes from which on another mechanism is quicker, and the best number of
//! workers.
//!
//! The results go into [`CopyOptions::tuning`](super::CopyOptions::tuning) and
//! [`JobOptions::jobs`](super::job::JobOptions::jobs). A built-in value changes only if another wins
//! clearly: by 5 % of the time in the median of several rounds, and in three rounds of four.

mod bench;
mod decide;
mod section;

use std::path::Path;
use std::time::{Duration, Instant};

use super::Control;
use bench::Bench;
use uncopy_core::{Error, Reason, Result};
use uncopy_os::capabilities::{Filesystem, identity};

/// Time limit of the whole measurement.
const LONGEST: Duration = Duration::from_secs(50);

/// Results of a measurement.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// Identifies the filesystem ([`identity`]).
    pub identity: String,
    /// Kind of the filesystem.
    pub filesystem: Filesystem,
    /// Results in the order of [`SETTINGS`].
    pub settings: Vec<MeasuredSetting>,
    /// Duration of the measurement.
    pub duration: Duration,
}

/// Names of the measured settings: sizes in bytes, and the number of workers.
pub const SETTINGS: [&str; 5] =
    ["zero-copy-min", "direct-min", "direct-cpu-min", "buffer-size", "jobs"];

/// Result for one setting.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MeasuredSetting {
    /// Name: one of [`SETTINGS`].
    pub setting: &'static str,
    /// Built-in value.
    pub built_in: u64,
    /// Best value here; the built-in one unless another wins clearly.
    pub value: u64,
    /// Comparisons that led to it.
    pub compared: Vec<Compared>,
    /// Why not everything was measured, for people.
    pub missing: Option<String>,
}

/// Comparison of two candidates at one size, or of two values: medians of several rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Compared {
    /// Size of the file, or the value compared with the built-in one.
    pub at: u64,
    /// Time of the usual candidate: the one below the threshold, or the built-in value.
    pub usual: Duration,
    /// Time of the other candidate.
    pub other: Duration,
    /// Median of the ratios of each round.
    pub ratio: f64,
    /// Number of rounds.
    pub rounds: usize,
}

/// Measures the filesystem of the directory `path`: creates files of less than 256 MiB in a hidden
/// directory there, and removes it. Takes less than a minute.
///
/// `watch` is called several times a second with the setting under measurement, and may end it;
/// everything is removed in that case too.
///
/// # Errors
/// The directory cannot be written to, or has no room; `watch` ended it
/// ([`is_cancelled`](uncopy_core::Error::is_cancelled)).
pub fn tune(
    path: impl AsRef<Path>,
    watch: &mut dyn FnMut(&'static str) -> Control,
) -> Result<Measured> {
    let (path, begin) = (path.as_ref(), Instant::now());
    let known = identity(path)?;
    let mut bench = Bench::new(path, begin + LONGEST, watch)?;
    let settings = section::all(&mut bench);
    let removed = bench.remove();
    let settings = settings?;
    removed?;
    Ok(Measured {
        identity: known.id,
        filesystem: known.filesystem,
        settings,
        duration: begin.elapsed(),
    })
}

fn cancelled(path: &Path) -> Error {
    Error::new("measure", path, Reason::Cancelled)
}
