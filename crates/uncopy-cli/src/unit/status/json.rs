//! State of a plan for programs, documented in `docs/json.md`.

use std::borrow::Cow;

use serde::Serialize;
use uncopy::copy::json::Names;
use uncopy::unit::format::{Plan, UnitNumber};
use uncopy::unit::ledger::{FailureKind, FailureReason};
use uncopy::unit::status::PlanStatus;

use crate::report::json::{SCHEMA, base64_name, line, microseconds};
use crate::unit::notes::{NoteCount, NoteCounts};

#[derive(Serialize)]
struct Status<'a> {
    schema: u32,
    event: &'static str,
    plan: String,
    #[serde(flatten)]
    names: Names<'a>,
    complete: bool,
    units: u32,
    done: u32,
    begun: usize,
    failed: usize,
    waiting: u32,
    planned: Amounts,
    finished: Amounts,
    work_us: u64,
    bytes_per_second: Option<u64>,
    time_left_us: Option<u64>,
    begun_units: Vec<BegunUnit<'a>>,
    failed_units: Vec<FailedUnit<'a>>,
    counted_notes: Vec<CountedNote<'a>>,
}

#[derive(Serialize)]
struct CountedNote<'a> {
    code: &'a str,
    entries: u64,
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    message: &'a str,
}

#[derive(Serialize)]
struct Amounts {
    entries: u64,
    bytes: u64,
    deletions: u64,
}

#[derive(Serialize)]
struct BegunUnit<'a> {
    unit: UnitNumber,
    attempt: u64,
    host: &'a str,
    pid: u32,
    begun: (i64, u32),
}

#[derive(Serialize)]
struct FailedUnit<'a> {
    unit: UnitNumber,
    attempt: u64,
    host: &'a str,
    pid: u32,
    ended: (i64, u32),
    entries: u64,
    reasons: Vec<Reason<'a>>,
}

#[derive(Serialize)]
struct Reason<'a> {
    kind: FailureKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    code: Option<&'a str>,
    message: &'a str,
}

/// Formats the state as one object on one line.
pub(super) fn status(plan: &Plan, status: &PlanStatus, notes: &NoteCounts) -> String {
    let (source, destination) = (plan.source.as_path(), plan.destination.as_path());
    let begun_units = status.begun.iter().map(|(unit, attempt)| BegunUnit {
        unit: *unit,
        attempt: attempt.number,
        host: &attempt.worker.host,
        pid: attempt.worker.pid,
        begun: (attempt.begun.0, attempt.begun.1),
    });
    let failed_units = status.failed.iter().map(|(unit, failure)| FailedUnit {
        unit: *unit,
        attempt: failure.attempt,
        host: &failure.worker.host,
        pid: failure.worker.pid,
        ended: (failure.ended.0, failure.ended.1),
        entries: failure.failed,
        reasons: failure.reasons.iter().map(reason).collect(),
    });
    line(&Status {
        schema: SCHEMA,
        event: "unit_status",
        plan: plan.id.to_string(),
        names: Names::new(source, destination),
        complete: status.is_complete(),
        units: status.units,
        done: status.done,
        begun: status.begun.len(),
        failed: status.failed.len(),
        waiting: status.waiting,
        planned: Amounts { entries: plan.entries, bytes: plan.bytes, deletions: plan.deletions },
        finished: Amounts {
            entries: status.amounts.entries,
            bytes: status.amounts.bytes,
            deletions: status.amounts.deleted,
        },
        work_us: microseconds(status.work),
        bytes_per_second: status.bytes_per_second,
        time_left_us: status.time_left.map(microseconds),
        begun_units: begun_units.collect(),
        failed_units: failed_units.collect(),
        counted_notes: notes.counts().map(note).collect(),
    })
}

fn note(count: &NoteCount) -> CountedNote<'_> {
    let path = count.path.as_path();
    CountedNote {
        code: &count.code,
        entries: count.entries,
        path: path.to_string_lossy(),
        path_base64: base64_name(path),
        message: &count.message,
    }
}

fn reason(reason: &FailureReason) -> Reason<'_> {
    let path = reason.path.as_ref().map(|path| path.as_path());
    Reason {
        kind: reason.kind,
        path: path.map(|path| path.to_string_lossy()),
        path_base64: path.and_then(base64_name),
        code: reason.code.as_deref(),
        message: &reason.message,
    }
}
