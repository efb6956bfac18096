//! `uncopy fleet status`: what the ledger has, and what the queue has.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use super::connection::{self, Queue, refused};
use super::names::GivenUpUnit;
use crate::error::FleetError;
use crate::exit::Exit;
use crate::flags::StatusFlags;
use crate::ledger_there::LedgerEnd;
use crate::plan::PlannedWork;
use crate::report;

/// Maximum number of units that are listed.
const MAX_LISTED: usize = 20;

/// State of a queue.
#[derive(Debug, Serialize)]
struct QueueStatus {
    schema: u32,
    event: &'static str,
    plan: String,
    waiting: u64,
    handed_out: u64,
    again: u64,
    given_up: u64,
    given_up_units: Vec<GivenUpUnit>,
}

/// Has `uncopy unit status` show what the ledger has. Returns how the program ends; `None`: the queue decides.
///
/// # Errors
/// It cannot be started.
pub(super) fn of_ledger(
    uncopy: &Path,
    work: &PlannedWork,
    is_json: bool,
) -> Result<Option<Exit>, FleetError> {
    let mut command = Command::new(uncopy);
    command.args(["unit", "status"]).args(is_json.then_some("--json"));
    let status = command
        .arg(&work.directory)
        .stdin(Stdio::null())
        .status()
        .map_err(FleetError::system("start", uncopy, "check that it may be executed"))?;
    Ok(match LedgerEnd::of(status.code()) {
        LedgerEnd::Complete => Some(Exit::Success),
        LedgerEnd::Unreachable => Some(Exit::Unreachable),
        LedgerEnd::NotFinished => None,
        LedgerEnd::Failure => Some(Exit::Failure),
    })
}

/// Shows the queue. Units that were given up count as failed.
pub(super) async fn of_queue(flags: &StatusFlags, work: &PlannedWork) -> Result<Exit, FleetError> {
    let server = connection::connect(&flags.server).await?;
    let status = server.refusals.none_while(async {
        let queue = connection::find(server.context.clone(), work).await?;
        read(queue, work).await
    });
    let status = match status.await {
        Ok(status) => status,
        Err(FleetError::NoQueue { problem, next }) => {
            report::say(&format!("{problem}; {next}"));
            return Ok(Exit::NotFinished);
        }
        Err(error) => return Err(error),
    };
    let text = match flags.json {
        true => serde_json::to_string(&status).unwrap_or_default() + "\n",
        false => words(&status),
    };
    let is_printed = report::print(&text);
    let has_failed = status.given_up > 0 || !is_printed;
    Ok(if has_failed { Exit::Failure } else { Exit::NotFinished })
}

async fn read(mut queue: Queue, work: &PlannedWork) -> Result<QueueStatus, FleetError> {
    let failed = |error: &dyn std::error::Error| refused("look at the queue", error);
    let consumer = queue.consumer.info().await.map_err(|error| failed(&error))?;
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let (waiting, handed_out, again) =
        (consumer.num_pending, count(consumer.num_ack_pending), count(consumer.num_redelivered));
    let given_up = queue.given_up.get_info().await.map_err(|error| failed(&error))?.state;
    let mut units = Vec::new();
    let mut sequence = given_up.first_sequence;
    while given_up.messages > 0 && sequence <= given_up.last_sequence && units.len() < MAX_LISTED {
        // There are gaps where a later reason took the place of an earlier one.
        if let Ok(message) = queue.given_up.get_raw_message(sequence).await {
            units.extend(serde_json::from_slice::<GivenUpUnit>(&message.payload));
        }
        sequence += 1;
    }
    Ok(QueueStatus {
        schema: 1,
        event: "fleet_status",
        plan: work.plan.id.to_string(),
        waiting,
        handed_out,
        again,
        given_up: given_up.messages,
        given_up_units: units,
    })
}

fn words(status: &QueueStatus) -> String {
    let QueueStatus { waiting, handed_out, again, given_up, .. } = status;
    let mut text =
        format!("queue: {waiting} waiting, {handed_out} handed out, {again} of them again\n");
    for found in &status.given_up_units {
        let unit = found.unit.map_or("a message".to_owned(), |unit| format!("unit {unit}"));
        // A host has the name that its worker says.
        let host: String = found.worker.host.chars().filter(|c| !c.is_control()).collect();
        text.push_str(&format!("{unit} was given up on {host}: {}\n", found.reason.words()));
    }
    let listed = u64::try_from(status.given_up_units.len()).unwrap_or(u64::MAX);
    if *given_up > listed {
        text.push_str(&format!("and {} more given up\n", given_up - listed));
    }
    text
}
