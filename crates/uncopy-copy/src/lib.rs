//! One file to another, the cheapest correct way.

#![deny(missing_docs, unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]
// The public types are the same everywhere; what serves them alone on Linux is unused elsewhere.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]
// So it is with what single files do not need.
#![cfg_attr(not(feature = "trees"), allow(dead_code))]

#[cfg(all(feature = "tokio", target_os = "linux"))]
mod asynchronous;
#[cfg_attr(not(feature = "blake3"), path = "chunk_hasher_none.rs")]
mod chunk_hasher;
mod chunks;
#[cfg(all(feature = "trees", target_os = "linux"))]
pub mod compare;
mod context;
mod control;
#[cfg(all(feature = "trees", target_os = "linux"))]
mod copy_from_peer;
#[cfg(feature = "trees")]
mod copy_trees;
pub mod follow;
mod gated;
#[cfg(feature = "trees")]
mod jobs;
#[cfg(feature = "trees")]
#[cfg_attr(not(target_os = "linux"), path = "journal/portable.rs")]
mod journal;
mod journal_name;
#[cfg(feature = "json")]
pub mod json;
#[cfg(feature = "trees")]
// Public on Linux alone.
#[cfg_attr(not(target_os = "linux"), allow(unreachable_pub))]
mod ledger_name;
mod mode_changes;
mod observer;
mod options;
mod outcome;
mod owner;
#[cfg_attr(not(unix), path = "path_bytes_portable.rs")]
mod path_bytes;
mod pause;
#[cfg_attr(not(target_os = "linux"), path = "user_names_portable.rs")]
mod user_names;
// Withdrawn by tasks alone.
#[cfg_attr(not(feature = "tokio"), allow(dead_code))]
mod permit;
mod skip;
pub mod systems;
mod throttle;
mod tuning;
mod verdict;

#[cfg(target_os = "linux")]
mod active_mover;
#[cfg(target_os = "linux")]
mod backup;
#[cfg_attr(not(target_os = "linux"), path = "backup_claims_portable.rs")]
mod backup_claims;
mod backup_name;
#[cfg(target_os = "linux")]
mod compress;
#[cfg(target_os = "linux")]
mod contents;
#[cfg(target_os = "linux")]
mod conversion;
/// For `uncopy-remote`.
#[cfg(all(feature = "trees", target_os = "linux"))]
#[doc(hidden)]
pub mod count;
#[cfg(target_os = "linux")]
mod creation_defaults;
#[cfg(target_os = "linux")]
mod destination;
mod digest;
#[cfg(target_os = "linux")]
mod display_path;
#[cfg(target_os = "linux")]
mod entries_ahead;
#[cfg(target_os = "linux")]
mod facts;
#[cfg(target_os = "linux")]
mod file_copy;
#[cfg(target_os = "linux")]
mod file_plan;
#[cfg(target_os = "linux")]
mod flush;
#[cfg_attr(not(target_os = "linux"), path = "following_portable.rs")]
pub(crate) mod following;
#[cfg(all(test, target_os = "linux"))]
mod following_portable;
/// For `uncopy-doctor`.
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod forecast;
#[cfg(target_os = "linux")]
mod foresee;
#[cfg_attr(not(target_os = "linux"), path = "guard_portable.rs")]
#[cfg_attr(not(feature = "trees"), allow(dead_code, unreachable_pub))]
mod guard;
#[cfg(all(feature = "trees", target_os = "linux"))]
mod guarded_directory;
#[cfg(all(feature = "trees", target_os = "linux"))]
mod guarded_entries;
#[cfg(all(feature = "trees", target_os = "linux"))]
mod guarded_job;
#[cfg(all(feature = "trees", target_os = "linux"))]
mod guarded_part;
#[cfg(all(feature = "trees", target_os = "linux"))]
mod guarded_plan;
#[cfg(all(feature = "trees", target_os = "linux"))]
mod guarded_source;
#[cfg(all(feature = "trees", target_os = "linux"))]
mod manifest;
#[cfg(target_os = "linux")]
mod mechanism;
#[cfg(target_os = "linux")]
mod metadata;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(unix, path = "portable/posix.rs")]
#[cfg_attr(not(unix), path = "portable/plain.rs")]
mod native;
#[cfg(all(feature = "trees", any(test, not(target_os = "linux"))))]
#[cfg_attr(unix, path = "portable/tree/posix.rs")]
#[cfg_attr(windows, path = "portable/tree/windows.rs")]
#[cfg_attr(not(any(unix, windows)), path = "portable/tree/plain.rs")]
mod native_trees;
#[cfg(target_os = "linux")]
mod outlet;
#[cfg(target_os = "linux")]
mod overlay;
#[cfg(target_os = "linux")]
mod pace;
#[cfg(target_os = "linux")]
mod parts;
/// For `uncopy-remote`.
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod peer;
#[cfg(target_os = "linux")]
mod peer_directory;
#[cfg(target_os = "linux")]
mod peer_file;
#[cfg(target_os = "linux")]
mod peer_link;
#[cfg(target_os = "linux")]
mod plan;
/// For `uncopy-unit`.
#[cfg(all(feature = "trees", target_os = "linux"))]
#[doc(hidden)]
pub mod pool;
#[cfg(any(test, not(target_os = "linux")))]
mod portable;
#[cfg(target_os = "linux")]
mod private;
#[cfg(target_os = "linux")]
mod ranges;
#[cfg(target_os = "linux")]
mod remove;
mod retries;
#[cfg(target_os = "linux")]
mod run;
mod setters;
#[cfg(target_os = "linux")]
mod small;
#[cfg(target_os = "linux")]
mod source;
#[cfg(all(feature = "trees", target_os = "linux"))]
mod source_directory;
#[cfg(target_os = "linux")]
mod source_file;
#[cfg(all(feature = "trees", target_os = "linux"))]
mod source_places;
#[cfg(target_os = "linux")]
mod sparse;
mod speed;
#[cfg(target_os = "linux")]
mod staging;
#[cfg(target_os = "linux")]
mod stale;
#[cfg(target_os = "linux")]
mod stream;
#[cfg(target_os = "linux")]
mod transfer;
#[cfg(all(feature = "trees", target_os = "linux"))]
mod tree;
#[cfg(target_os = "linux")]
mod trial;
#[cfg(all(feature = "trees", target_os = "linux"))]
pub mod tune;
mod verification;
#[cfg(target_os = "linux")]
mod verify;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(target_os = "linux")]
mod write_out;
#[cfg(feature = "trees")]
mod written;
mod zeros;

