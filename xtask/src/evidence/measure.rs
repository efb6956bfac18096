//! Runs the suites, one after another, into files of rows.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::json;

use crate::compare::host::Host;
use crate::workspace;

/// Suites in the order of the report: those of `cargo xtask compare`, and a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Suite {
    Copy,
    Tree,
    Channel,
    Zx,
    Fidl,
    Send,
    CopyMethods,
}

impl Suite {
    fn name(self) -> &'static str {
        match self {
            Suite::Copy => "copy",
            Suite::Tree => "tree",
            Suite::Channel => "channel",
            Suite::Zx => "zx",
            Suite::Fidl => "fidl",
            Suite::Send => "send",
            Suite::CopyMethods => "copy_methods",
        }
    }
}

/// A suite that did not come to its end, and what it said.
pub(super) struct Failure {
    pub(super) suite: &'static str,
    pub(super) reason: String,
}

/// Measures these suites, or all, into files of `out`, and returns what did not run.
///
/// # Errors
/// If no file can be written there.
pub(super) fn run(out: &Path, only: &[Suite], quick: bool) -> Result<Vec<Failure>> {
    let mut failures = Vec::new();
    for suite in Suite::value_variants() {
        if !only.is_empty() && !only.contains(suite) {
            continue;
        }
        let name = suite.name();
        let begin = Instant::now();
        eprint!("measuring: {name}");
        let file = out.join(format!("compare-{name}.jsonl"));
        let measured = match suite {
            Suite::CopyMethods => copy_methods(&file, quick),
            _ => compare(name, &file, quick),
        };
        eprintln!(", {:.0} s", begin.elapsed().as_secs_f64());
        if let Err(error) = measured {
            failures.push(Failure { suite: name, reason: format!("{error:#}") });
        }
    }
    Ok(failures)
}

/// A suite, by this program.
fn compare(suite: &str, file: &Path, quick: bool) -> Result<()> {
    let mut command = Command::new(std::env::current_exe().context("where is this program?")?);
    command.args(["compare", suite, "--json"]).args(quick.then_some("--quick"));
    let rows = File::create(file).with_context(|| format!("cannot make {}", file.display()))?;
    printed_into(command.stdout(rows))
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
    // Drawing takes as long as measuring; who wants the drawings calls `cargo bench`.
    cargo.args(["--", if quick { "--test" } else { "--noplot" }]);
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
