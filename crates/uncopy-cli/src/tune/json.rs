//! What was measured, for programs.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use uncopy::copy::tune::{Compared, Finding, Measured};

use crate::report::json::{SCHEMA, line};

/// One object on one line.
pub(super) fn report(path: &Path, measured: &Measured, file: Option<&Path>) -> String {
    line(&json!({
        "schema": SCHEMA,
        "path": path.to_string_lossy(),
        "filesystem": measured.filesystem.to_string(),
        "identity": measured.identity,
        "settings": measured.findings.iter().map(setting).collect::<Vec<Value>>(),
        "duration_us": microseconds(measured.duration),
        "saved": file.map(|file| file.to_string_lossy()),
    }))
}

fn setting(finding: &Finding) -> Value {
    json!({
        "key": finding.setting,
        "built_in": finding.built_in,
        "value": finding.value,
        "compared": finding.compared.iter().map(compared).collect::<Vec<Value>>(),
        "missing": finding.missing,
    })
}

fn compared(compared: &Compared) -> Value {
    json!({
        "at": compared.at,
        "usual_us": microseconds(compared.usual),
        "other_us": microseconds(compared.other),
        "ratio": compared.ratio,
        "rounds": compared.rounds,
    })
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
