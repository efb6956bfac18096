//! `uncopy unit run` as a process of a worker.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use uncopy_unit::ledger::{Failure, FailureKind, Record};

use crate::error::FleetError;
use crate::verdict::RunEnd;

/// How a unit was done or not.
#[derive(Debug)]
pub(super) struct UnitRun {
    /// How the process ended.
    pub(super) end: RunEnd,
    /// Why the unit is not done, as the process says it.
    pub(super) failure: Option<Failure>,
    /// Record of the unit, as the process says it.
    pub(super) record: Option<Record>,
}

impl UnitRun {
    /// Whether it failed by conflicts and nothing else.
    pub(super) fn has_conflicts_alone(&self) -> bool {
        let is_conflict = |kind| kind == FailureKind::Conflict;
        self.failure.as_ref().is_some_and(|failure| {
            !failure.reasons.is_empty() && failure.reasons.iter().all(|r| is_conflict(r.kind))
        })
    }
}

/// Output of `uncopy unit run --json`, as far as it is of use here.
#[derive(Default, Deserialize)]
struct Printed {
    failure: Option<Failure>,
    record: Option<Record>,
}

/// Runs a unit to its end. When `stop` says so, the process is asked to end, and waited for.
///
/// # Errors
/// It cannot be started.
pub(super) async fn run(
    uncopy: &Path,
    unit: &Path,
    mut stop: watch::Receiver<bool>,
) -> Result<UnitRun, FleetError> {
    let next = "check that it may be executed, and how many processes this user may have";
    let started = Command::new(uncopy)
        .args(["unit", "run", "-q", "--json"])
        .arg(unit)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = started.map_err(FleetError::system("start", uncopy, next))?;
    let output = child.stdout.take();
    let reading = async {
        let mut text = Vec::new();
        if let Some(mut output) = output {
            // Without it nobody knows why the unit failed.
            let _ = output.read_to_end(&mut text).await;
        }
        text
    };
    let waiting = async {
        tokio::select! {
            status = child.wait() => status.map(|status| end(status, false)),
            () = stopped(&mut stop) => {
                terminate(&child);
                child.wait().await.map(|status| end(status, true))
            }
        }
    };
    let (end, text) = tokio::join!(waiting, reading);
    let end = end.map_err(FleetError::system("wait for", uncopy, next))?;
    let Printed { failure, record } = serde_json::from_slice(&text).unwrap_or_default();
    Ok(UnitRun { end, failure, record })
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
