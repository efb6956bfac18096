//! Results of `uncopy verify` for programs, documented in `docs/json.md`.

use std::borrow::Cow;

use serde::Serialize;
use uncopy::copy::Digest;
use uncopy::copy::compare::{CompareFinding, CompareSummary, FindingKind};

use crate::report::Failure;
use crate::report::json::{Problem, SCHEMA, base64_name, line, microseconds};

#[derive(Serialize)]
struct FindingEvent<'a> {
    schema: u32,
    event: &'static str,
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(flatten)]
    problem: Option<Problem<'a>>,
}

/// Formats a finding as one object on one line.
pub(super) fn finding(finding: &CompareFinding) -> String {
    let mut event = FindingEvent {
        schema: SCHEMA,
        event: "unreadable",
        name: finding.name.to_string_lossy(),
        name_base64: base64_name(&finding.name),
        difference: None,
        line: None,
        problem: None,
    };
    match &finding.kind {
        FindingKind::Differs(difference) => {
            (event.event, event.difference) = ("differs", Some(difference.name()));
        }
        FindingKind::Unreadable(error) => {
            let failure = Failure::from(error);
            event.problem = Some(Problem::from(&failure));
            return line(&event);
        }
        FindingKind::Outside => event.event = "outside",
        FindingKind::Malformed { line } => {
            (event.event, event.line) = ("malformed", Some(*line));
        }
        _ => {}
    }
    line(&event)
}

#[derive(Serialize)]
struct Compared {
    schema: u32,
    event: &'static str,
    same: bool,
    entries: u64,
    bytes: u64,
    different: u64,
    missing: u64,
    extra: u64,
    unreadable: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    doubted: Option<&'static str>,
    duration_us: u64,
}

/// Formats the result as one object on one line.
pub(super) fn summary(summary: &CompareSummary) -> String {
    line(&Compared {
        schema: SCHEMA,
        event: "compared",
        same: summary.is_same(),
        entries: summary.entries,
        bytes: summary.bytes,
        different: summary.different,
        missing: summary.missing,
        extra: summary.extra,
        unreadable: summary.unreadable,
        doubted: summary.doubted.map(Digest::name),
        duration_us: microseconds(summary.duration),
    })
}
