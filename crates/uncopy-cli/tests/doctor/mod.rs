//! Tests of `uncopy doctor`.

pub(crate) mod channel;
mod network;
mod predictions;
mod words;

use serde_json::Value;
use testbed::{Case, LONG, Program, Run};

fn uncopy(words: &str) -> Program {
    Program::new(env!("CARGO_BIN_EXE_uncopy")).args(words.split_whitespace())
}

/// Returns the JSON object of a run that ended with this code.
#[track_caller]
fn report(run: &Run, code: i32) -> Value {
    assert_eq!(run.status.code(), Some(code), "{}{}", run.stderr, run.stdout);
    serde_json::from_str(&run.stdout).unwrap()
}

/// Returns the output of a run, if it is JSON.
fn report_or_none(run: &Run) -> Option<Value> {
    serde_json::from_str(&run.stdout).ok()
}

/// Returns the finding with this id.
fn finding<'a>(report: &'a Value, id: &str) -> Option<&'a Value> {
    report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id)
}

pub(crate) fn cases() -> Vec<Case> {
    [channel::cases(), network::cases(), predictions::cases(), words::cases()]
        .into_iter()
        .flatten()
        .collect()
}
