//! Measurements and records of soaks, read from JSON Lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::compare::host::Host;
use crate::compare::row::Row;

/// Everything a report is made of.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Inputs {
    pub(super) comparisons: Vec<Comparison>,
    pub(super) soaks: Vec<Soak>,
    pub(super) fuzzing: Vec<FuzzRun>,
    pub(crate) coverage: Vec<Covered>,
    /// The commit whose coverage it is.
    pub(super) coverage_commit: Option<String>,
}

/// The rows of one suite.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Comparison {
    pub(super) suite: String,
    pub(super) notes: Vec<String>,
    pub(super) absent: Vec<Absent>,
    /// Versions of the peers that were there, by name.
    pub(super) peers: BTreeMap<String, String>,
    /// The runs that measured the rows, in the order of the files.
    pub(super) runs: Vec<Run>,
    pub(super) rows: Vec<Row>,
}

/// Cases that were measured together.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub(super) struct Run {
    /// The machine; none where their first line does not say.
    pub(super) host: Option<Host>,
    pub(super) cases: BTreeSet<String>,
}

/// The first line of a comparison.
#[derive(Debug, Default, Deserialize)]
struct Head {
    suite: String,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    absent: Vec<Absent>,
    host: Option<Host>,
    #[serde(default)]
    peers: BTreeMap<String, String>,
}

/// A subject that was not there, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Absent {
    pub(super) subject: String,
    pub(super) reason: String,
}

/// A long run with faults: counters of the whole, and of its parts.
#[derive(Debug, PartialEq)]
pub(super) struct Soak {
    pub(super) name: String,
    pub(super) counters: Map<String, Value>,
    pub(super) parts: Vec<Map<String, Value>>,
}

/// One run of one fuzz target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FuzzRun {
    pub(super) target: String,
    pub(super) seconds: f64,
    pub(super) executions: u64,
    pub(super) findings: u64,
    #[serde(default)]
    pub(super) commit: String,
}

/// How much of a crate the tests ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Covered {
    #[serde(rename = "crate")]
    pub(crate) name: String,
    pub(crate) lines: u64,
    pub(crate) covered: u64,
}

impl Comparison {
    /// The figures of `case`, in the order in which they were printed, without targets.
    pub(super) fn figures(&self, case: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.case == case && row.target.is_none())
    }

    /// One figure.
    pub(super) fn figure(&self, case: &str, subject: &str, metric: &str) -> Option<&Row> {
        self.figures(case).find(|row| row.subject == subject && row.metric == metric)
    }

    /// How many of the cases do not say what they were measured on.
    pub(super) fn cases_of_unknown_host(&self) -> usize {
        self.runs.iter().filter(|run| run.host.is_none()).map(|run| run.cases.len()).sum()
    }

    /// The names of the cases, each once.
    pub(super) fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = Vec::new();
        for row in &self.rows {
            if cases.last() != Some(&row.case.as_str()) && !cases.contains(&row.case.as_str()) {
                cases.push(&row.case);
            }
        }
        cases
    }
}

impl Inputs {
    /// The comparison of `suite`, if there is one.
    pub(super) fn comparison(&self, suite: &str) -> Option<&Comparison> {
        self.comparisons.iter().find(|comparison| comparison.suite == suite)
    }

    /// Reads files, and the `*.jsonl` of directories.
    ///
    /// # Errors
    /// If one cannot be read or has a line that is nothing known; both are named.
    pub(super) fn read(paths: &[PathBuf]) -> Result<Inputs> {
        let mut inputs = Inputs::default();
        for path in files(paths)? {
            let text = fs::read_to_string(&path).with_context(|| {
                format!("cannot read {}; name a file of JSON Lines", path.display())
            })?;
            inputs.add(&text).with_context(|| path.display().to_string())?;
        }
        ensure!(
            inputs != Inputs::default(),
            "there is no row in it; `cargo xtask compare` makes some"
        );
        Ok(inputs)
    }

    /// Adds the lines of one file. Cases that a file has again replace those of the files before.
    ///
    /// # Errors
    /// If a line is nothing known.
    pub(crate) fn add(&mut self, text: &str) -> Result<()> {
        let mut own = Inputs::default();
        for (index, line) in text.lines().enumerate() {
            if !line.trim().is_empty() {
                own.add_line(line).with_context(|| format!("line {}", index + 1))?;
            }
        }
        for comparison in own.comparisons {
            match self.comparisons.iter_mut().find(|there| there.suite == comparison.suite) {
                Some(there) => there.replace(comparison),
                None => self.comparisons.push(comparison),
            }
        }
        self.soaks.append(&mut own.soaks);
        self.fuzzing.append(&mut own.fuzzing);
        self.coverage_commit = own.coverage_commit.or(self.coverage_commit.take());
        for covered in own.coverage {
            self.coverage.retain(|there| there.name != covered.name);
            self.coverage.push(covered);
        }
        Ok(())
    }

