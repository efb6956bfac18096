//! Builds packages once more, from a copy of the tree in another directory, and compares the digests.

use anyhow::{Context, Result, ensure};

use super::build::Setting;
use super::{Kind, emptied, name, sums};
use crate::workspace;

/// Builds `kinds` again, and compares.
///
/// # Errors
/// If they cannot be built, or a package differs.
pub(super) fn compare(setting: &Setting, kinds: &[Kind]) -> Result<()> {
    // Another path, and a longer one: a path that is left in a program shows.
    let directory = workspace::target_directory().join("package-in-another-directory");
    let (tree, out) = (directory.join("tree"), directory.join("out"));
    emptied(&tree)?;
    emptied(&out)?;
    for path in workspace::tracked_files()? {
        let to = tree.join(&path);
        let parent = to.parent().context("a file without a directory")?;
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make {}", parent.display()))?;
        std::fs::copy(workspace::root().join(&path), &to)
            .with_context(|| format!("cannot copy {} to {}", path.display(), to.display()))?;
    }
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
