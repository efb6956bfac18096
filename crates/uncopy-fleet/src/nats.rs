//! NATS with JetStream: a queue of units on a server, and workers that take them.
//!
//! A stream keeps a message for each unit until it is acknowledged or given up (`names.rs` says what it is called, and what a
//! message has). All workers share one consumer, which hands each message to one of them, and to another one if the first
//! gives no sign of life. The server may lose acknowledged messages in a power cut: whoever submits again queues what has
//! no record.

mod access;
mod connection;
mod names;
mod status;
mod submit;
mod unit_process;
mod work;

use std::future::Future;
use std::path::Path;

use crate::error::FleetError;
use crate::exit::Exit;
use crate::flags::{StatusFlags, SubmitFlags, WorkFlags};
use crate::plan::PlannedWork;
use crate::report;

/// Queues what is left of a plan.
pub(crate) fn submit(flags: &SubmitFlags) -> Result<Exit, FleetError> {
    let work = PlannedWork::read(&flags.server.directory, flags.program.as_deref())?;
    in_runtime(submit::run(flags, work))
}

/// Does units from the queue.
pub(crate) fn work(flags: &WorkFlags) -> Result<Exit, FleetError> {
    let work = PlannedWork::read(&flags.server.directory, flags.program.as_deref())?;
    if work.left()?.is_empty() {
        report::print("all units are done\n");
        return Ok(Exit::Success);
    }
    // A unit that is taken and not done counts as a try.
    work.check_source()?;
    let uncopy = crate::program::find(flags.program.as_deref())?;
    in_runtime(work::run(flags, work, uncopy))
}

/// Shows ledger and queue.
pub(crate) fn status(flags: &StatusFlags) -> Result<Exit, FleetError> {
    let work = PlannedWork::read(&flags.server.directory, flags.program.as_deref())?;
    let uncopy = crate::program::find(flags.program.as_deref())?;
    let of_ledger = status::of_ledger(&uncopy, &work, flags.json)?;
    let of_queue = in_runtime(status::of_queue(flags, &work))?;
    Ok(of_ledger.unwrap_or(of_queue))
}

/// Runs it on this thread.
fn in_runtime(task: impl Future<Output = Result<Exit, FleetError>>) -> Result<Exit, FleetError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let next = "raise the limit of open files (ulimit -n)";
    runtime.map_err(FleetError::system("start", Path::new("the runtime"), next))?.block_on(task)
}
