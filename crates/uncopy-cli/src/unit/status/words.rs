//! State of a plan for people.

use std::fmt::Write as _;
use std::time::Duration;

use indicatif::{BinaryBytes, HumanDuration};
use uncopy::unit::format::{Plan, Time};
use uncopy::unit::ledger::{FailureKind, FailureReason};
use uncopy::unit::status::PlanStatus;

use crate::report::human::counted;
use crate::report::printable;
use crate::unit::notes::NoteCounts;

/// Maximum number of units of a kind that are listed.
const MAX_LISTED: usize = 20;

/// Maximum number of reasons of a unit that are listed.
const MAX_REASONS: usize = 3;

/// Describes a plan. `now` is the time of this machine; of units on others it shows how long ago they were begun, if the
/// clocks agree.
pub(super) fn status(plan: &Plan, status: &PlanStatus, notes: &NoteCounts, now: Time) -> String {
    let PlanStatus { done, units, waiting, amounts, .. } = status;
    let mut text = format!("{done} of {} done", counted((*units).into(), "unit", "units"));
    let others = [
        (status.begun.len(), "begun"),
        (status.failed.len(), "failed"),
        (*waiting as usize, "waiting"),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, ", {count} {what}");
    }
    let _ = write!(
        text,
        "\n{} of {} entries, {} of {}",
        amounts.entries,
        plan.entries,
        BinaryBytes(amounts.bytes),
        BinaryBytes(plan.bytes)
    );
    if plan.deletions > 0 {
        let _ = write!(text, ", {} of {} deleted", amounts.deleted, plan.deletions);
    }
    if let Some(rate) = status.bytes_per_second {
        let _ = write!(text, "; about {}/s", BinaryBytes(rate));
    }
    if let Some(left) = status.time_left {
        let _ = write!(text, ", {:#} left", HumanDuration(left));
    }
    text.push('\n');
    for (unit, attempt) in status.begun.iter().take(MAX_LISTED) {
        let (host, pid) = (printable(&attempt.worker.host), attempt.worker.pid);
        let _ = write!(text, "unit {unit} begun by process {pid} on {host}");
        if let Some(ago) = since(attempt.begun, now) {
            let _ = write!(text, " {:#} ago", HumanDuration(ago));
        }
        text.push('\n');
    }
    text.push_str(&more(status.begun.len(), "units begun"));
    for (unit, failure) in status.failed.iter().take(MAX_LISTED) {
        let host = printable(&failure.worker.host);
        let _ = writeln!(text, "unit {unit} failed on {host}, attempt {}", failure.attempt);
        for reason in failure.reasons.iter().take(MAX_REASONS) {
            let _ = writeln!(text, "  {}", printable(&reason_line(reason)));
        }
        let rest = failure.failed.saturating_sub(failure.reasons.len().min(MAX_REASONS) as u64);
        if rest > 0 {
            let _ = writeln!(text, "  and {rest} more");
        }
    }
    text.push_str(&more(status.failed.len(), "units failed"));
    for line in notes.lines() {
        let _ = writeln!(text, "{line}");
    }
    text
}

fn more(count: usize, what: &str) -> String {
    match count.checked_sub(MAX_LISTED) {
        None | Some(0) => String::new(),
        Some(more) => format!("and {more} more {what}\n"),
    }
}

fn reason_line(reason: &FailureReason) -> String {
    let kind = kind_words(reason.kind);
    match &reason.path {
        Some(path) => format!("{path}: {kind}: {}", reason.message),
        None => format!("{kind}: {}", reason.message),
    }
}

fn kind_words(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::SourceChanged => "the source has changed since the plan",
        FailureKind::Conflict => "the destination has changed since the plan",
        FailureKind::Verification => "verification failed",
        FailureKind::Interrupted => "interrupted",
        FailureKind::Overtaken => "another attempt was begun",
        FailureKind::NotYet => "other units come first",
        _ => "error",
    }
}

/// Returns the time that has passed. `None`: the clocks do not agree.
pub(in crate::unit) fn since(then: Time, now: Time) -> Option<Duration> {
    u64::try_from(now.0.checked_sub(then.0)?).ok().map(Duration::from_secs)
}
