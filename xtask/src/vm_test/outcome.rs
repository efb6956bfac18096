//! Results of a program of tests in a guest, and the table of all of them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Line of a test program's JSON, or of the reasons that the testbed writes.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    event: String,
    #[serde(default)]
    name: String,
    /// Reason of a test that was ignored.
    message: Option<String>,
    reason: Option<String>,
    test_count: Option<u64>,
}

/// Results of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) passed: u64,
    /// Names; and why the program itself failed, if it did.
    pub(super) failed: Vec<String>,
    /// Number of tests by reason.
    pub(super) ignored: BTreeMap<String, u64>,
    pub(super) seconds: u64,
}

impl Outcome {
    /// Reads what the guest wrote about the program `name`.
    ///
    /// # Errors
    /// A file is there and cannot be read.
    pub(super) fn read(directory: &Path, name: &str) -> Result<Outcome> {
        let text = |kind: &str| {
            let path = directory.join(format!("{name}.{kind}"));
            if !path.exists() {
                return Ok(String::new());
            }
            let bytes = std::fs::read(&path);
            let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
            anyhow::Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Outcome::of(&text("json")?, &text("reasons")?, &text("status")?))
    }

    /// `status` is the exit status of the program and its seconds.
    fn of(results: &str, reasons: &str, status: &str) -> Outcome {
        let lines = |text: &str| {
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
            lines.collect::<Vec<_>>()
        };
        let reasons = lines(reasons)
            .into_iter()
            .filter_map(|line| Some((line.name, line.reason?)))
            .collect::<BTreeMap<_, _>>();
        let mut outcome = Outcome::default();
        let (mut announced, mut seen, mut lacks) = (None, 0, false);
        for line in lines(results) {
            announced = announced.or(line.test_count);
            if line.kind != "test" {
                continue;
            }
            match line.event.as_str() {
                "ok" => outcome.passed += 1,
                // Under the standard library's harness a test that the kernel lacks something for has failed.
                "failed" if reasons.contains_key(&line.name) => {
                    lacks = true;
                    *outcome.ignored.entry(reasons[&line.name].clone()).or_default() += 1;
                }
                "failed" | "timeout" => outcome.failed.push(line.name),
                "ignored" => {
                    let reason = line.message.or_else(|| reasons.get(&line.name).cloned());
                    let reason = reason.unwrap_or_else(|| "no reason given".to_owned());
                    *outcome.ignored.entry(reason).or_default() += 1;
                }
                _ => continue,
            }
            seen += 1;
        }
        let mut numbers = status.split_whitespace();
        let code = numbers.next();
        outcome.seconds = numbers.next().and_then(|text| text.parse().ok()).unwrap_or_default();
        let missing = announced.unwrap_or_default().saturating_sub(seen);
        let is_clean = match code {
            Some("0") => outcome.failed.is_empty(),
            Some("101") if lacks => true,
            Some(_) => !outcome.failed.is_empty(),
            None => false,
        };
        if !is_clean || missing > 0 || announced.is_none() {
            let how = match code {
                None => "never ended".to_owned(),
                Some("124" | "137") => "took too long".to_owned(),
                Some(code) => format!("ended with {code}"),
            };
            outcome.failed.push(format!("the program {how}, without {missing} results"));
        }
        outcome
    }

    fn ignored(&self) -> u64 {
        self.ignored.values().sum()
    }
}

/// Results of a part of the project on a kernel.
#[derive(Debug)]
pub(super) struct Row {
    /// Version of the kernel's package.
    pub(super) kernel: String,
    pub(super) part: &'static str,
    pub(super) outcome: Outcome,
}

/// Adds up the rows of one kernel and part.
pub(super) fn joined(rows: Vec<Row>) -> Vec<Row> {
    let mut joined: Vec<Row> = Vec::new();
    for row in rows {
        let same =
            joined.iter_mut().find(|other| (&other.kernel, other.part) == (&row.kernel, row.part));
        let Some(Row { outcome, .. }) = same else {
            joined.push(row);
            continue;
        };
        outcome.passed += row.outcome.passed;
        outcome.failed.extend(row.outcome.failed);
        outcome.seconds += row.outcome.seconds;
        for (reason, count) in row.outcome.ignored {
            *outcome.ignored.entry(reason).or_default() += count;
        }
    }
    joined
}

