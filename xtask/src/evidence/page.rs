//! The report as one page of HTML that needs nothing else: pure. The template, `page.html`, escapes
//! what it is given.

use std::path::PathBuf;

use anyhow::{Context, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::inputs::{Comparison, Inputs, Soak};
use super::number;
use super::plots::{MARKS, Plots};
use super::texts::{Claim, ClaimVerdict, Here, Table, Text, TextRow, Texts, command};
use crate::compare::report::without_directories;
use crate::compare::row::Row;

/// Contents of the page.
pub(super) struct Page<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) texts: &'a Texts,
    pub(super) plots: &'a Plots,
    /// Suites that did not run, and why.
    pub(super) failures: Vec<(String, String)>,
    /// Files with unsafe code, and the number of its blocks, functions and items.
    pub(super) unsafe_code: &'a [(PathBuf, usize)],
    pub(super) fuzz_targets: Vec<String>,
    /// Address of Criterion's own reports, if there are any.
    pub(super) criterion: Option<String>,
    /// Files of rows beside the page.
    pub(super) files: Vec<String>,
    /// The commit of the tree whose unsafe code is counted.
    pub(super) commit: &'a str,
}

impl Page<'_> {
    /// Renders the page.
    ///
    /// # Errors
    /// If the template does not fit what it is given, or a curve cannot be drawn.
    pub(super) fn html(&self) -> Result<String> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment
            .set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        environment.add_filter("plain", number::plain);
        environment.add_filter("bytes", number::bytes);
        environment.add_filter("quantity", |value: f64, unit: &str| number::quantity(value, unit));
        environment.add_template("page.html", include_str!("page.html"))?;
        let comparisons = &self.inputs.comparisons;
        let rows = || comparisons.iter().flat_map(|comparison| &comparison.rows);
        let missed: Vec<&Row> = rows().filter(|row| row.met == Some(false)).collect();
        let unsafe_total: usize = self.unsafe_code.iter().map(|(_, count)| count).sum();
        let unrecorded =
            |target: &&String| !self.inputs.fuzzing.iter().any(|run| run.target == **target);
        let unrecorded: Vec<&String> = self.fuzz_targets.iter().filter(unrecorded).collect();
        let of_comparisons: Vec<Value> = comparisons.iter().map(of_comparison).collect();
        let soaks: Vec<Value> = self.inputs.soaks.iter().map(of_soak).collect();
        let notes = || comparisons.iter().flat_map(|comparison| &comparison.notes);
        let missing_suites: Vec<(&str, String)> =
            ["copy", "copy_methods", "tree", "channel", "zx", "fidl", "send"]
                .into_iter()
                .filter(|suite| self.inputs.comparison(suite).is_none())
                .map(|suite| (suite, whole(suite)))
                .collect();
        let contents = json!({
            "style": include_str!("style.css"),
            "marks": MARKS,
            "quick": notes().any(|note| note.starts_with("quick")),
            "failures": self.failures,
            "comparisons": of_comparisons,
            "cases_of_unknown_host": comparisons.iter().map(Comparison::cases_of_unknown_host).sum::<usize>(),
            "texts": self.texts.text.iter().map(|text| of_text(text, self.inputs)).collect::<Vec<_>>(),
            "plots": self.curves()?,
            "missing_suites": missing_suites,
            "trees": self.inputs.comparison("tree").map(of_trees),
            "crossovers": self.crossovers(),
            "missed": missed,
            "soaks": soaks,
            "fuzzing": &self.inputs.fuzzing,
            "fuzz_targets": self.fuzz_targets.len(),
            "unrecorded": unrecorded,
            "unsafe_code": self.unsafe_code,
            "unsafe_total": unsafe_total,
            "coverage": &self.inputs.coverage,
            "coverage_commit": self.inputs.coverage_commit,
            "files": self.files,
            "criterion": self.criterion,
            "commit": self.commit,
        });
        environment
            .get_template("page.html")?
            .render(Serde(contents))
            .context("cannot render page.html")
    }

    fn curves(&self) -> Result<Vec<Value>> {
        let mut curves = Vec::new();
        for plot in &self.plots.plot {
            let Some(comparison) = self.inputs.comparison(&plot.suite) else { continue };
            let series = self.plots.series(plot, comparison);
            if series.is_empty() {
                continue;
            }
            let (heads, lines) = plot.table(&series);
            let (svg, command) = (plot.draw(&series)?, plot.command());
            let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
            curves.push(json!({ "title": plot.title, "svg": svg, "names": names, "command": command, "heads": heads, "lines": lines }));
        }
        Ok(curves)
    }

    fn crossovers(&self) -> Vec<Value> {
        let line = |pair: &super::plots::Rivals| {
            let comparison = self.inputs.comparison(&pair.suite);
            json!({
                "first": pair.first, "second": pair.second,
                "metric": if pair.metric == "cpu" { "processor time" } else { "time" },
                "by": pair.x.label(),
                "cases": format!("{} {}", pair.suite, pair.cases.replace("{}", "…")),
                "crossover": comparison.and_then(|comparison| pair.crossover(comparison)),
                "command": whole(&pair.suite),
            })
        };
        self.plots.rivals.iter().map(line).collect()
    }
}

