//! One file to another, the cheapest correct way.

mod experience;
pub mod job;
mod observer;
mod options;
mod pause;
mod throttle;
mod tuning;

#[cfg(target_os = "linux")]
mod born;
#[cfg(target_os = "linux")]
mod compress;
#[cfg(target_os = "linux")]
mod current;
#[cfg(target_os = "linux")]
mod destination;
#[cfg(target_os = "linux")]
mod facts;
#[cfg_attr(not(target_os = "linux"), path = "following_portable.rs")]
pub(crate) mod following;
#[cfg(all(test, target_os = "linux"))]
mod following_portable;
#[cfg(target_os = "linux")]
pub(crate) mod forecast;
#[cfg(target_os = "linux")]
mod mechanism;
#[cfg(target_os = "linux")]
mod metadata;
#[cfg(target_os = "linux")]
mod named;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(unix, path = "portable/posix.rs")]
#[cfg_attr(not(unix), path = "portable/plain.rs")]
mod native;
#[cfg(target_os = "linux")]
mod overlay;
#[cfg(target_os = "linux")]
mod pace;
#[cfg(target_os = "linux")]
mod partial;
#[cfg(target_os = "linux")]
pub(crate) mod plan;
#[cfg(any(test, not(target_os = "linux")))]
mod portable;
#[cfg(target_os = "linux")]
mod private;
#[cfg(target_os = "linux")]
mod ranges;
#[cfg(target_os = "linux")]
mod remove;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod small;
#[cfg(target_os = "linux")]
mod source;
#[cfg(target_os = "linux")]
mod sparse;
#[cfg(target_os = "linux")]
mod staging;
#[cfg(target_os = "linux")]
mod stale;
#[cfg(target_os = "linux")]
mod stream;
#[cfg(target_os = "linux")]
mod transfer;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod trial;
#[cfg(target_os = "linux")]
pub mod tune;
#[cfg(target_os = "linux")]
mod verify;
#[cfg(target_os = "linux")]
mod watch;

use std::path::Path;

#[cfg(all(fuzzing, feature = "compress", target_os = "linux"))]
pub(crate) use compress::{fuzz as fuzz_compressed, fuzz_table};
#[cfg(not(target_os = "linux"))]
use portable::{self as run, is_built, run_job};
#[cfg(all(fuzzing, target_os = "linux"))]
pub(crate) use stale::fuzz as fuzz_record;
#[cfg(all(fuzzing, target_os = "linux"))]
pub(crate) use tree::fuzz_journal;
#[cfg(target_os = "linux")]
use tree::{is_built, run_job};

pub use observer::{Control, Observer, Phase, Progress};
pub use options::{
    Allow, Cache, Contradiction, CopyOptions, Digest, Existing, IfChanged, Level, Prefer, Preserve,
    RETRIES, Sparse, Transform, Verify,
};

pub use experience::Experience;
pub use pause::{Gate, Pause};
pub use throttle::Throttle;
pub use tuning::{Origin, Threshold, Tuning};

use pause::Gated;

use crate::error::{Error, Reason, Result};
pub use crate::option::CopyOption;
use crate::receipt::Receipt;

/// Copies the file `source` to `destination`.
///
/// # Errors
/// Names the operation, the file and the next step; the destination is then as it was before,
/// except under [`CopyOptions::in_place`], and if under [`CopyOptions::durable`] the last flush, of
/// the directory, failed: then the new file is there, and may be gone after a power cut.
pub fn copy_file(
    source: impl AsRef<Path>,
    destination: impl AsRef<Path>,
    options: &CopyOptions,
) -> Result<Receipt> {
    copy_file_observed(source, destination, options, &mut ())
}

/// As [`copy_file`], telling `observer` about progress; it may stop the copy.
///
/// # Errors
/// As [`copy_file`], and one for which [`is_cancelled`](crate::Error::is_cancelled) is true if the
/// observer stopped it.
pub fn copy_file_observed(
    source: impl AsRef<Path>,
    destination: impl AsRef<Path>,
    options: &CopyOptions,
    observer: &mut dyn Observer,
) -> Result<Receipt> {
    let destination = destination.as_ref();
    options
        .check()
        .map_err(|found| Error::new("write to", destination, Reason::Options(found.to_string())))?;
    let mut observer = Gated::new(observer, options.gate.as_ref());
    if observer.begin() == Control::Stop {
        return Err(Error::new("copy", source.as_ref(), Reason::Cancelled));
    }
    run::copy(source.as_ref(), destination, options, &mut observer)
}

/// A file that is made is for its owner alone, where files have modes.
#[cfg(any(test, not(target_os = "linux")))]
fn for_owner_alone(options: &mut std::fs::OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    #[cfg(not(unix))]
    let _ = options;
}