#[cfg(feature = "trees")]
pub mod job {
    //! Many files: whole trees, copied by the engine that copies single files.
    //!
    //! A job walks its sources from open directories and never by whole paths, so that trees may be
    //! thousands of levels deep and no symbolic link can lead it astray. A directory whose destination
    //! does not exist is built beside it and renamed once, when it is complete; where a destination
    //! exists, each file is replaced in one step.

    #[cfg(target_os = "linux")]
    #[doc(hidden)]
    pub use crate::copy_from_peer::{copy_from_peer, is_built_from_peer};
    pub use crate::copy_trees::{JobError, copy_trees, copy_trees_observed, is_built};
    pub use crate::jobs::{
        Action, Compare, Delete, DestinationLinks, EntryKind, EntryOutcome, HardLinks, Incomplete,
        JobObserver, JobOptions, JobProgress, LinkDest, Links, OnError, Parents, Record,
        RefusalCount, Remover, Selection, Sources, Summary, Transformed,
    };
    #[cfg(target_os = "linux")]
    #[doc(hidden)]
    pub use crate::tree::lies_within;
}

/// For `uncopy-unit`.
#[cfg(all(feature = "trees", target_os = "linux"))]
#[doc(hidden)]
pub mod guarded {
    pub use crate::guard::{Guard, give_last_bits, wanted_user};
    pub use crate::guarded_directory::finish_directory;
    pub use crate::guarded_entries::GuardedEntries;
    pub use crate::guarded_job::copy_guarded;
    pub use crate::guarded_part::{CutFile, copy_part, finish_cut_file};
    pub use crate::guarded_plan::{ForeseenCopy, foresee};
    pub use crate::guarded_source::{
        GuardedEntry, GuardedFile, GuardedLook, GuardedLooks, GuardedSource,
    };
    pub use crate::ledger_name::{LEDGER_DIRECTORY, is_ledger};
    pub use crate::source_places::SourcePlaces;
    pub use crate::tree::{BothSides, ListNames, NotCompared, stand_for_others};
}

use std::path::Path;

#[cfg(all(feature = "trees", not(target_os = "linux")))]
use portable as job_backend;
#[cfg(all(feature = "trees", target_os = "linux"))]
use tree as job_backend;

