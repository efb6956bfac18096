//! `cargo xtask book`: the pages hold together, what they show is taken, and mdBook builds them.

mod contents;
mod examples;
pub(crate) mod help;
mod links;
mod page;
mod picture;
mod plain;
mod render;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Command;

use crate::finding;
use crate::workspace;
use examples::Programs;
use page::Page;

/// Where the book is.
const BOOK: &str = "docs";
/// Its table of contents.
const CONTENTS: &str = "docs/SUMMARY.md";

/// Programs in C that a test compiles and runs.
const C_TESTS: &str = "crates/uncopy-zx/tests/c";

/// Arguments of `cargo xtask book`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Fail if there is no mdBook to build the book with.
    #[arg(long)]
    build: bool,
    /// Draw the pictures in docs/pictures anew, from the texts there.
    #[arg(long)]
    draw: bool,
    /// Write the plain texts of `uncopy help` anew, from their pages.
    #[arg(long)]
    help_pages: bool,
}

/// Checks every page, and builds the book where there is an mdBook. `xtask` is this program's own
/// command line.
///
/// # Errors
/// If a rule is broken, or the book cannot be built.
pub(crate) fn run(arguments: &Arguments, xtask: &Command) -> Result<()> {
    let files = workspace::tracked_files()?;
    if arguments.help_pages {
        help::write(&files)?;
    }
    let has_extension = |path: &Path, wanted| path.extension().is_some_and(|it| it == wanted);
    let pages = files.iter().filter(|path| has_extension(path, "md"));
    let pages = pages.map(|path| Page::read(path)).collect::<Result<Vec<_>>>()?;
    let mut included: BTreeSet<PathBuf> = BTreeSet::new();
    for path in files.iter().filter(|path| has_extension(path, "rs")) {
        included.extend(examples::included(path, &read(path)?));
    }
    let c_tests = files.iter().filter(|path| path.starts_with(C_TESTS));
    let c_tests = c_tests.map(|path| read(path)).collect::<Result<Vec<_>>>()?;
    let texts: Vec<_> = files.iter().filter(|path| has_extension(path, "console")).collect();
    if arguments.draw {
        picture::draw_all(&texts)?;
    }
    let programs = Programs { uncopy: uncopy_cli::command(), xtask: xtask.clone() };
    let mut findings = Vec::new();
    contents::check(&pages, &mut findings);
    let by_path: HashMap<&Path, &Page> = pages.iter().map(|page| (&*page.path, page)).collect();
    links::check(&by_path, |path| workspace::root().join(path).is_file(), &mut findings);
    for page in &pages {
        examples::check_commands(page, &programs, &mut findings);
        examples::check_code(page, &included, &mut findings);
        examples::check_c(page, &c_tests, &mut findings);
    }
    picture::check(&texts, &mut findings)?;
    finding::report("book", findings, pages.len())?;
    match workspace::find_program("mdbook") {
        Some(mdbook) => {
            let output = render::build(&mdbook, &pages)?;
            println!("the book is in {}", output.display());
        }
        None if arguments.build => {
            bail!("there is no mdbook on the path; install it: cargo install --locked mdbook")
        }
        None => println!("no mdbook on the path: the pages are checked, and not rendered"),
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(workspace::root().join(path))
        .with_context(|| format!("cannot read {}", path.display()))
}
