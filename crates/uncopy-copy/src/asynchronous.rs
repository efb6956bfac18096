//! Copies a file for a task of a Tokio runtime.

use std::path::Path;
use std::sync::Arc;

use tokio::task::{AbortHandle, spawn_blocking};

use super::context::CopyContext;
use super::control::Control;
use super::observer::Progress;
use super::options::CopyOptions;
use super::outcome::Outcome;
use super::permit::Permit;
use uncopy_core::{Contradiction, Error, Reason, Result};

/// As [`copy_file`](super::copy_file), on a thread of the Tokio runtime that is there for calls that
/// block, so that the task's own thread is free meanwhile.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use uncopy::copy::{CopyOptions, Outcome, copy_file_async};
/// # let directory = tempfile::tempdir()?;
/// # let (source, destination) = (directory.path().join("a"), directory.path().join("b"));
/// # std::fs::write(&source, "text")?;
/// let copied = copy_file_async(&source, &destination, &CopyOptions::new()).await?;
/// assert!(matches!(copied, Outcome::Copied(receipt) if receipt.bytes == 4));
/// assert_eq!(std::fs::read(&destination)?, b"text");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// # Cancel safety
/// The future may be dropped at any time, by `select!` or a timeout. When the drop returns, the
/// destination is either as it was or the complete copy, and no name appears any more: neither the
/// destination's nor a temporary one. The drop waits for a call that is giving a name just then, which
/// takes some microseconds, and for nothing else. Another call that blocks (`fsync`, `FICLONE`, one piece
/// of the copy) may end later on its thread; what it wrote has no name, or a temporary one that is removed
/// then, where the filesystem has no unnamed files (`O_TMPFILE`). A runtime that shuts down waits for it
/// unless [`shutdown_background`](tokio::runtime::Runtime::shutdown_background) is called.
///
/// With [`CopyOptions::copy_contents`] bytes that were written to a FIFO or device stay written.
///
/// # Errors
/// As [`copy_file`](super::copy_file);
/// [`Contradiction::AsyncInPlace`] with [`CopyOptions::in_place`] or [`CopyOptions::attributes_only`], which
/// a drop would leave half done; and
/// one for which [`is_cancelled`](Error::is_cancelled) is true if the runtime shut down before the copy
/// began.
///
/// # Panics
/// Outside of a Tokio runtime.
pub async fn copy_file_async(
    source: impl AsRef<Path>,
    destination: impl AsRef<Path>,
    options: &CopyOptions,
) -> Result<Outcome> {
    let source = source.as_ref().to_owned();
    let destination = destination.as_ref().to_owned();
    if options.writes_into_existing() {
        let reason = Reason::Options(Contradiction::AsyncInPlace);
        return Err(Error::new("write to", destination, reason));
    }
    let (options, permit) = (options.clone(), Arc::new(Permit::default()));
    let (given, subject) = (Arc::clone(&permit), source.clone());
    let task = spawn_blocking(move || {
        let mut observer = |_: Progress| match given.is_withdrawn() {
            true => Control::Stop,
            false => Control::Continue,
        };
        if given.is_withdrawn() {
            return Err(Error::new("copy", source, Reason::Cancelled));
        }
        let context = CopyContext { permit: Some(&given), ..CopyContext::new() };
        super::copy_file_in(&source, &destination, &options, &context, &mut observer)
    });
    let _withdrawn_on_drop = Withdraw { permit, task: task.abort_handle() };
    match task.await {
        Ok(copied) => copied,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::new("copy", subject, Reason::Cancelled)),
        },
    }
}

/// Withdraws the permit of a copy whose future is dropped.
struct Withdraw {
    permit: Arc<Permit>,
    task: AbortHandle,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        self.permit.withdraw();
        // Only what has not begun can be aborted.
        self.task.abort();
    }
}
