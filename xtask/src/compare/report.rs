//! Rows for people and for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::json;

use super::case::Suite;
use super::host::Host;
use super::row::Row;

/// How rows are printed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Report {
    /// A line of JSON each.
    Json,
    /// A table for each case, then its targets.
    Table,
}

/// The machine and the peers of a run.
pub(super) struct Surroundings {
    pub(super) host: Host,
    /// Versions of the peers that are here.
    pub(super) peers: BTreeMap<&'static str, String>,
}

/// So much of a reason is shown in a table.
const REASON_CHARACTERS: usize = 110;

impl Report {
    /// Prints the lines above the rows.
    pub(super) fn begin(self, suite: &Suite, surroundings: &Surroundings) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self {
            Report::Json => {
                let absent: Vec<_> = suite
                    .absent
                    .iter()
                    .map(|(subject, reason)| json!({"subject": subject, "reason": reason}))
                    .collect();
                let line = json!({
                    "schema": 1, "suite": suite.name, "notes": suite.notes, "absent": absent,
                    "host": surroundings.host, "peers": surroundings.peers,
                });
                writeln!(out, "{line}")
            }
            Report::Table => {
                writeln!(out, "suite {}", suite.name)?;
                for note in &suite.notes {
                    writeln!(out, "  {note}")?;
                }
                for (subject, reason) in &suite.absent {
                    writeln!(out, "  skipped: {subject}: {reason}")?;
                }
                Ok(())
            }
        }
    }

    /// The rows of one case.
    pub(super) fn rows(self, rows: &[Row]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self {
            Report::Json => {
                for row in rows {
                    writeln!(out, "{}", serde_json::to_string(row)?)?;
                }
            }
            Report::Table => out.write_all(table(rows).as_bytes())?,
        }
        out.flush()
    }
}

fn table(rows: &[Row]) -> String {
    let case = rows.first().map_or("", |row| row.case.as_str());
    let (targets, rest): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.target.is_some());
    let mut metrics: Vec<&str> = Vec::new();
    let mut subjects: Vec<&str> = Vec::new();
    for row in &rest {
        if !metrics.contains(&row.metric.as_str()) && row.skipped.is_none() {
            metrics.push(&row.metric);
        }
        if !subjects.contains(&row.subject.as_str()) {
            subjects.push(&row.subject);
        }
    }
    let width = subjects.iter().map(|subject| subject.len()).max().unwrap_or(0);
    let mut text = format!("\n{case:<0$}", width + 2);
    for metric in &metrics {
        text += &format!(" {metric:>19}");
    }
    text.push('\n');
    for subject in subjects {
        text += &format!("  {subject:<width$}");
        let own = |row: &&&Row| row.subject == subject;
        if let Some(reason) = rest.iter().find(own).and_then(|row| row.skipped.as_deref()) {
            text += &format!("  skipped: {}", shortened(reason));
        } else {
            for metric in &metrics {
                let row = rest.iter().find(|row| row.subject == subject && row.metric == *metric);
                text += &format!(" {:>19}", row.map_or_else(String::new, |row| cell(row)));
            }
        }
        text.push('\n');
    }
    for row in targets {
        text += &format!("  {}\n", target_line(row));
    }
    text
}

/// A figure, and its ratio to the baseline.
fn cell(row: &Row) -> String {
    let figure = row.value.map_or_else(String::new, |value| quantity(value, &row.unit));
    match row.ratio {
        Some(ratio) => format!("{figure} {ratio:>6.3}x"),
        None => format!("{figure}        "),
    }
}

fn target_line(row: &Row) -> String {
    let limit = row.target.unwrap_or_default();
    let verdict = match row.met {
        Some(true) => "met   ",
        Some(false) => "MISSED",
        None => "not judged",
    };
    let mut line = format!("{verdict} {} {}: ", row.subject, row.metric);
    match (row.ratio, &row.baseline, row.value) {
        (Some(ratio), Some(baseline), _) => {
            let noise = row.noise.unwrap_or_default() * 100.0;
            line += &format!("{ratio:.3} of {baseline}, at most {limit:.3} (noise {noise:.1} %)");
        }
        (_, _, Some(value)) => {
            line +=
                &format!("{}, at most {}", quantity(value, &row.unit), quantity(limit, &row.unit));
        }
        _ => line += &format!("at most {limit:.3}"),
    }
    if let Some(reason) = &row.skipped {
        line += &format!(": {}", shortened(reason));
    }
    line
}