/// The command for a whole suite.
fn whole(suite: &str) -> String {
    match suite {
        "copy_methods" => command(suite, ""),
        suite => format!("cargo xtask compare {suite}"),
    }
}

/// `all` without repetitions, in its order.
fn distinct<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

fn of_comparison(comparison: &Comparison) -> Value {
    let judged = |met: Option<bool>| {
        comparison.rows.iter().filter(|row| row.target.is_some() && row.met == met).count()
    };
    let cases = comparison.cases();
    json!({
        "suite": comparison.suite, "notes": comparison.notes, "peers": comparison.peers,
        "absent": &comparison.absent,
        "runs": &comparison.runs,
        "rows": comparison.rows.len(),
        "cases_of_unknown_host": comparison.cases_of_unknown_host(),
        "met": judged(Some(true)), "missed": judged(Some(false)), "not_judged": judged(None),
        "has_targets": comparison.rows.iter().any(|row| row.target.is_some()),
        "cases": cases.iter().map(|case| of_case(comparison, case)).collect::<Vec<_>>(),
    })
}

fn of_case(comparison: &Comparison, case: &str) -> Value {
    let figures = || comparison.figures(case);
    let measured = || figures().filter(|row| row.skipped.is_none());
    let metrics = distinct(measured().map(|row| row.metric.as_str()));
    let subjects = distinct(figures().map(|row| row.subject.as_str()));
    let why_skipped = |subject: &str| {
        let mut own = figures().filter(|row| row.subject == subject);
        own.next().and_then(|row| row.skipped.as_deref())
    };
    let line = |subject: &&str| {
        let cell = |metric: &&str| {
            let row = comparison.figure(case, subject, metric)?;
            Some((number::quantity(row.value?, &row.unit), row.ratio.map(number::plain)))
        };
        (subject.to_string(), metrics.iter().map(cell).collect::<Vec<_>>())
    };
    let (skipped, lines): (Vec<&str>, Vec<&str>) =
        subjects.iter().partition(|subject| why_skipped(subject).is_some());
    let skipped = skipped.iter().filter_map(|subject| {
        Some((subject.to_string(), without_directories(why_skipped(subject)?)))
    });
    json!({
        "name": case, "metrics": metrics,
        "baseline": figures().find_map(|row| row.baseline.as_deref()),
        "lines": lines.iter().map(line).collect::<Vec<_>>(),
        "skipped": skipped.collect::<Vec<_>>(),
    })
}

