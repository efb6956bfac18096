//! Work that a job left undone: sources that were not tried, and an unfinished tree.

use std::borrow::Cow;

use serde::Serialize;
use uncopy::copy::job::Incomplete;

use super::{Names, SCHEMA, base64_name, line};
use crate::cp::Pair;
use crate::flags::naming;
use crate::report;

/// A source that was not tried.
#[derive(Serialize)]
struct NotTried<'a> {
    schema: u32,
    event: &'static str,
    #[serde(flatten)]
    names: Names<'a>,
}

/// A tree that was left under its temporary name.
#[derive(Serialize)]
struct Left<'a> {
    schema: u32,
    event: &'static str,
    #[serde(flatten)]
    names: Names<'a>,
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    entries: u64,
    resumable: bool,
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    removed_by_next: bool,
}

/// Returns the line for a source that was not tried.
pub(crate) fn not_tried(pair: &Pair) -> String {
    let names = Names::new(&pair.source, &pair.destination);
    line(&NotTried { schema: SCHEMA, event: "not_tried", names })
}

/// Returns the line for a tree that was left under its temporary name.
pub(crate) fn incomplete(incomplete: &Incomplete) -> String {
    let why = incomplete.no_journal.as_ref();
    line(&Left {
        schema: SCHEMA,
        event: "incomplete",
        names: Names::new(&incomplete.source, &incomplete.destination),
        path: incomplete.path.to_string_lossy(),
        path_base64: base64_name(&incomplete.path),
        entries: incomplete.entries,
        resumable: incomplete.no_journal.is_none(),
        reason: why.map(naming::reason),
        code: why.map(|why| report::code(why).unwrap_or(report::kind(why))),
        removed_by_next: incomplete.removed_by_next,
    })
}
