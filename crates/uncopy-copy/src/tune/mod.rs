//! Measures a filesystem: from which sizes on which way is quicker there, and with how many workers.
//!
//! What is found goes into [`CopyOptions::tuning`](super::CopyOptions::tuning) and
//! [`JobOptions::jobs`](super::job::JobOptions::jobs). A value that is built in is given up only for
//! one that wins clearly: by 5 % of the time in the median of several rounds, and in three rounds of
//! four.

mod bench;
mod decide;
mod section;

use std::path::Path;
use std::time::{Duration, Instant};

use super::Control;
use bench::Bench;
use uncopy_core::{Error, Reason, Result};
use uncopy_os::capabilities::{Filesystem, identity};

/// Measuring ends after so long, whatever is not measured by then.
const LONGEST: Duration = Duration::from_secs(50);

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// What the filesystem is known by ([`identity`]).
    pub identity: String,
    /// Its kind.
    pub filesystem: Filesystem,
    /// What came of it, in the order of [`SETTINGS`].
    pub settings: Vec<MeasuredSetting>,
    /// How long it took.
    pub duration: Duration,
}

/// What is measured: sizes in bytes, and the number of workers.
pub const SETTINGS: [&str; 5] =
    ["zero-copy-min", "direct-min", "direct-cpu-min", "buffer-size", "jobs"];

/// One value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MeasuredSetting {
    /// Its name: one of [`SETTINGS`].
    pub setting: &'static str,
    /// What is used where nothing was measured.
    pub built_in: u64,
    /// What is best here; the same unless another value wins clearly.
    pub value: u64,
    /// What it was concluded from.
    pub compared: Vec<Compared>,
    /// Why not everything was measured, for people.
    pub missing: Option<String>,
}

/// Two ways at one size, or two values: the medians of several rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Compared {
    /// The size of the file, or the value that is compared with the one built in.
    pub at: u64,
    /// Time of the usual way: what goes below the threshold, or the value built in.
    pub usual: Duration,
    /// Time of the other.
    pub other: Duration,
    /// Median of the quotients of each round.
    pub ratio: f64,
    /// How often.
    pub rounds: usize,
}

/// Measures the filesystem of the directory `path`: makes files of less than 256 MiB in a hidden
/// directory there, and removes it. Takes less than a minute.
///
/// `watch` is called several times a second with the setting that is being measured, and may end it;
/// then too everything is removed.
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