/// For each metric a figure and its part of the longest, for each case and subject.
fn of_trees(tree: &Comparison) -> Vec<Value> {
    let one = |(title, metric): (&str, &str)| {
        let rows = tree.rows.iter().filter(|row| row.target.is_none() && row.metric == metric);
        let subjects = rows.map(|row| row.subject.as_str());
        let mut subjects = distinct(subjects.filter(|subject| !subject.ends_with("(again)")));
        // Ours first, as in the curves.
        subjects.sort_by_key(|subject| !subject.starts_with("uncopy"));
        let line = |case: &&str| {
            let value =
                |subject: &&str| tree.figure(case, subject, metric).and_then(|row| row.value);
            let longest = subjects.iter().filter_map(value).fold(f64::MIN_POSITIVE, f64::max);
            let cell = |subject| {
                let value: f64 = value(subject)?;
                Some((number::seconds(value), format!("{:.1}", 100.0 * value / longest)))
            };
            (case.to_string(), subjects.iter().map(cell).collect::<Vec<_>>())
        };
        let lines: Vec<_> = tree.cases().iter().map(line).collect();
        json!({ "title": title, "subjects": subjects, "lines": lines })
    };
    [("Whole trees: time", "wall"), ("Whole trees: CPU", "cpu")].map(one).to_vec()
}

fn of_soak(soak: &Soak) -> Value {
    /// Keys that count nothing.
    const NO_COUNTERS: [&str; 7] =
        ["schema", "suite", "seed", "unix_seconds", "system", "release", "machine"];
    /// Columns that name a set of conditions.
    const CONDITIONS: [&str; 6] = ["what", "place", "job", "way", "destination", "flags"];
    let words = |key: &str| key.replace('_', " ");
    let counters = soak.counters.iter().filter(|(key, _)| !NO_COUNTERS.contains(&key.as_str()));
    let mut counters: Vec<_> =
        counters.map(|(key, value)| (words(key), counter(key, Some(value)))).collect();
    counters.sort_by_key(|(key, _)| key != "findings");
    let mut heads = distinct(soak.parts.iter().flat_map(Map::keys).map(String::as_str));
    // The operation and its place, then its conditions, then the counters.
    heads.sort_by_key(|head| CONDITIONS.iter().position(|c| c == head).unwrap_or(CONDITIONS.len()));
    let line = |part: &Map<String, Value>| {
        heads.iter().map(|head| counter(head, part.get(*head))).collect::<Vec<_>>()
    };
    json!({
        "name": soak.name, "counters": counters,
        "kernel": soak.counters.get("release").and_then(Value::as_str),
        "heads": heads.iter().map(|head| words(head)).collect::<Vec<_>>(),
        "lines": soak.parts.iter().map(line).collect::<Vec<_>>(),
    })
}

/// A counter, with the unit that its name says.
fn counter(key: &str, value: Option<&Value>) -> String {
    let is_in = |unit: &str| key.split('_').any(|word| word == unit);
    match value {
        None | Some(Value::Null) => "–".to_owned(),
        Some(Value::Number(count)) => {
            let count = count.as_f64().unwrap_or_default();
            match () {
                () if is_in("bytes") => number::bytes(count),
                () if is_in("seconds") => format!("{} s", number::plain(count)),
                () => number::plain(count),
            }
        }
        Some(Value::String(word)) => word.clone(),
        Some(other) => other.to_string(),
    }
}

fn of_text(text: &Text, inputs: &Inputs) -> Value {
    let claims = text.claim.iter().map(|claim| of_claim(claim, text, inputs));
    json!({
        "title": text.title, "url": text.url, "about": text.about,
        "tables": text.table.iter().map(|table| of_table(table, inputs)).collect::<Vec<_>>(),
        "claims": claims.collect::<Vec<_>>(),
    })
}

fn with_unit(number: &str, unit: &str) -> String {
    let space = if unit.starts_with(['×', '%', '/']) && unit != "% CPU" { "" } else { " " };
    format!("{number}{space}{unit}")
}

