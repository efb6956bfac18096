//! `cargo xtask evidence`: everything that was measured, as one page that anybody can open, and two
//! sets of it side by side.

mod check;
mod diff;
pub(crate) mod inputs;
mod measure;
mod number;
mod page;
mod plots;
mod texts;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::compare::host;
use crate::{fuzz, tidy, workspace};
use inputs::Inputs;
use measure::{Failure, Suite};
use page::Page;
use plots::Plots;
use texts::Texts;

/// Arguments of `cargo xtask evidence`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Two short rounds of everything, in some minutes: shows that it runs, and judges nothing.
    #[arg(long, conflicts_with = "from")]
    quick: bool,
    /// Measure these suites alone; may be repeated. The others are not on the page.
    #[arg(long, value_name = "SUITE", value_enum, conflicts_with = "from")]
    only: Vec<Suite>,
    /// Where the page and its rows go [default: target/evidence]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Measure nothing: take these files of JSON Lines, or all of a directory.
    #[arg(long, num_args = 1.., value_name = "PATH")]
    from: Vec<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Hold the figures of README and docs against the recorded rows that they come from.
    Check,
    /// Set two sets of rows side by side; fails if something of ours is worse by more than noise.
    Diff {
        /// The set before: a file of JSON Lines, or a directory of them.
        before: PathBuf,
        /// The set after.
        after: PathBuf,
        /// Changes up to this many per cent never count, however small the noise.
        #[arg(long, default_value_t = 3.0, value_name = "PERCENT")]
        least: f64,
    },
}

/// Writes the page, or compares.
///
/// # Errors
/// If rows cannot be read or written; if a suite could not be measured, after the page with the
/// others is written; or, comparing, if something is worse.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.action {
        Some(Action::Check) => check::run(),
        Some(Action::Diff { before, after, least }) => compare(before, after, *least / 100.0),
        None => report(arguments),
    }
}

fn compare(before: &Path, after: &Path, least: f64) -> Result<()> {
    let read = |path: &Path| Inputs::read(&[path.to_owned()]);
    let difference = diff::differ(&read(before)?, &read(after)?, least);
    print!("{}", diff::in_words(&difference));
    match difference.regressions.len() {
        0 => Ok(()),
        worse => bail!("{worse} figures are worse by more than noise; they are named above"),
    }
}

fn report(arguments: &Arguments) -> Result<()> {
    let out = match &arguments.out {
        Some(directory) => std::path::absolute(directory)?,
        None => workspace::target_directory().join("evidence"),
    };
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut failures = Vec::new();
    if arguments.from.is_empty() {
        workspace::continue_optimised()?;
        failures = measure::run(&out, &arguments.only, arguments.quick)?;
        carry_records(&out)?;
    }
    let from = if arguments.from.is_empty() { vec![out.clone()] } else { arguments.from.clone() };
    let inputs = Inputs::read(&from)?;
    let files = keep(&from, &out)?;
    let page = Page {
        inputs: &inputs,
        texts: &Texts::load()?,
        plots: &Plots::load()?,
        failures: failures.iter().map(|f| (f.suite.to_owned(), f.reason.clone())).collect(),
        unsafe_code: &tidy::unsafe_inventory()?,
        fuzz_targets: fuzz::targets()?,
        criterion: criterion(&workspace::target_directory(), &out),
        files,
        commit: &host::commit(),
    };
    let file = out.join("index.html");
    fs::write(&file, page.html()?).with_context(|| format!("cannot write {}", file.display()))?;
    println!("{}", file.display());
    let names: Vec<&str> = failures.iter().map(|Failure { suite, .. }| *suite).collect();
    ensure!(names.is_empty(), "not measured: {}; the page says why", names.join(", "));
    Ok(())
}

/// Soaks, fuzzing and coverage take hours: what was recorded of them stands beside new figures.
fn carry_records(out: &Path) -> Result<()> {
    let recorded = workspace::root().join("docs/evidence");
    for file in inputs::files(&[recorded])? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with("compare-") {
            fs::copy(&file, out.join(name)).with_context(|| format!("{}", file.display()))?;
        }
    }
    Ok(())
}

/// Puts the files of rows beside the page, and returns their names.
fn keep(from: &[PathBuf], out: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in inputs::files(from)? {
        let name = file.file_name().unwrap_or_default().to_owned();
        let beside = out.join(&name);
        let is_there = fs::canonicalize(&file)? == fs::canonicalize(&beside).unwrap_or_default();
        if !is_there {
            fs::copy(&file, &beside).with_context(|| format!("cannot copy {}", file.display()))?;
        }
        names.push(name.to_string_lossy().into_owned());
    }
    names.dedup();
    Ok(names)
}

/// The way from the page to Criterion's reports, if `cargo bench` has made some.
fn criterion(target: &Path, out: &Path) -> Option<String> {
    let report = target.join("criterion/report/index.html");
    if !report.is_file() {
        return None;
    }
    match out.strip_prefix(target) {
        Ok(below) => Some("../".repeat(below.iter().count()) + "criterion/report/index.html"),
        Err(_) => Some(format!("file://{}", report.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criterion_is_linked_where_it_is() {
        let target = tempfile::tempdir().unwrap();
        let out = target.path().join("evidence/today");
        assert_eq!(criterion(target.path(), &out), None);
        fs::create_dir_all(target.path().join("criterion/report")).unwrap();
        fs::write(target.path().join("criterion/report/index.html"), "").unwrap();
        let link = criterion(target.path(), &out).unwrap();
        assert_eq!(link, "../../criterion/report/index.html");
        let far = criterion(target.path(), Path::new("/nonexistent")).unwrap();
        assert!(far.starts_with("file:///") && far.ends_with("criterion/report/index.html"));
    }

    #[test]
    fn rows_lie_beside_the_page() {
        let (from, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(from.path().join("a.jsonl"), "{}\n").unwrap();
        let names = keep(&[from.path().to_owned()], out.path()).unwrap();
        assert_eq!(names, ["a.jsonl"]);
        assert_eq!(fs::read(out.path().join("a.jsonl")).unwrap(), b"{}\n");
        // Rows that lie there already stay as they are.
        assert_eq!(keep(&[out.path().to_owned()], out.path()).unwrap(), ["a.jsonl"]);
        assert_eq!(fs::read(out.path().join("a.jsonl")).unwrap(), b"{}\n");
    }
}