/// Table of the rows, then names of what failed and reasons of what was ignored.
pub(super) fn table(rows: &[Row]) -> String {
    let mut lines = vec![format!(
        "{:<24} {:<10} {:>6} {:>6} {:>7} {:>7}",
        "kernel", "part", "passed", "failed", "ignored", "seconds"
    )];
    for Row { kernel, part, outcome } in rows {
        let (passed, failed) = (outcome.passed, outcome.failed.len());
        let (ignored, seconds) = (outcome.ignored(), outcome.seconds);
        lines.push(format!(
            "{kernel:<24} {part:<10} {passed:>6} {failed:>6} {ignored:>7} {seconds:>7}"
        ));
    }
    for Row { kernel, part, outcome } in rows {
        let failed =
            outcome.failed.iter().map(|name| format!("failed on {kernel}, {part}: {name}"));
        lines.extend(failed);
        let ignored = outcome.ignored.iter();
        lines.extend(
            ignored.map(|(reason, count)| format!("{count} ignored on {kernel}, {part}: {reason}")),
        );
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = r#"{ "type": "suite", "event": "started", "test_count": 3 }
{ "type": "test", "event": "started", "name": "a" }
{ "type": "test", "name": "a", "event": "ok" }
no JSON
{ "type": "test", "name": "b", "event": "ignored" }
{ "type": "test", "name": "c", "event": "ignored", "message": "long" }
"#;
    const REASONS: &str = r#"{"name":"b","reason":"needs reflinks"}"#;

    #[test]
    fn what_is_ignored_has_its_reason() {
        let outcome = Outcome::of(RESULTS, REASONS, "0 12");
        let ignored = [("long".to_owned(), 1), ("needs reflinks".to_owned(), 1)];
        let expected =
            Outcome { passed: 1, failed: Vec::new(), ignored: ignored.into(), seconds: 12 };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn what_failed_for_a_recorded_reason_is_ignored() {
        let reasons = r#"{"name":"a","reason":"no such call"}"#;
        let failed = RESULTS.replace("\"ok\"", "\"failed\"");
        let outcome = Outcome::of(&failed, reasons, "101 1");
        assert_eq!((outcome.passed, outcome.failed.clone()), (0, vec![]));
        assert_eq!(outcome.ignored["no such call"], 1);
        // A program that died, and a test without a reason.
        assert_eq!(Outcome::of(&failed, reasons, "139 1").failed.len(), 1);
        assert_eq!(Outcome::of(&failed, REASONS, "101 1").failed, ["a"]);
    }

    #[test]
    fn what_does_not_end_well_is_no_success() {
        let failed = RESULTS.replace("\"ok\"", "\"failed\"");
        assert_eq!(Outcome::of(&failed, REASONS, "101 1").failed, ["a"]);
        let cut = RESULTS.lines().take(3).collect::<Vec<_>>().join("\n");
        for (results, status, how) in [
            (RESULTS, "139 1", "ended with 139, without 0"),
            (RESULTS, "", "never ended, without 0"),
            (&cut, "0 1", "ended with 0, without 2"),
            (&cut, "124 600", "took too long, without 2"),
            ("", "0 1", "ended with 0, without 0"),
            (&failed, "", "never ended, without 0"),
        ] {
            let found = Outcome::of(results, REASONS, status).failed;
            let last = found.last().unwrap();
            assert_eq!(*last, format!("the program {how} results"), "{status}");
        }
    }

    #[test]
    fn the_table_names_what_failed_and_why_tests_were_ignored() {
        let row = |kernel: &str, part| Row {
            kernel: kernel.to_owned(),
            part,
            outcome: Outcome::of(RESULTS, REASONS, "1 2"),
        };
        let rows =
            joined(vec![row("5.10", "copying"), row("5.10", "copying"), row("6.1", "copying")]);
        assert_eq!(rows.len(), 2);
        let table = table(&rows);
        for line in [
            "5.10                     copying         2      2       4       4",
            "6.1                      copying         1      1       2       2",
            "failed on 6.1, copying: the program ended with 1, without 0 results",
            "2 ignored on 5.10, copying: needs reflinks",
        ] {
            assert!(table.lines().any(|found| found == line), "{line}\n{table}");
        }
    }
}
