//! Long runs with faults, fuzzing, unsafe code, coverage.

use std::path::PathBuf;

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::super::inputs::{Covered, FuzzRun, Soak};
use super::super::number;
use super::{code, section, table, text};

/// What is no counter of a soak.
const NO_COUNTERS: [&str; 7] =
    ["schema", "suite", "seed", "unix_seconds", "system", "release", "machine"];

/// Columns that name a set of conditions.
const CONDITIONS: [&str; 6] = ["what", "place", "job", "way", "destination", "flags"];

pub(super) fn soaks(soaks: &[Soak]) -> Markup {
    let body = html! {
        p {
            "Hours of operations while processes are killed, disks fill and links go down. "
            "A finding is anything that must not be: a torn, lost or doubled message, a half-written \
             file, a descriptor that stays open."
        }
        @if soaks.is_empty() {
            p.missing { "No record of a soak is in these rows: " (code("cargo xtask soak channel")) }
        }
        @for soak in soaks { (one_soak(soak)) }
    };
    section("soak", "Soak", &body)
}

fn one_soak(soak: &Soak) -> Markup {
    let command = format!("cargo xtask {}", soak.name);
    let kernel = soak.counters.get("release").and_then(Value::as_str);
    let counters = soak.counters.iter().filter(|(key, _)| !NO_COUNTERS.contains(&key.as_str()));
    let (findings, others): (Vec<_>, Vec<_>) = counters.partition(|(key, _)| *key == "findings");
    let mut heads: Vec<&str> = Vec::new();
    for key in soak.parts.iter().flat_map(Map::keys) {
        if !heads.contains(&key.as_str()) {
            heads.push(key);
        }
    }
    // What was done and where, then how, then what was counted.
    heads.sort_by_key(|head| CONDITIONS.iter().position(|c| c == head).unwrap_or(CONDITIONS.len()));
    let lines = soak
        .parts
        .iter()
        .map(|part| heads.iter().map(|head| value(head, part.get(*head))).collect());
    let worded: Vec<String> = heads.iter().map(|head| words(head)).collect();
    let worded: Vec<&str> = worded.iter().map(String::as_str).collect();
    html! {
        h3 { (soak.name) }
        p.note {
            (code(&command))
            @match kernel {
                Some(kernel) => { " on Linux " (kernel) },
                None => { ", machine and kernel not recorded" },
            }
        }
        dl.counters {
            @for (key, counter) in findings.into_iter().chain(others) {
                div { dt { (words(key)) } dd { (value(key, Some(counter))) } }
            }
        }
        @if !soak.parts.is_empty() {
            details {
                summary { (soak.parts.len()) " sets of conditions" }
                (table(&worded, lines))
            }
        }
    }
}

fn words(key: &str) -> String {
    key.replace('_', " ")
}

/// A counter, with the unit that its name says.
fn value(key: &str, value: Option<&Value>) -> Markup {
    match value {
        None | Some(Value::Null) => text("–"),
        Some(Value::Number(count)) => {
            let is_in = |unit: &str| key.split('_').any(|word| word == unit);
            let count = count.as_f64().unwrap_or_default();
            text(match () {
                () if is_in("bytes") => number::bytes(count),
                () if is_in("seconds") => format!("{} s", number::plain(count)),
                () => number::plain(count),
            })
        }
        Some(Value::String(word)) => text(word),
        Some(other) => text(other.to_string()),
    }
}

/// `targets` are all that there are.
pub(super) fn fuzzing(runs: &[FuzzRun], targets: &[String]) -> Markup {
    let without: Vec<&str> = targets
        .iter()
        .filter(|target| !runs.iter().any(|run| run.target == **target))
        .map(String::as_str)
        .collect();
    let lines = runs.iter().map(|run| {
        let findings = number::plain(run.findings as f64);
        vec![
            text(&run.target),
            text(format!("{} s", number::plain(run.seconds))),
            text(number::plain(run.executions as f64)),
            if run.findings == 0 {
                text(findings)
            } else {
                html! { span.bad { (findings) } }
            },
            code(&run.commit),
        ]
    });
    let body = html! {
        p { "Everything that reads bytes from outside, fed with what was never meant for it." }
        @if runs.is_empty() {
            p.missing {
                "No record of a fuzz run is in these rows: "
                (code("cargo xtask fuzz"))
            }
        } @else {
            (table(&["target", "ran", "executions", "findings", "commit"], lines))
            p.note { "These records name no machine and no kernel." }
            @if !without.is_empty() {
                p.missing {
                    (without.len()) " of " (targets.len()) " targets have no record here: "
                    (without.join(", ")) "."
                }
            }
        }
    };
    section("fuzzing", "Fuzzing", &body)
}

pub(super) fn unsafe_code(files: &[(PathBuf, usize)], commit: &str) -> Markup {
    let total: usize = files.iter().map(|(_, count)| count).sum();
    let lines = files
        .iter()
        .map(|(path, count)| vec![code(&path.to_string_lossy()), text(count.to_string())]);
    let body = html! {
        p {
            (total) " blocks, functions and items in " (files.len()) " files"
            @if !commit.is_empty() { ", at commit " (code(commit)) }
            ". " (code("cargo xtask tidy")) " keeps them in their homes and fails where one has no "
            (code("SAFETY:")) " proof above it."
        }
        details {
            summary { "By file" }
            (table(&["file", "unsafe"], lines))
        }
    };
    section("unsafe", "Unsafe code", &body)
}

pub(super) fn coverage(crates: &[Covered], commit: Option<&str>) -> Markup {
    let per_cent = |covered: u64, lines: u64| 100.0 * covered as f64 / (lines.max(1)) as f64;
    let lines = crates.iter().map(|one| {
        let share = per_cent(one.covered, one.lines);
        vec![
            text(&one.name),
            html! {
                span.meter aria-hidden="true" { span style={ "width:" (format!("{share:.1}")) "%" } {} }
                (format!("{share:.1} %"))
            },
            text(number::plain(one.covered as f64)),
            text(number::plain(one.lines as f64)),
        ]
    });
    let body = html! {
        p {
            "Lines that the tests run, by crate: " (code("cargo xtask coverage"))
            @if let Some(commit) = commit { ", at commit " (code(commit)) }
            "."
        }
        @if crates.is_empty() {
            p.missing { "Coverage is not in these rows." }
        } @else {
            (table(&["crate", "covered", "lines run", "lines"], lines))
        }
    };
    section("coverage", "Coverage", &body)
}
