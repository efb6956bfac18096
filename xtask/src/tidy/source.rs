//! A Rust file, as text and as syntax.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{Span, TokenStream};

use crate::finding::RuleFinding;
use crate::workspace;

/// A parsed file.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) syntax: syn::File,
    pub(super) tokens: TokenStream,
}

impl Source {
    /// Reads and parses the file at `path`, which is relative to the root.
    ///
    /// # Errors
    /// If it cannot be read or is no Rust.
    pub(super) fn read(path: &Path) -> Result<Source> {
        let text = std::fs::read_to_string(workspace::root().join(path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        Source::parse(path, text)
    }

    /// Parses `text` as the file `path`.
    ///
    /// # Errors
    /// If it is no Rust.
    pub(super) fn parse(path: impl AsRef<Path>, text: impl Into<String>) -> Result<Source> {
        let (path, text) = (path.as_ref().to_owned(), text.into());
        let syntax =
            syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
        let tokens = text
            .parse()
            .map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))?;
        Ok(Source { path, text, syntax, tokens })
    }

    /// A finding at the start of `span`.
    pub(super) fn finding(&self, span: Span, message: impl Into<String>) -> RuleFinding {
        RuleFinding { path: self.path.clone(), line: span.start().line, message: message.into() }
    }

    /// Whether the comment on the line of `span`, or the block of comments and attributes right
    /// above its statement, contains `word`.
    pub(super) fn comment_says(&self, span: Span, word: &str) -> bool {
        self.comment_with(span, word).is_some()
    }

    /// Returns that comment, from `word` on, in one line.
    pub(super) fn comment_with(&self, span: Span, word: &str) -> Option<String> {
        let lines: Vec<&str> = self.text.lines().collect();
        let index = span.start().line.saturating_sub(1);
        let own = lines.get(index).and_then(|line| line.split_once("//"));
        if let Some((_, comment)) = own.filter(|(_, comment)| comment.contains(word)) {
            return Some(comment.trim().to_owned());
        }
        let mut above = lines[..index.min(lines.len())].iter().rev().map(|line| line.trim());
        // A statement may begin lines before its `unsafe`: `let x =` above `unsafe { … }`.
        let begins_above = |line: &str| line.ends_with(['=', '(', ',', '|']) || line == "return";
        let above: Vec<&str> = above
            .by_ref()
            .skip_while(|line| begins_above(line) && !line.starts_with("//"))
            .take_while(|line| line.starts_with("//") || line.starts_with("#["))
            .filter(|line| line.starts_with("//"))
            .map(|line| line.trim_start_matches('/').trim())
            .collect();
        let text = above.into_iter().rev().collect::<Vec<&str>>().join(" ");
        text.find(word).map(|at| text[at..].to_owned())
    }
}

/// The messages of what `check` finds in `text`, read as the file `path`.
#[cfg(test)]
pub(super) fn messages(
    path: &str,
    text: &str,
    check: impl Fn(&Source, &mut Vec<RuleFinding>),
) -> Vec<String> {
    let source = Source::parse(path, text).unwrap();
    let mut findings = Vec::new();
    check(&source, &mut findings);
    findings.into_iter().map(|finding| format!("{}: {}", finding.line, finding.message)).collect()
}
