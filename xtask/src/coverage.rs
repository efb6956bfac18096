//! Which lines the tests run: `cargo llvm-cov` over the workspace, added up by crate.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;

use crate::compare::host;
use crate::evidence::inputs::Covered;
use crate::workspace;

/// Arguments of `cargo xtask coverage`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only this package's tests; may be repeated. What it is made of counts all the same, and so
    /// does what earlier runs left.
    #[arg(long, value_name = "PACKAGE")]
    package: Vec<String>,
    /// Run no tests: take what an earlier run left.
    #[arg(long)]
    report_only: bool,
    /// Where the figures go, for the report of `cargo xtask evidence` [default:
    /// target/coverage/coverage.jsonl]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the tests of every package with all features, instrumented, and writes a line for each crate.
///
/// # Errors
/// If `cargo llvm-cov` is not installed; or a test fails, after the figures are written.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let known = llvm_cov().arg("--version").output();
    ensure!(
        known.is_ok_and(|output| output.status.success()),
        "cargo-llvm-cov is not here; install it: cargo install --locked cargo-llvm-cov, and \
         rustup component add llvm-tools"
    );
    let mut tested = Ok(());
    if !arguments.report_only {
        if arguments.package.is_empty() {
            // What older tests of older code ran is no figure of these.
            workspace::run(llvm_cov().args(["clean", "--profraw-only"]))?;
        }
        let mut tests = llvm_cov();
        tests.args(["--no-report", "--locked", "--no-fail-fast", "--all-features"]);
        if arguments.package.is_empty() {
            tests.arg("--workspace");
        }
        for package in &arguments.package {
            tests.args(["--package", package]);
        }
        tested = workspace::run(&mut tests);
    }
    let directory = workspace::target_directory().join("coverage");
    fs::create_dir_all(&directory)?;
    let details = directory.join("lines.json");
    workspace::run(llvm_cov().args(["report", "--json", "--output-path"]).arg(&details))?;
    let text = fs::read_to_string(&details).context("cannot read what cargo llvm-cov wrote")?;
    let crates = by_crate(&text, workspace::root())?;
    let out = match &arguments.out {
        Some(file) => std::path::absolute(file)?,
        None => directory.join("coverage.jsonl"),
    };
    fs::write(&out, lines(&crates)?).with_context(|| format!("cannot write {}", out.display()))?;
    for covered in &crates {
        let share = 100.0 * covered.covered as f64 / covered.lines.max(1) as f64;
        println!("{:<22} {share:>5.1} % of {} lines", covered.name, covered.lines);
    }
    println!("every region by file: {}; recorded in {}", details.display(), out.display());
    tested.context("some tests failed, and the figures are of what ran all the same")
}

/// Cargo's own subcommand, in a target directory of its own below the usual one.
fn llvm_cov() -> Command {
    let mut cargo = workspace::cargo();
    // Tests start programs by the thousand: those of a kind add to the same few files.
    cargo.arg("llvm-cov").env("LLVM_PROFILE_FILE_NAME", "uncopy-%4m.profraw");
    // No debugger looks at these programs, and the lines are not found by what it needs.
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
    cargo
}

/// What LLVM exports, as far as it is needed.
#[derive(Deserialize)]
struct Export {
    data: Vec<Data>,
}

#[derive(Deserialize)]
struct Data {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    filename: PathBuf,
    summary: Summary,
}

#[derive(Deserialize)]
struct Summary {
    lines: Lines,
}

#[derive(Deserialize)]
struct Lines {
    count: u64,
    covered: u64,
}

/// Adds up the files of `crates/*/src` and `xtask/src`.
fn by_crate(export: &str, root: &Path) -> Result<Vec<Covered>> {
    let export: Export = serde_json::from_str(export).context("it is not what LLVM exports")?;
    let mut crates: BTreeMap<String, Covered> = BTreeMap::new();
    for file in export.data.iter().flat_map(|data| &data.files) {
        let Some(name) = crate_of(&file.filename, root) else { continue };
        let empty = || Covered { name: name.clone(), lines: 0, covered: 0 };
        let covered = crates.entry(name.clone()).or_insert_with(empty);
        covered.lines += file.summary.lines.count;
        covered.covered += file.summary.lines.covered;
    }
    Ok(crates.into_values().collect())
}

fn crate_of(file: &Path, root: &Path) -> Option<String> {
    let parts: Vec<&str> =
        file.strip_prefix(root).ok()?.iter().filter_map(|p| p.to_str()).collect();
    match parts.as_slice() {
        ["crates", name, "src", ..] | [name @ "xtask", "src", ..] => Some((*name).to_owned()),
        _ => None,
    }
}

fn lines(crates: &[Covered]) -> Result<Vec<u8>> {
    let head = json!({"schema": 1, "suite": "coverage", "commit": host::commit()});
    let mut text = format!("{head}\n").into_bytes();
    for covered in crates {
        writeln!(text, "{}", serde_json::to_string(covered)?)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_added_up_by_crate() {
        let file = |name: &str, count: u32, covered: u32| {
            format!(
                r#"{{"filename":"/r/{name}","summary":{{"lines":{{"count":{count},"covered":{covered},"percent":1.0}}}}}}"#
            )
        };
        let files = [
            file("crates/uncopy/src/copy/run.rs", 10, 5),
            file("crates/uncopy/src/lib.rs", 2, 2),
            file("crates/uncopy/tests/copy/main.rs", 100, 100),
            file("xtask/src/main.rs", 4, 0),
            file("peers/src/x.rs", 7, 7),
        ];
        let export = format!(r#"{{"data":[{{"files":[{}]}}],"type":"x"}}"#, files.join(","));
        let found = by_crate(&export, Path::new("/r")).unwrap();
        let covered = |name: &str, lines, covered| Covered { name: name.into(), lines, covered };
        assert_eq!(found, [covered("uncopy", 12, 7), covered("xtask", 4, 0)]);
        assert!(by_crate("{}", Path::new("/r")).is_err());
    }

    #[test]
    fn the_report_reads_what_is_written() {
        let written = Covered { name: "uncopy".into(), lines: 12, covered: 7 };
        let text = String::from_utf8(lines(std::slice::from_ref(&written)).unwrap()).unwrap();
        let mut inputs = crate::evidence::inputs::Inputs::default();
        inputs.add(&text).unwrap();
        assert_eq!(inputs.coverage, [written]);
    }
}
