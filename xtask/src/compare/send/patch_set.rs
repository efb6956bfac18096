//! The two tables of the zero-copy patch set (v4), as they are laid out there: published figures, and
//! those of a run beside them.

use std::fmt::Write;

use super::cases::{FLUSH_EACH, REGISTERED, RING_COPY};
use crate::compare::metric::TIME_EACH;
use crate::compare::row::Row;

/// A size in bytes, and requests a second: non-zc, zc, zc + flush.
type PublishedRow = (usize, [u32; 3]);

const NIC: [PublishedRow; 4] = [
    (4000, [495_134, 606_420, 558_971]),
    (1500, [551_808, 577_116, 565_803]),
    (1000, [584_677, 592_088, 560_885]),
    (600, [596_292, 598_550, 555_366]),
];
const DUMMY: [PublishedRow; 4] = [
    (8000, [1_299_916, 2_396_600, 2_224_219]),
    (4000, [1_869_230, 2_344_146, 2_170_069]),
    (1200, [2_071_617, 2_361_960, 2_203_052]),
    (600, [2_106_794, 2_381_527, 2_195_295]),
];

/// Subjects of the columns.
const COLUMNS: [&str; 3] = [RING_COPY, REGISTERED, FLUSH_EACH];

const NANOSECONDS: f64 = 1e9;

/// Both tables, for the cases that were run; empty if it was none of them.
pub(in crate::compare) fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    for (name, published) in [("NIC", &NIC), ("dummy", &DUMMY)] {
        let measured: Vec<_> = published
            .iter()
            .filter_map(|(bytes, _)| Some((*bytes, measured(rows, *bytes)?)))
            .collect();
        if measured.is_empty() {
            continue;
        }
        let _ = write!(text, "\n{name} (requests / second), as published\n");
        let cells = |row: &PublishedRow| (row.0, row.1.map(f64::from));
        lines(&mut text, published.iter().map(cells));
        text += match name {
            "NIC" => "the same sizes here, on the ifb device: no row is of a NIC\n",
            _ => "here, on the ifb device\n",
        };
        lines(&mut text, measured.into_iter());
    }
    text
}

/// Requests a second in each column.
fn measured(rows: &[Row], bytes: usize) -> Option<[f64; 3]> {
    let case = format!("udp/{bytes}B");
    let rate = |subject: &str| {
        let is_figure = |row: &&Row| {
            row.case == case
                && row.subject == subject
                && row.metric == TIME_EACH.name
                && row.target.is_none()
        };
        Some(NANOSECONDS / rows.iter().find(is_figure)?.value?)
    };
    let [none, zero_copy, flushed] = COLUMNS.map(rate);
    Some([none?, zero_copy?, flushed?])
}

fn lines(text: &mut String, rows: impl Iterator<Item = (usize, [f64; 3])>) {
    let _ = writeln!(text, "{:<7} | {:<9} | {:<18} | zc + flush", "IO size", "non-zc", "zc");
    for (bytes, [none, zero_copy, flushed]) in rows {
        let gain = |rate: f64| format!("{rate:.0} ({:+.1}%)", (rate / none - 1.0) * 100.0);
        let (zero_copy, flushed) = (gain(zero_copy), gain(flushed));
        let _ = writeln!(text, "{bytes:<7} | {none:<9.0} | {zero_copy:<18} | {flushed}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(case: &str, nanoseconds: [f64; 3]) -> Vec<Row> {
        let row = |(subject, value): (&str, f64)| {
            let row = Row::skipped("send", case, subject, "");
            Row { skipped: None, metric: "time".to_owned(), value: Some(value), ..row }
        };
        COLUMNS.into_iter().zip(nanoseconds).map(row).collect()
    }

    #[test]
    fn both_tables_have_published_and_measured_requests_a_second() {
        let mut all = rows("udp/8000B", [2000.0, 1000.0, 1250.0]);
        all.extend(rows("udp/4000B", [1000.0, 1000.0, 2000.0]));
        let text = tables(&all);
        let lines: Vec<&str> = text.lines().collect();
        for expected in [
            "NIC (requests / second), as published",
            "4000    | 495134    | 606420 (+22.5%)    | 558971 (+12.9%)",
            "600     | 596292    | 598550 (+0.4%)     | 555366 (-6.9%)",
            "the same sizes here, on the ifb device: no row is of a NIC",
            "4000    | 1000000   | 1000000 (+0.0%)    | 500000 (-50.0%)",
            "dummy (requests / second), as published",
            "8000    | 1299916   | 2396600 (+84.4%)   | 2224219 (+71.1%)",
            "8000    | 500000    | 1000000 (+100.0%)  | 800000 (+60.0%)",
        ] {
            assert!(lines.contains(&expected), "{expected}: {text}");
        }
        assert_eq!(lines.iter().filter(|line| line.starts_with("4000 ")).count(), 4);
    }

    #[test]
    fn a_run_without_these_cases_has_no_table() {
        assert_eq!(tables(&rows("udp/64000B", [1.0; 3])), "");
        assert_eq!(tables(&rows("udp/8000B", [1.0; 3])[..2]), "", "a column is missing");
        assert_eq!(tables(&[]), "");
    }
}
