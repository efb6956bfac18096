//! Sums over audit logs for programs, documented in `docs/json.md`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::tally::{RowNames, Tally};
use super::{JobEnd, JobStats};
use crate::audit::chain::ChainBreak;
use crate::report::json::{SCHEMA, base64_name, line};

#[derive(Serialize)]
struct Job<'a> {
    schema: u32,
    event: &'static str,
    file: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_base64: Option<String>,
    job: &'a str,
    begin: &'a str,
    end: &'static str,
    #[serde(flatten)]
    sums: Sums<'a>,
}

#[derive(Serialize)]
struct Total<'a> {
    schema: u32,
    event: &'static str,
    unbroken: bool,
    jobs: u64,
    interrupted: u64,
    unfinished: u64,
    #[serde(flatten)]
    sums: Sums<'a>,
}

/// Keys that a job and all jobs have.
#[derive(Serialize)]
struct Sums<'a> {
    entries: u64,
    results: &'a BTreeMap<String, u64>,
    bytes: u64,
    mechanisms: Vec<PortionRow<'a>>,
    zero_copy_bytes: u64,
    copied_bytes: u64,
    unknown_bytes: u64,
    zero_copy_share: Option<f64>,
    refusals: Vec<RefusalRow<'a>>,
    failures: Vec<FailureRow<'a>>,
    compression: CompressionSums,
    guesses: Guesses,
    copying_us: u64,
    elapsed_us: u64,
}

#[derive(Serialize)]
struct PortionRow<'a> {
    name: &'a str,
    cost: &'a str,
    bytes: u64,
}

#[derive(Serialize)]
struct RefusalRow<'a> {
    mechanism: &'a str,
    code: &'a str,
    files: u64,
}

#[derive(Serialize)]
struct FailureRow<'a> {
    kind: &'a str,
    code: Option<&'a str>,
    entries: u64,
}

#[derive(Serialize)]
struct CompressionSums {
    files: u64,
    source_bytes: u64,
    bytes: u64,
    sampled_bytes: u64,
}

#[derive(Serialize)]
struct Guesses {
    right: u64,
    wrong: u64,
    unchecked: u64,
}

impl<'a> From<&'a Tally> for Sums<'a> {
    fn from(tally: &'a Tally) -> Sums<'a> {
        let (zero_copy, unknown) = (tally.zero_copy_bytes(), tally.unknown_bytes());
        let all = tally.portion_bytes();
        let compression = tally.compression;
        Sums {
            entries: tally.entries,
            results: &tally.results,
            bytes: tally.bytes,
            mechanisms: rows(&tally.portions, |name, cost, bytes| PortionRow { name, cost, bytes }),
            zero_copy_bytes: zero_copy,
            copied_bytes: all.saturating_sub(zero_copy).saturating_sub(unknown),
            unknown_bytes: unknown,
            zero_copy_share: tally.zero_copy_share(),
            refusals: rows(&tally.refusals, |mechanism, code, files| RefusalRow {
                mechanism,
                code,
                files,
            }),
            failures: rows(&tally.failures, |kind, code, entries| FailureRow {
                kind,
                code: Some(code).filter(|code| !code.is_empty()),
                entries,
            }),
            compression: CompressionSums {
                files: compression.files,
                source_bytes: compression.source_bytes,
                bytes: compression.bytes,
                sampled_bytes: compression.sampled_bytes,
            },
            guesses: Guesses {
                right: compression.right,
                wrong: compression.wrong,
                unchecked: compression.unchecked,
            },
            copying_us: tally.time.copying_us,
            elapsed_us: tally.time.elapsed_us,
        }
    }
}

fn rows<'a, Row>(
    rows: &'a BTreeMap<RowNames, u64>,
    row: impl Fn(&'a str, &'a str, u64) -> Row,
) -> Vec<Row> {
    rows.iter().map(|((one, other), count)| row(one, other, *count)).collect()
}

/// Formats the sums of a job as one object on one line.
pub(super) fn job(file: &Path, stats: &JobStats, end: JobEnd) -> String {
    line(&Job {
        schema: SCHEMA,
        event: "job",
        file: file.to_string_lossy(),
        file_base64: base64_name(file),
        job: &stats.job,
        begin: &stats.begin,
        end: end.name(),
        sums: Sums::from(&stats.tally),
    })
}

/// Sums over all jobs.
pub(super) struct Whole<'a> {
    pub(super) tally: &'a Tally,
    pub(super) is_unbroken: bool,
    pub(super) jobs: u64,
    pub(super) interrupted: u64,
    pub(super) unfinished: u64,
}

/// Formats the sums of all jobs as one object on one line.
pub(super) fn total(whole: &Whole<'_>) -> String {
    line(&Total {
        schema: SCHEMA,
        event: "total",
        unbroken: whole.is_unbroken,
        jobs: whole.jobs,
        interrupted: whole.interrupted,
        unfinished: whole.unfinished,
        sums: Sums::from(whole.tally),
    })
}

#[derive(Serialize)]
struct Trouble<'a> {
    schema: u32,
    event: &'static str,
    file: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    message: String,
}

/// Formats the break of a chain as one object on one line.
pub(super) fn broken(file: &Path, broken: ChainBreak) -> String {
    let (event, number) = ("broken", Some(broken.line));
    trouble(file, event, number, Some(broken.kind.code()), broken.to_string())
}

/// Formats why a log was not read to its end as one object on one line.
pub(super) fn unreadable(file: &Path, message: String) -> String {
    trouble(file, "unreadable", None, None, message)
}

fn trouble(
    file: &Path,
    event: &'static str,
    number: Option<u64>,
    code: Option<&'static str>,
    message: String,
) -> String {
    let (name, file_base64) = (file.to_string_lossy(), base64_name(file));
    line(&Trouble { schema: SCHEMA, event, file: name, file_base64, line: number, code, message })
}
