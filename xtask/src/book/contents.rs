//! The table of contents: each page once, and each page with a title.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::links::{Place, resolve};
use super::page::Page;
use super::{BOOK, CONTENTS};
use crate::finding::RuleFinding;

/// Every page of the book is in the contents once, and nothing else is.
pub(super) fn check(pages: &[Page], findings: &mut Vec<RuleFinding>) {
    let Some(contents) = pages.iter().find(|page| page.path == Path::new(CONTENTS)) else {
        let message = "the book has no table of contents; write one".into();
        findings.push(RuleFinding { path: CONTENTS.into(), line: 1, message });
        return;
    };
    let mut listed: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for link in &contents.links {
        let Place::File { path, .. } = resolve(&contents.path, &link.target) else {
            findings.push(contents.finding(link.line, "no page of the book; leave it out"));
            continue;
        };
        if !path.starts_with(BOOK) {
            findings.push(contents.finding(link.line, "not in the book; link to it from a page"));
        }
        if listed.insert(path, link.line).is_some() {
            findings.push(contents.finding(link.line, "listed twice; keep one"));
        }
    }
    for page in pages.iter().filter(|page| page.path.starts_with(BOOK)) {
        if page.path != contents.path && !listed.contains_key(&page.path) {
            findings.push(page.finding(1, format!("not in {CONTENTS}; list it there")));
        }
        check_title(page, findings);
    }
}

/// One heading of the first level, and it comes first.
fn check_title(page: &Page, findings: &mut Vec<RuleFinding>) {
    if page.headings.first().is_none_or(|(level, _)| *level != 1) {
        findings.push(page.finding(1, "begins without a title; begin with `# `"));
    }
    let further = page.headings.iter().filter(|(level, _)| *level == 1).skip(1);
    let is_contents = page.path == Path::new(CONTENTS);
    for (_, line) in further.filter(|_| !is_contents) {
        findings.push(page.finding(*line, "a second title; make it `## `, or a page of its own"));
    }
}

#[cfg(test)]
mod tests {
    use super::{Page, check};

    fn messages(pages: &[(&str, &str)]) -> Vec<String> {
        let pages: Vec<Page> = pages.iter().map(|(path, text)| Page::parse(*path, *text)).collect();
        let mut findings = Vec::new();
        check(&pages, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_page_is_listed_once() {
        let contents = ("docs/SUMMARY.md", "# C\n[a](a.md)\n[b](b.md)\n[a](a.md)\n[r](../R.md)\n");
        let found = messages(&[contents, ("docs/a.md", "# A\n"), ("docs/c.md", "# C\n")]);
        assert_eq!(
            found,
            [
                "docs/SUMMARY.md:4: listed twice; keep one",
                "docs/SUMMARY.md:5: not in the book; link to it from a page",
                "docs/c.md:1: not in docs/SUMMARY.md; list it there",
            ]
        );
    }

    #[test]
    fn a_book_needs_contents_and_pages_titles() {
        assert_eq!(messages(&[("docs/a.md", "# A\n")]).len(), 1);
        let contents = ("docs/SUMMARY.md", "# C\n[a](a.md)\n[b](b.md)\n# Part\n");
        let found = messages(&[contents, ("docs/a.md", "text\n"), ("docs/b.md", "# B\n\n# B\n")]);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
