//! A rule that is broken at a place, as `tidy` and `book` report it.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Result, bail};

/// A rule broken at a place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RuleFinding {
    /// Relative to the root.
    pub(crate) path: PathBuf,
    pub(crate) line: usize,
    /// The rule, and what to do instead.
    pub(crate) message: String,
}

impl fmt::Display for RuleFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.message)
    }
}

/// Prints what `task` found in so many `files`.
///
/// # Errors
/// If there is a finding.
pub(crate) fn report(task: &str, mut findings: Vec<RuleFinding>, files: usize) -> Result<()> {
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{task}: {} findings in {files} files", findings.len());
    }
    println!("{task}: {files} files are in order");
    Ok(())
}
