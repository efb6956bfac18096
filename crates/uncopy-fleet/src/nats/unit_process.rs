//! `uncopy unit run` as a process of a worker.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::error::FleetError;
use crate::verdict::RunEnd;

/// Runs a unit to its end. When `stop` says so, the process is asked to end, and waited for.
///
/// # Errors
/// It cannot be started.
pub(super) async fn run(
    uncopy: &Path,
    unit: &Path,
    mut stop: watch::Receiver<bool>,
) -> Result<RunEnd, FleetError> {
    let next = "check that it may be executed, and how many processes this user may have";
    let started = Command::new(uncopy)
        .args(["unit", "run", "-q"])
        .arg(unit)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let mut child = started.map_err(FleetError::system("start", uncopy, next))?;
    let status = tokio::select! {
        status = child.wait() => status.map(|status| end(status, false)),
        () = stopped(&mut stop) => {
            terminate(&child);
            child.wait().await.map(|status| end(status, true))
        }
    };
    status.map_err(FleetError::system("wait for", uncopy, next))
}

/// Waits until this worker is asked to stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender stays as long as the worker.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Describes the end of a process. One that was asked to end, and was done before it noticed, has done its unit.
fn end(status: ExitStatus, was_stopped: bool) -> RunEnd {
    match (status.code(), status.signal()) {
        (Some(0), _) => RunEnd::Code(0),
        _ if was_stopped => RunEnd::Stopped,
        (Some(code), _) => RunEnd::Code(code),
        (None, signal) => RunEnd::Signal(signal.unwrap_or_default()),
    }
}

fn terminate(child: &Child) {
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(id) = id {
        // It may have ended.
        let _ = kill_process(id, Signal::TERM);
    }
}

/// Looks something up in files, which may take long on a network filesystem, beside everything else.
///
/// # Errors
/// Those of `look`.
pub(super) async fn blocking<W: Send + Sync + 'static, T: Send + 'static>(
    work: &Arc<W>,
    look: impl FnOnce(&W) -> Result<T, FleetError> + Send + 'static,
) -> Result<T, FleetError> {
    let work = Arc::clone(work);
    match tokio::task::spawn_blocking(move || look(&work)).await {
        Ok(looked) => looked,
        Err(ended) => std::panic::resume_unwind(ended.into_panic()),
    }
}
