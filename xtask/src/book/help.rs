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
        if read(path)? != rendered(path, files)? {
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
        std::fs::write(workspace::root().join(path), rendered(path, files)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn texts(files: &[PathBuf]) -> impl Iterator<Item = &PathBuf> {
    files.iter().filter(|path| path.starts_with(TEXTS))
}

fn rendered(text: &Path, files: &[PathBuf]) -> Result<String> {
    let name = text.file_stem().unwrap_or_default();
    let topics: Vec<_> = texts(files).filter_map(|path| path.file_stem()?.to_str()).collect();
    let target = |to: &str| target(to, &topics);
    Ok(plain::render(&read(&Path::new(BOOK).join(name).with_extension("md"))?, &target))
}

/// Says how a reader comes to where a link of a page leads (pure): by a topic, a page of the book, or an address. A
/// place of the same page has no words.
fn target(to: &str, topics: &[&str]) -> Option<String> {
    let page = to.split('#').next().unwrap_or_default();
    let topic = page.strip_suffix(".md").filter(|name| topics.contains(name));
    match (page, topic) {
        ("", _) => None,
        (_, Some(topic)) => Some(format!("uncopy help {topic}")),
        _ if to.contains("://") => Some(to.to_owned()),
        _ => Some(match page.strip_prefix("../") {
            Some(outside) => outside.to_owned(),
            None => format!("{BOOK}/{page}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::target;

    #[test]
    fn links_lead_where_a_reader_can_go() {
        for (to, expected) in [
            ("#codes", None),
            ("json.md", Some("uncopy help json")),
            ("json.md#codes", Some("uncopy help json")),
            ("fidl.md#x", Some("docs/fidl.md")),
            ("why-not/decisions.md", Some("docs/why-not/decisions.md")),
            ("../CHANGELOG.md", Some("CHANGELOG.md")),
            ("https://toml.io", Some("https://toml.io")),
        ] {
            assert_eq!(target(to, &["json", "copy"]).as_deref(), expected, "{to}");
        }
    }
}
