//! Builds packages once more, from a copy of the tree in another directory, and compares the digests.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::build::Setting;
use super::{Kind, emptied, name, sums};
use crate::workspace;

/// Builds `kinds` again, and compares.
///
/// # Errors
/// If something is not committed, or a package cannot be built or differs.
pub(super) fn compare(setting: &Setting, kinds: &[Kind]) -> Result<()> {
    let mut status = Command::new("git");
    status.args(["diff", "--quiet", "HEAD", "--"]).current_dir(workspace::root());
    workspace::run(&mut status)
        .context("commit the changes first: the second build would lack them")?;
    // Another path, and a longer one: a path that is left in a program shows.
    let directory = workspace::target_directory().join("package-in-another-directory");
    let (tree, out) = (directory.join("tree"), directory.join("out"));
    emptied(&directory)?;
    emptied(&out)?;
    // With its history: a crate names the commit that it was packed at.
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--no-hardlinks"]).arg(workspace::root()).arg(&tree);
    workspace::run(&mut clone)?;
    let mut again = workspace::cargo();
    again.args(["run", "--quiet", "--locked", "--package", "xtask", "--", "package", "--out"]);
    again.arg(&out).args(kinds.iter().map(|kind| name(*kind)));
    again.current_dir(&tree).env("CARGO_TARGET_DIR", directory.join("target"));
    again.env("SOURCE_DATE_EPOCH", setting.epoch().to_string());
    workspace::run(&mut again)?;
    let (first, second) = (sums::sums(setting.out())?, sums::sums(&out)?);
    let differing = second.lines().filter(|line| !first.lines().any(|other| other == *line));
    let differing: Vec<_> = differing.collect();
    ensure!(
        differing.is_empty(),
        "these differ from those of the first build in {}; compare them with diffoscope:\n{}",
        setting.out().display(),
        differing.join("\n")
    );
    println!("{} packages are the same, built in another directory", second.lines().count());
    Ok(())
}