/// Its beginning, with no directories in it.
fn shortened(reason: &str) -> String {
    let plain = without_directories(reason);
    match plain.char_indices().nth(REASON_CHARACTERS) {
        Some((end, _)) => format!("{}…", &plain[..end]),
        None => plain,
    }
}

/// Paths say where somebody measured, and nothing about what.
pub(crate) fn without_directories(reason: &str) -> String {
    let last_part = |word: &str| match word.starts_with('/') {
        true => word.rsplit('/').next().unwrap_or(word).to_owned(),
        false => word.to_owned(),
    };
    reason.split(' ').map(last_part).collect::<Vec<_>>().join(" ")
}

/// A number with its unit, scaled for reading.
fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "s" if value < 0.1 => format!("{:.3} ms", value * 1e3),
        "s" => format!("{value:.3} s"),
        "ns" if value < 10_000.0 => format!("{value:.1} ns"),
        "ns" => format!("{:.2} µs", value / 1e3),
        "B" if value < 1024.0 => format!("{value:.0} B"),
        "B" if value < 1_048_576.0 => format!("{:.1} KiB", value / 1024.0),
        "B" => format!("{:.1} MiB", value / 1_048_576.0),
        _ => format!("{value} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::metric::{DISK, Metric, WALL};
    use super::*;

    fn row(subject: &str, metric: Metric, value: f64, ratio: Option<f64>) -> Row {
        let mut row = Row::skipped("copy", "ext4/1MiB/warm", subject, "");
        (row.skipped, row.metric, row.unit) = (None, metric.name.into(), metric.unit.into());
        (row.value, row.ratio, row.baseline) = (Some(value), ratio, ratio.map(|_| "cp".into()));
        row
    }

    #[test]
    fn quantities_are_scaled() {
        for (value, unit, expected) in [
            (0.0123, "s", "12.300 ms"),
            (1.5, "s", "1.500 s"),
            (53.21, "ns", "53.2 ns"),
            (12_345.0, "ns", "12.35 µs"),
            (512.0, "B", "512 B"),
            (2048.0, "B", "2.0 KiB"),
            (1_048_576.0, "B", "1.0 MiB"),
        ] {
            assert_eq!(quantity(value, unit), expected);
        }
    }

    #[test]
    fn reasons_are_short_and_without_directories() {
        assert_eq!(shortened("cannot copy /a/b/source: no"), "cannot copy source: no");
        assert_eq!(shortened(&"ö".repeat(500)).chars().count(), REASON_CHARACTERS + 1);
    }

    #[test]
    fn a_row_without_target_has_no_target_keys() {
        let row = Row::skipped("copy", "c", "s", "/home/me/x: it is not here");
        let text = serde_json::to_string(&row).unwrap();
        assert!(!text.contains("target") && !text.contains("met\":"), "{text}");
        assert!(text.starts_with("{\"suite\":\"copy\",\"case\":\"c\",\"subject\":\"s\""), "{text}");
        assert!(text.ends_with("\"skipped\":\"x: it is not here\"}"), "{text}");
    }

    #[test]
    fn a_table_has_a_line_for_each_subject_and_each_target() {
        let mut judged = row("uncopy", WALL, 0.5, Some(0.5));
        (judged.target, judged.met, judged.noise) = (Some(1.0), Some(true), Some(0.02));
        let mut missed = row("uncopy", DISK, 2e6, None);
        (missed.target, missed.met) = (Some(1e6), Some(false));
        let rows = [
            row("cp", WALL, 1.0, Some(1.0)),
            row("cp", DISK, 1e6, None),
            row("uncopy", WALL, 0.5, Some(0.5)),
            Row::skipped("copy", "ext4/1MiB/warm", "xcp", "it is not built"),
            judged,
            missed,
        ];
        let text = table(&rows);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["ext4/1MiB/warm", "wall", "disk"]);
        assert_eq!(lines[2], ["cp", "1.000", "s", "1.000x", "976.6", "KiB"]);
        assert_eq!(lines[3], ["uncopy", "0.500", "s", "0.500x"]);
        assert_eq!(lines[4].join(" "), "xcp skipped: it is not built");
        let met = "met uncopy wall: 0.500 of cp, at most 1.000 (noise 2.0 %)";
        assert_eq!(lines[5].join(" "), met);
        assert_eq!(lines[6].join(" "), "MISSED uncopy disk: 1.9 MiB, at most 976.6 KiB");
    }
}