    fn add_line(&mut self, line: &str) -> Result<()> {
        let line: Map<String, Value> =
            serde_json::from_str(line).context("it is no object of JSON")?;
        let has = |key: &str| line.contains_key(key);
        let suite = line.get("suite").and_then(Value::as_str).unwrap_or_default().to_owned();
        if has("case") && has("subject") {
            self.add_row(serde_json::from_value(Value::Object(line))?);
        } else if suite.starts_with("soak ") || suite == "throttle" {
            self.soaks.push(Soak { name: suite, counters: line, parts: Vec::new() });
        } else if suite == "coverage" {
            // The crates are on the lines that follow.
            self.coverage_commit = line.get("commit").and_then(Value::as_str).map(str::to_owned);
        } else if has("executions") {
            self.fuzzing.push(serde_json::from_value(Value::Object(line))?);
        } else if has("crate") {
            self.coverage.push(serde_json::from_value(Value::Object(line))?);
        } else if !suite.is_empty() {
            self.add_head(serde_json::from_value(Value::Object(line))?);
        } else if let (Some(soak), true) = (self.soaks.last_mut(), has("what") || has("place")) {
            soak.parts.push(line);
        } else {
            bail!("it is no line of a comparison, a soak, a fuzz run or coverage");
        }
        Ok(())
    }

    fn of_suite(&mut self, suite: &str) -> &mut Comparison {
        let there = self.comparisons.iter().position(|comparison| comparison.suite == suite);
        let index = there.unwrap_or_else(|| {
            let suite = suite.to_owned();
            self.comparisons.push(Comparison { suite, ..Comparison::default() });
            self.comparisons.len() - 1
        });
        &mut self.comparisons[index]
    }

    fn add_row(&mut self, row: Row) {
        let comparison = self.of_suite(&row.suite);
        if comparison.runs.is_empty() {
            comparison.runs.push(Run::default());
        }
        comparison.runs.last_mut().map(|run| run.cases.insert(row.case.clone()));
        comparison.rows.push(row);
    }

    fn add_head(&mut self, head: Head) {
        let comparison = self.of_suite(&head.suite);
        (comparison.notes, comparison.absent) = (head.notes, head.absent);
        comparison.peers.extend(head.peers);
        comparison.runs.push(Run { host: head.host, cases: BTreeSet::new() });
    }
}

impl Comparison {
    fn replace(&mut self, later: Comparison) {
        let again: Vec<String> = later.cases().into_iter().map(str::to_owned).collect();
        self.rows.retain(|row| !again.contains(&row.case));
        self.rows.extend(later.rows);
        (self.notes, self.absent) = (later.notes, later.absent);
        for run in &mut self.runs {
            run.cases.retain(|case| !again.contains(case));
        }
        self.runs.extend(later.runs);
        self.runs.retain(|run| !run.cases.is_empty());
        self.peers.extend(later.peers);
    }
}

/// The files themselves, and those of directories, by name.
pub(super) fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries =
            fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
        let mut inside = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") && has_text(&path) {
                inside.push(path);
            }
        }
        ensure!(!inside.is_empty(), "{} has no *.jsonl in it", path.display());
        inside.sort();
        files.append(&mut inside);
    }
    Ok(files)
}

fn has_text(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0)
}

