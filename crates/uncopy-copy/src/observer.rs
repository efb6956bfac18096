//! Defines observers, which receive the progress of a copy and may stop it.

use std::path::Path;

use super::control::Control;
use super::throttle::{self, Throttle};
use uncopy_core::{Error, Reason, Result};

/// Phase of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Waiting for the first bytes of a FIFO, socket or terminal. Nothing has been made yet.
    Waiting,
    /// Moving bytes.
    Copying,
    /// Waiting for the device (`fsync`).
    Flushing,
    /// Reading both sides again.
    Verifying,
}

/// A point in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// Bytes done in this phase, holes included.
    pub done_bytes: u64,
    /// Bytes of this phase, where known in advance: 0 for pipes and pseudo files.
    pub total_bytes: u64,
}

/// Receives progress and may stop the copy.
///
/// Called at least once per piece; pieces are sized to take about 25 ms, also inside one
/// `copy_file_range`, and 50 ms with `O_DIRECT`. A single `fsync` or `FICLONE` cannot be interrupted. While the copy waits, for
/// the end of a [`Pause`](super::Pause) or for its turn at a rate, it is called every 50 ms.
///
/// Do not wait in it: that would hold up one worker of a job and not the others, and count as time at
/// work. A [`Pause`](super::Pause) does neither.
pub trait Observer {
    /// Called between pieces, on the thread that copies.
    fn progress(&mut self, progress: Progress) -> Control;

    /// Called with [`CopyOptions::ask`](super::CopyOptions::ask) before the existing file `destination` is
    /// replaced or written into, once for each copy. Nothing has been made yet, so it may wait for a
    /// person. Refuses by default.
    fn may_replace(&mut self, destination: &Path) -> Consent {
        let _ = destination;
        Consent::Refused
    }
}

/// Answer to the question whether an existing file may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Replace it.
    Given,
    /// Leave it alone, and go on.
    Refused,
    /// Leave it alone, and stop the copy or the job.
    Stop,
}

/// An observer that is asked once about the destination of a copy that is repeated.
pub(super) struct AskedOnce<'a> {
    observer: &'a mut dyn Observer,
    answer: Option<Consent>,
}

impl<'a> AskedOnce<'a> {
    pub(super) fn new(observer: &'a mut dyn Observer) -> AskedOnce<'a> {
        AskedOnce { observer, answer: None }
    }
}

impl Observer for AskedOnce<'_> {
    fn progress(&mut self, progress: Progress) -> Control {
        self.observer.progress(progress)
    }

    fn may_replace(&mut self, destination: &Path) -> Consent {
        *self.answer.get_or_insert_with(|| self.observer.may_replace(destination))
    }
}

/// `()` observes nothing and never stops a copy.
impl Observer for () {
    fn progress(&mut self, _: Progress) -> Control {
        Control::Continue
    }
}

impl<F: FnMut(Progress) -> Control> Observer for F {
    fn progress(&mut self, progress: Progress) -> Control {
        self(progress)
    }
}

/// Reports the progress of the copy of `source`.
///
/// # Errors
/// The observer stopped the copy.
pub(super) fn report(
    observer: &mut dyn Observer,
    progress: Progress,
    source: impl AsRef<Path>,
) -> Result<()> {
    match observer.progress(progress) {
        Control::Continue => Ok(()),
        Control::Stop => Err(Error::new("copy", source, Reason::Cancelled)),
    }
}

/// As [`report`], where bytes go to a stream.
pub(super) fn report_writing(
    observer: &mut dyn Observer,
    progress: Progress,
    destination: impl AsRef<Path>,
) -> Result<()> {
    match observer.progress(progress) {
        Control::Continue => Ok(()),
        Control::Stop => Err(Error::new("copy to", destination, Reason::Cancelled)),
    }
}

/// Returns how many of `wanted` bytes may be moved now; waits as the rate requires. `None`: the copy is
/// to stop.
pub(super) fn wait_for_rate(
    observer: &mut dyn Observer,
    throttle: Option<&Throttle>,
    progress: Progress,
    wanted: u64,
) -> Option<u64> {
    throttle::wait_for_turn(throttle, || observer.progress(progress), wanted)
}