#[cfg(all(fuzzing, feature = "compress", target_os = "linux"))]
pub use compress::{fuzz as fuzz_compressed, fuzz_table};
#[cfg(all(fuzzing, feature = "trees", target_os = "linux"))]
pub use journal::fuzz as fuzz_journal;
#[cfg(not(target_os = "linux"))]
use portable as run;
#[cfg(not(target_os = "linux"))]
use portable as foresee;
#[cfg(all(fuzzing, target_os = "linux"))]
pub use stale::fuzz as fuzz_record;

pub use context::CopyContext;
pub use control::Control;
pub use observer::{Consent, Observer, Phase, Progress};
pub use options::{
    Allow, Backup, Cache, CopyOptions, Digest, Existing, IfChanged, Level, Numbering, Prefer,
    Preserve, RETRIES, Require, Sparse, Transform, Verify,
};

#[cfg(all(feature = "tokio", target_os = "linux"))]
pub use asynchronous::copy_file_async;
pub use mode_changes::{InvalidMode, ModeChanges};
pub use outcome::Outcome;
pub use owner::{Owner, UnknownOwner};
pub use pause::{Gate, Pause};
pub use skip::Skip;
pub use throttle::Throttle;
pub use tuning::{Origin, Threshold, Tuning};
pub use verdict::PathVerdict;

use gated::Gated;

pub use uncopy_core::{Contradiction, CopyOption};
use uncopy_core::{Error, Reason, Result};

/// Copies the file `source` to `destination`. Returns how, or why it was left alone.
///
/// # Errors
/// Names the operation, the file and the next step; the destination is then as it was before,
/// except under [`CopyOptions::in_place`], and if under [`CopyOptions::durable`] the last flush, of
/// the directory, failed: then the new file is there, and may be gone after a power cut.
pub fn copy_file(
    source: impl AsRef<Path>,
    destination: impl AsRef<Path>,
    options: &CopyOptions,
) -> Result<Outcome> {
    copy_file_observed(source, destination, options, &mut ())
}

/// As [`copy_file`], reporting progress to `observer`, which may stop the copy.
///
/// # Errors
/// As [`copy_file`], and one for which [`is_cancelled`](uncopy_core::Error::is_cancelled) is true if the
/// observer stopped it.
pub fn copy_file_observed(
    source: impl AsRef<Path>,
    destination: impl AsRef<Path>,
    options: &CopyOptions,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    copy_file_in(source, destination, options, &CopyContext::new(), observer)
}

/// As [`copy_file_observed`], with what the copy shares with others: gate, rate and threads.
///
/// # Errors
/// As [`copy_file_observed`].
pub fn copy_file_in(
    source: impl AsRef<Path>,
    destination: impl AsRef<Path>,
    options: &CopyOptions,
    context: &CopyContext<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let (source, destination) = (source.as_ref(), destination.as_ref());
    copy_gated(source, destination, options, context, observer, |observer| {
        run::copy(source, destination, options, context, observer)
    })
}

/// Makes a copy by `copy` if its options agree with each other, with an observer that waits at the gate.
fn copy_gated(
    source: &Path,
    destination: &Path,
    options: &CopyOptions,
    context: &CopyContext<'_>,
    observer: &mut dyn Observer,
    copy: impl FnOnce(&mut dyn Observer) -> Result<Outcome>,
) -> Result<Outcome> {
    options.check().map_err(|found| Error::new("write to", destination, Reason::Options(found)))?;
    let mut observer = Gated::new(observer, *context);
    if observer.begin() == Control::Stop {
        return Err(Error::new("copy", source, Reason::Cancelled));
    }
    copy(&mut observer)
}

/// Returns how files go from one directory to another, which may be the same.
///
/// ```
/// use uncopy::copy::verdict;
/// let directory = tempfile::tempdir()?;
/// match verdict(directory.path(), directory.path()) {
///     Ok(verdict) => println!("{} ({})", verdict.cost, verdict.mechanism),
///     Err(reason) => println!("not tried: {reason}"),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Why it could not be tried: no temporary file can be made in one of them, for example.
pub fn verdict(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
) -> Result<PathVerdict, uncopy_os::capabilities::AnswerReason> {
    foresee::verdict(from.as_ref(), to.as_ref())
}

/// A file that is made is for its owner alone, where files have modes.
#[cfg(any(test, not(target_os = "linux")))]
fn for_owner_alone(options: &mut std::fs::OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    #[cfg(not(unix))]
    let _ = options;
}
