//! Pages of the book that `uncopy help` shows: their plain text lies in the program's crate, because a
//! published crate reaches nothing outside.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{BOOK, plain, read};
use crate::finding::RuleFinding;
use crate::workspace;

/// Plain texts, one for each topic: `NAME.txt` is `docs/NAME.md`.
const TEXTS: &str = "crates/uncopy-cli/src/help/pages";

/// Checks that each text is that of its page.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn check(files: &[PathBuf], findings: &mut Vec<RuleFinding>) -> Result<()> {
    for path in texts(files) {
        if read(path)? != rendered(path)? {
            let message = "differs from its page: write it anew by `cargo xtask book --help-pages`";
            findings.push(RuleFinding { path: path.clone(), line: 1, message: message.to_owned() });
        }
    }
    Ok(())
}

/// Writes the texts anew.
///
/// # Errors
/// If a page cannot be read, or a text not written.
pub(super) fn write(files: &[PathBuf]) -> Result<()> {
    for path in texts(files) {
        std::fs::write(workspace::root().join(path), rendered(path)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn texts(files: &[PathBuf]) -> impl Iterator<Item = &PathBuf> {
    files.iter().filter(|path| path.starts_with(TEXTS))
}

fn rendered(text: &Path) -> Result<String> {
    let name = text.file_stem().unwrap_or_default();
    Ok(plain::render(&read(&Path::new(BOOK).join(name).with_extension("md"))?))
}
