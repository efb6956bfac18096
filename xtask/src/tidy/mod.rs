//! `cargo xtask tidy`: the rules of the house that no compiler lint covers.
//!
//! Every finding names the rule that is broken and what to do instead.

mod cycles;
mod edges;
mod flags;
mod manifests;
mod names;
mod platform;
mod published;
mod sizes;
mod source;
pub(crate) mod unsafe_code;
mod words;

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::book;
use crate::finding::{self, RuleFinding};
use crate::workspace;
use source::Source;

/// Arguments of `cargo xtask tidy`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// List each piece of advice.
    #[arg(long)]
    advice: bool,
}

/// Checks every tracked file.
///
/// # Errors
/// If a rule is broken, or the files cannot be read.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let files = workspace::tracked_files()?;
    let (mut findings, mut advice) = (Vec::new(), Vec::new());
    for path in &files {
        names::check_path(path, &mut findings);
        if path.extension().is_some_and(|extension| extension == "rs") {
            let source = Source::read(path)?;
            check_source(&source, &mut findings);
            sizes::advise(&source, &mut advice);
        } else if path.file_name().is_some_and(|name| name == "Cargo.toml") {
            let text = std::fs::read_to_string(workspace::root().join(path))
                .with_context(|| format!("cannot read {}", path.display()))?;
            manifests::check(path, &text, &files, &mut findings)?;
            edges::check(path, &text, &mut findings)?;
        }
    }
    book::help::check(&files, &mut findings)?;
    cycles::check(&files, &mut findings)?;
    sizes::print(&advice, arguments.advice);
    finding::report("tidy", findings, files.len())
}

fn check_source(source: &Source, findings: &mut Vec<RuleFinding>) {
    names::check_modules(source, findings);
    unsafe_code::check(source, findings);
    platform::check(source, findings);
    flags::check(source, findings);
    published::check_source(source, findings);
    words::check(source, findings);
}

/// Where unsafe code is, relative to the root, and how many blocks, functions and items need a proof.
///
/// # Errors
/// If the files cannot be read.
pub(crate) fn unsafe_inventory() -> Result<Vec<(PathBuf, usize)>> {
    let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let mut inventory = Vec::new();
    for path in workspace::tracked_files()?.into_iter().filter(is_source) {
        let count = unsafe_code::count(&Source::read(&path)?);
        if count > 0 {
            inventory.push((path, count));
        }
    }
    Ok(inventory)
}
