//! `cargo xtask tidy`: the rules of the house that no compiler lint covers.
//!
//! Every finding names the rule that is broken and what to do instead.

mod lints;
mod manifests;
mod names;
mod platform;
mod sizes;
mod source;
mod unsafe_code;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;
use source::Source;

/// Arguments of `cargo xtask tidy`.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

/// A rule broken at a place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: PathBuf,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.message)
    }
}

/// Checks every tracked file.
///
/// # Errors
/// If a rule is broken, or the files cannot be read.
pub(crate) fn run(_: &Arguments) -> Result<()> {
    let files = tracked_files()?;
    let mut findings = Vec::new();
    for path in &files {
        names::check_path(path, &mut findings);
        if path.extension().is_some_and(|extension| extension == "rs") {
            check_source(&Source::read(path)?, &mut findings);
        } else if path.file_name().is_some_and(|name| name == "Cargo.toml") {
            let text = std::fs::read_to_string(workspace::root().join(path))
                .with_context(|| format!("cannot read {}", path.display()))?;
            manifests::check(path, &text, &mut findings)?;
        }
    }
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} findings in {} files", findings.len(), files.len());
    }
    println!("tidy: {} files are in order", files.len());
    Ok(())
}

fn check_source(source: &Source, findings: &mut Vec<Finding>) {
    sizes::check(source, findings);
    names::check_modules(source, findings);
    unsafe_code::check(source, findings);
    lints::check(source, findings);
    platform::check(source, findings);
}

/// Where unsafe code is, relative to the root, and how many blocks, functions and items need a proof.
///
/// # Errors
/// If the files cannot be read.
pub(crate) fn unsafe_inventory() -> Result<Vec<(PathBuf, usize)>> {
    let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let mut inventory = Vec::new();
    for path in tracked_files()?.into_iter().filter(is_source) {
        let count = unsafe_code::count(&Source::read(&path)?);
        if count > 0 {
            inventory.push((path, count));
        }
    }
    Ok(inventory)
}

/// Files that git tracks or would track, relative to the root.
fn tracked_files() -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(workspace::root())
        .output()
        .context("cannot start git; tidy looks at the files that git knows")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).context("a tracked name is not UTF-8")?;
    let exists = |path: &&str| !path.is_empty() && workspace::root().join(path).is_file();
    Ok(listed.split('\0').filter(exists).map(|path| Path::new(path).to_owned()).collect())
}
