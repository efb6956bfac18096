//! Rows for people and for programs.

use std::io::{self, Write};

use serde_json::json;

use super::case::Suite;
use super::row::Row;

/// Where rows go.
pub(super) enum Report {
    Json,
    Table {
        /// The case whose rows were printed last.
        case: String,
    },
}

impl Report {
    pub(super) fn new(json: bool) -> Report {
        if json { Report::Json } else { Report::Table { case: String::new() } }
    }

    /// What stands above the rows.
    pub(super) fn begin(&self, suite: &Suite) -> io::Result<()> {
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
                });
                writeln!(out, "{line}")
            }
            Report::Table { .. } => {
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

    pub(super) fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for row in rows {
            match self {
                Report::Json => writeln!(out, "{}", serde_json::to_string(row)?)?,
                Report::Table { case } => {
                    if *case != row.case {
                        case.clone_from(&row.case);
                        writeln!(out, "\n{case}")?;
                    }
                    writeln!(out, "{}", line_of(row))?;
                }
            }
        }
        out.flush()
    }
}

fn line_of(row: &Row) -> String {
    let figure = row.value.map_or_else(|| "-".to_owned(), |value| quantity(value, row.unit));
    let mut line = format!("  {:<28} {:<14} {figure:>11}", row.subject, row.metric);
    if let (Some(ratio), Some(baseline)) = (row.ratio, &row.baseline) {
        line += &format!("  {ratio:>7.3} x {baseline}");
    }
    if let Some(target) = row.target {
        let limit =
            if row.baseline.is_some() { target.to_string() } else { quantity(target, row.unit) };
        let verdict = match row.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not judged",
        };
        line += &format!("  target: at most {limit}: {verdict}");
        if let (Some(noise), Some(_)) = (row.noise, row.met) {
            line += &format!(" (noise {:.1} %)", noise * 100.0);
        }
    }
    if let Some(reason) = &row.skipped {
        line += &format!("  skipped: {reason}");
    }
    line
}

/// A number with its unit, scaled for reading.
fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "s" if value < 0.1 => format!("{:.3} ms", value * 1e3),
        "s" => format!("{value:.3} s"),
        "B" if value < 1024.0 => format!("{value:.0} B"),
        "B" if value < 1_048_576.0 => format!("{:.1} KiB", value / 1024.0),
        "B" => format!("{:.1} MiB", value / 1_048_576.0),
        _ => format!("{value} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::metric::DISK;
    use super::*;

    #[test]
    fn quantities_are_scaled() {
        for (value, unit, expected) in [
            (0.0123, "s", "12.300 ms"),
            (1.5, "s", "1.500 s"),
            (512.0, "B", "512 B"),
            (2048.0, "B", "2.0 KiB"),
            (1_048_576.0, "B", "1.0 MiB"),
        ] {
            assert_eq!(quantity(value, unit), expected);
        }
    }

    #[test]
    fn a_row_without_target_has_no_target_keys() {
        let row = Row::skipped("copy", "c", "s", "it is not here");
        let text = serde_json::to_string(&row).unwrap();
        assert!(!text.contains("target") && !text.contains("met\":"), "{text}");
        assert!(text.starts_with("{\"suite\":\"copy\",\"case\":\"c\",\"subject\":\"s\""), "{text}");
        assert!(text.ends_with("\"skipped\":\"it is not here\"}"), "{text}");
    }

    #[test]
    fn a_missed_target_is_seen() {
        let mut row = Row::skipped("copy", "c", "s", "");
        row.skipped = None;
        row.value = Some(2e6);
        row.unit = DISK.unit;
        row.target = Some(1e6);
        row.met = Some(false);
        assert!(line_of(&row).ends_with("target: at most 976.6 KiB: MISSED"), "{}", line_of(&row));
    }
}