/// A figure a line; or as the text has it, where nothing here can stand beside it.
fn of_table(table: &Table, inputs: &Inputs) -> Value {
    let cells =
        |row: &TextRow| table.column.iter().map(|column| row.here(column, inputs)).collect();
    let here: Vec<Vec<Here>> = table.row.iter().map(cells).collect();
    let is_beside = here.iter().flatten().any(|here| here.value().is_some());
    let theirs = |row: &TextRow, index: usize| {
        let unit = &table.column[index].unit;
        row.figure(index).map(|figure| with_unit(&number::exact(figure), unit))
    };
    let (mut lines, mut reasons, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    for (row, here) in table.row.iter().zip(&here) {
        for (index, (column, here)) in table.column.iter().zip(here).enumerate() {
            // A gain has no ratio to a loss.
            let both =
                row.figure(index).zip(here.value()).filter(|(theirs, ours)| theirs * ours > 0.0);
            let between = |[least, most]: [f64; 2]| {
                format!("({} to {})", number::plain(least), number::plain(most))
            };
            let (ours, range, command, note) = match here {
                Here::Measured { value, range, command, note } => {
                    let ours = with_unit(&number::plain(*value), &column.unit);
                    (Some(ours), range.map(between), Some(command.as_str()), note)
                }
                Here::Missing { why, command } => (None, None, command.as_deref(), why),
            };
            reasons.push(note.as_str());
            // For several cases, their suite.
            commands.extend(command.and_then(|command| command.split(" --only ").next()));
            lines.push(json!({
                "name": row.name, "again": index > 0, "column": column.name,
                "theirs": theirs(row, index),
                "ratio": both.map(|(theirs, ours)| with_unit(&number::plain(ours / theirs), "×")),
                "ours": ours, "range": range, "command": command, "note": note,
            }));
        }
    }
    let line = |row: &TextRow| {
        let cells = (0..table.column.len()).map(|index| theirs(row, index)).collect::<Vec<_>>();
        (row.name.clone(), cells)
    };
    json!({
        "title": table.title, "note": table.note, "is_beside": is_beside, "lines": lines,
        "columns": table.column.iter().map(|column| &column.name).collect::<Vec<_>>(),
        "only_theirs": table.row.iter().map(line).collect::<Vec<_>>(),
        "reasons": distinct(reasons.into_iter()), "commands": distinct(commands.into_iter()),
    })
}

fn of_claim(claim: &Claim, text: &Text, inputs: &Inputs) -> Value {
    let finding = claim.ask(text, inputs);
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Judged {
        Holds,
        Fails,
        Undecided,
        Missing,
    }
    let here = match finding.here.map(|_| finding.verdict) {
        Some(ClaimVerdict::Holds) => Judged::Holds,
        Some(ClaimVerdict::Fails) => Judged::Fails,
        Some(ClaimVerdict::Undecided) => Judged::Undecided,
        None => Judged::Missing,
    };
    json!({
        "name": claim.name, "measure": claim.measure, "bounds": claim.bounds(),
        "theirs": finding.text.map(number::plain), "ours": finding.here.map(number::plain),
        "contradiction": finding.contradiction, "here": here,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::inputs::{Covered, FuzzRun};
    use super::*;

    fn small() -> Inputs {
        let mut inputs = Inputs::default();
        for (case, own, peer) in
            [("ext4/4KiB/warm", 0.001, 0.002), ("ext4/1MiB/warm", 0.004, 0.003)]
        {
            inputs.of_row("copy", case, "cp", ["wall", "s"], peer);
            inputs.of_row("copy", case, "uncopy", ["wall", "s"], own);
            inputs.of_row("copy", case, "uncopy", ["cpu", "s"], own / 2.0);
        }
        inputs.of_row("tree", "ext4/<many>/warm", "cp -a", ["wall", "s"], 0.2);
        let soak = r#"{"suite":"soak channel","findings":0,"killed":300,"unix_seconds":1}"#;
        inputs.add(soak).unwrap();
        inputs.fuzzing.push(FuzzRun {
            target: "fidl_decode".into(),
            seconds: 60.0,
            executions: 123_456,
            findings: 0,
            commit: "abc & def".into(),
        });
        inputs.coverage.push(Covered { name: "uncopy".into(), lines: 200, covered: 150 });
        inputs.coverage_commit = Some("def".into());
        inputs
    }

    fn html_of(inputs: &Inputs) -> String {
        let page = Page {
            inputs,
            texts: &Texts::load().unwrap(),
            plots: &Plots::load().unwrap(),
            failures: vec![("send".into(), "<no> network".into())],
            unsafe_code: &[("crates/uncopy/src/sys/file.rs".into(), 3)],
            fuzz_targets: vec!["fidl_decode".into(), "tuned".into()],
            criterion: None,
            files: vec!["compare-copy.jsonl".into()],
            commit: "abc",
        };
        page.html().unwrap()
    }

    /// Every tag that is opened is closed, in order: a browser would repair a broken page silently.
    fn assert_balanced(html: &str) {
        const VOID: [&str; 4] = ["!DOCTYPE", "meta", "link", "br"];
        let mut open = Vec::new();
        for tag in html.split('<').skip(1) {
            let name = tag.split(['>', ' ', '\n']).next().unwrap();
            let is_whole = tag.split('>').next().unwrap().ends_with('/');
            match name.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None if is_whole || VOID.contains(&name) => {}
                None => open.push(name),
            }
        }
        assert_eq!(open, Vec::<&str>::new());
    }

    #[test]
    fn a_small_report_shows_everything_it_was_given() {
        let html = html_of(&small());
        assert_balanced(&html);
        for part in [
            "Not measured: send. </strong>&lt;no&gt; network",
            "3 cases were recorded without the machine",
            "<th scope=\"row\">ext4&#x2f;&lt;many&gt;&#x2f;warm</th><td>200 ms<span class=\"bar\"",
            "<tr><th scope=\"row\">uncopy</th><td>4.1</td><td>262</td></tr>",
            "<td data-head=\"less\">the second from about 201 KiB on (measured: 4 KiB and 1 MiB)</td>",
            "The suite send is not in these rows: <code>cargo xtask compare send</code>",
            "<div><dt>findings</dt><dd>0</dd></div><div><dt>killed</dt><dd>300</dd></div>",
            "<td data-head=\"executions\">123,456</td>",
            "<code>abc &amp; def</code>",
            "1 of 2 targets have no record here: tuned.",
            "3 blocks, functions and items in 1 files, at commit <code>abc</code>",
            "<span style=\"width:75.0%\"></span></span>75.0 %</td>",
            "<strong>copy</strong> 2 cases, 6 rows, 2 cases of unknown machine and kernel",
            "<a href=\"compare-copy.jsonl\">compare-copy.jsonl</a>",
        ] {
            assert!(html.contains(part), "{part}\nis not in\n{html}");
        }
    }

    #[test]
    fn every_recorded_row_is_on_the_page() {
        let inputs = Inputs::read(&[crate::workspace::root().join("docs/evidence")]).unwrap();
        let html = html_of(&inputs);
        assert_balanced(&html);
        assert!(html.matches("<svg").count() == Plots::load().unwrap().plot.len());
        let cells: HashSet<&str> = html.split(['<', '>']).map(str::trim).collect();
        for row in inputs.comparisons.iter().flat_map(|comparison| &comparison.rows) {
            let figure = number::quantity(row.value.unwrap_or_default(), &row.unit);
            let figure = figure.replace('/', "&#x2f;");
            assert!(
                row.value.is_none() || row.target.is_some() || cells.contains(&*figure),
                "{row:?}"
            );
        }
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let html = html_of(&small());
        for outside in ["<script", "src=", "@import", "url(", "rel=\"stylesheet\""] {
            assert!(!html.contains(outside), "{outside}");
        }
    }

    #[test]
    fn every_table_of_the_texts_is_there_by_title() {
        let html = html_of(&Inputs::default());
        assert_balanced(&html);
        for title in [
            "Throughput Comparison (Linux NVMe)",
            "CPU Usage Comparison",
            "Small File Overhead",
            "Byte vector event benchmarks",
            "FIDL encode",
            "time .&#x2f;msg_zerocopy",
            "NIC (requests",
            "dummy (requests",
        ] {
            assert!(html.contains(title), "{title}");
        }
        assert!(html.contains("not measured") && html.contains("contradicts itself"));
    }
}