#[cfg(test)]
impl Inputs {
    /// Adds one figure.
    pub(super) fn of_row(
        &mut self,
        suite: &str,
        case: &str,
        subject: &str,
        [metric, unit]: [&str; 2],
        value: f64,
    ) {
        let mut row = Row::skipped(suite, case, subject, "");
        (row.metric, row.unit) = (metric.to_owned(), unit.to_owned());
        (row.value, row.skipped) = (Some(value), None);
        self.add_row(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"{"suite":"copy","case":"a","subject":"cp","metric":"wall","value":1.5,"unit":"s","baseline":"cp","ratio":1.0}"#;

    fn read(lines: &[&str]) -> Inputs {
        let mut inputs = Inputs::default();
        inputs.add(&lines.join("\n")).unwrap();
        inputs
    }

    #[test]
    fn each_kind_of_line_is_known() {
        let inputs = read(&[
            r#"{"schema":1,"suite":"copy","notes":["n"],"absent":[{"subject":"x","reason":"no"}],"host":{"kernel":"Linux"},"peers":{"cp":"9.1"}}"#,
            ROW,
            r#"{"suite":"soak copy","findings":0,"killed":3}"#,
            r#"{"what":"kill","rounds":4}"#,
            r#"{"place":"disk","killed":2}"#,
            r#"{"suite":"throttle","findings":0,"windows":3}"#,
            r#"{"what":"throttle","place":"disk","least_percent":99.5}"#,
            r#"{"target":"fidl_decode","seconds":60,"executions":100,"findings":0,"commit":"abc"}"#,
            r#"{"suite":"coverage","schema":1,"commit":"abc"}"#,
            r#"{"crate":"uncopy","lines":10,"covered":9}"#,
            "",
        ]);
        let copy = inputs.comparison("copy").unwrap();
        assert_eq!(copy.notes, ["n"]);
        assert_eq!(copy.absent[0].reason, "no");
        assert_eq!(copy.runs[0].host.as_ref().unwrap().kernel, "Linux");
        assert_eq!(copy.cases_of_unknown_host(), 0);
        assert_eq!(copy.peers["cp"], "9.1");
        assert_eq!(copy.figure("a", "cp", "wall").unwrap().value, Some(1.5));
        assert_eq!(inputs.soaks[0].counters["killed"], 3);
        assert_eq!(inputs.soaks[0].parts[0]["rounds"], 4);
        assert_eq!(inputs.soaks[0].parts[1]["killed"], 2);
        assert_eq!((inputs.soaks[1].name.as_str(), inputs.soaks[1].parts.len()), ("throttle", 1));
        assert_eq!(inputs.fuzzing[0].executions, 100);
        assert_eq!(inputs.coverage[0].covered, 9);
        assert_eq!(inputs.coverage_commit.as_deref(), Some("abc"));
    }

    #[test]
    fn what_is_recorded_can_be_read() {
        let recorded = crate::workspace::root().join("docs/evidence");
        let inputs = Inputs::read(&[recorded]).unwrap();
        assert!(!inputs.soaks.is_empty() && !inputs.coverage.is_empty());
    }

    #[test]
    fn a_line_that_is_nothing_known_is_named() {
        let mut inputs = Inputs::default();
        for (line, expected) in [
            ("nonsense", "line 2: it is no object of JSON"),
            (r#"{"a":1}"#, "line 2: it is no line of a comparison"),
            (r#"{"what":"kill"}"#, "line 2: it is no line of a comparison"),
            (r#"{"case":"a","subject":"b"}"#, "line 2: missing field `suite`"),
            (r#"{"target":"t","executions":1}"#, "line 2: missing field `seconds`"),
        ] {
            let error = inputs.add(&format!("{ROW}\n{line}")).unwrap_err();
            assert!(format!("{error:#}").starts_with(expected), "{error:#}");
        }
    }

    #[test]
    fn a_later_file_replaces_whole_cases() {
        let mut inputs = read(&[ROW, &ROW.replace("\"a\"", "\"b\"")]);
        inputs.add(&ROW.replace("1.5", "2.5")).unwrap();
        let copy = inputs.comparison("copy").unwrap();
        assert_eq!(copy.cases(), ["b", "a"]);
        assert_eq!(copy.figure("a", "cp", "wall").unwrap().value, Some(2.5));
        assert_eq!(copy.figure("b", "cp", "wall").unwrap().value, Some(1.5));
    }

    #[test]
    fn each_case_keeps_the_host_it_was_measured_on() {
        let mut inputs = read(&[ROW, &ROW.replace("\"a\"", "\"b\"")]);
        let head = r#"{"suite":"copy","host":{"kernel":"Linux 9"}}"#;
        inputs.add(&format!("{head}\n{ROW}")).unwrap();
        let copy = inputs.comparison("copy").unwrap();
        assert_eq!(copy.cases_of_unknown_host(), 1);
        let hosts: Vec<_> = copy.runs.iter().map(|run| (&run.host, run.cases.first())).collect();
        assert_eq!(hosts[0], (&None, Some(&"b".to_owned())));
        assert_eq!(hosts[1].0.as_ref().unwrap().kernel, "Linux 9");
        assert_eq!(hosts[1].1, Some(&"a".to_owned()));
    }

    #[test]
    fn directories_are_read_by_name() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [("b.jsonl", ROW), ("a.jsonl", ROW), ("c.json", "x"), ("d.jsonl", "")] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let found = files(&[directory.path().to_owned()]).unwrap();
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["a.jsonl", "b.jsonl"]);
        let missing = Inputs::read(&["/nonexistent/x.jsonl".into()]).unwrap_err();
        assert!(format!("{missing:#}").starts_with("cannot read /nonexistent/x.jsonl"));
    }
}
