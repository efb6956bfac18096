//! Runs the suites, one after another, into files of rows.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::json;

use crate::compare::host::Host;
use crate::workspace;

/// In the order of the report.
const SUITES: [&str; 6] = ["copy", "tree", "channel", "zx", "fidl", "send"];

/// A suite that did not come to its end, and what it said.
pub(super) struct Failure {
    pub(super) suite: &'static str,
    pub(super) reason: String,
}

/// Measures everything into files of `out`, and returns what did not run.
///
/// # Errors
/// If no file can be written there.
pub(super) fn run(out: &Path, quick: bool) -> Result<Vec<Failure>> {
    let mut failures = Vec::new();
    for suite in SUITES {
        eprintln!("measuring: {suite}");
        let mut command = Command::new(std::env::current_exe().context("where is this program?")?);
        command.args(["compare", suite, "--json"]);
        command.args(quick.then_some("--quick"));
        let file = file_of(out, suite);
        let rows =
            File::create(&file).with_context(|| format!("cannot make {}", file.display()))?;
        if let Err(error) = printed_into(command.stdout(rows)) {
            failures.push(Failure { suite, reason: format!("{error:#}") });
        }
    }
    eprintln!("measuring: copy_methods");
    if let Err(error) = copy_methods(&file_of(out, "copy_methods"), quick) {
        failures.push(Failure { suite: "copy_methods", reason: format!("{error:#}") });
    }
    Ok(failures)
}

fn file_of(out: &Path, suite: &str) -> PathBuf {
    out.join(format!("compare-{suite}.jsonl"))
}

/// Runs it; its error ends with what it said last.
fn printed_into(command: &mut Command) -> Result<()> {
    let output = command.stderr(Stdio::piped()).output().context("cannot start it")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim().lines().next_back().unwrap_or("it said nothing").to_owned();
    anyhow::ensure!(output.status.success(), "{}: {last}", output.status);
    Ok(())
}

/// The benchmark with the sizes of Orbit's tables: every way within one process.
fn copy_methods(file: &Path, quick: bool) -> Result<()> {
    let notes = [
        "wall, cpu: of one copy within the process; value: median",
        "ext4 or whatever the target directory lies on; the source is in the page cache, every \
         destination is new, and nothing is flushed",
    ];
    let mut notes: Vec<&str> = notes.to_vec();
    if quick {
        notes.push("quick: one copy of each");
    }
    let host = Host::look(&workspace::target_directory());
    let head = json!({"schema": 1, "suite": "copy_methods", "notes": notes, "host": host});
    fs::write(file, format!("{head}\n"))?;
    let mut cargo = workspace::cargo();
    cargo.args(["bench", "--quiet", "--locked", "--bench", "copy_methods", "--package", "uncopy"]);
    if quick {
        cargo.args(["--", "--test"]);
    }
    let file = std::path::absolute(file)?;
    printed_into(cargo.env("UNCOPY_BENCH_ROWS", file).stdout(Stdio::null()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_fails_says_why() {
        let script = "echo first >&2; echo why >&2; exit 3";
        let error = printed_into(Command::new("sh").args(["-c", script])).unwrap_err();
        assert_eq!(error.to_string(), "exit status: 3: why");
        printed_into(&mut Command::new("true")).unwrap();
    }
}
