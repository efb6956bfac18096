//! Links between pages: where they lead, and whether something is there.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use super::page::Page;
use crate::finding::RuleFinding;

/// Where a link leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Out of the repository; nobody is asked whether it is there.
    Elsewhere,
    /// A file, relative to the root, and a heading in it.
    File { path: PathBuf, anchor: Option<String> },
    /// Above the root.
    Outside,
}

/// Where `target` leads from the page at `from`.
pub(super) fn resolve(from: &Path, target: &str) -> Place {
    if target.contains("://") || target.starts_with("mailto:") {
        return Place::Elsewhere;
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor.to_owned())),
        None => (target, None),
    };
    if file.is_empty() {
        return Place::File { path: from.to_owned(), anchor };
    }
    let mut path = from.parent().unwrap_or(Path::new("")).to_owned();
    for component in Path::new(file).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            _ => return Place::Outside,
        }
    }
    if file.ends_with('/') {
        path.push("README.md");
    }
    Place::File { path, anchor }
}

/// Every link of every page leads to something. `exists` is asked about files that are no pages.
pub(super) fn check(
    pages: &HashMap<&Path, &Page>,
    exists: impl Fn(&Path) -> bool,
    findings: &mut Vec<RuleFinding>,
) {
    for page in pages.values() {
        for link in &page.links {
            if let Some(message) = trouble(pages, &exists, &page.path, &link.target) {
                findings.push(page.finding(link.line, format!("{}: {message}", link.target)));
            }
        }
    }
}

fn trouble(
    pages: &HashMap<&Path, &Page>,
    exists: impl Fn(&Path) -> bool,
    from: &Path,
    target: &str,
) -> Option<String> {
    match resolve(from, target) {
        Place::Elsewhere => None,
        Place::Outside => Some("leads out of the repository; link to something in it".into()),
        Place::File { path, anchor } => match (pages.get(&*path), anchor) {
            (Some(page), Some(anchor)) if !page.anchors.contains(&anchor) => {
                Some(format!("no such heading; {} has {}", path.display(), page.anchors.join(", ")))
            }
            (None, Some(_)) => Some("a heading of what is no page; link to the file".into()),
            (None, None) if !exists(&path) => {
                Some("no such file; correct the path, or end that of a directory with /".into())
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use super::{Page, Place, check, resolve};

    #[test]
    fn targets_lead_somewhere() {
        let file = |path: &str, anchor: Option<&str>| Place::File {
            path: path.into(),
            anchor: anchor.map(Into::into),
        };
        for (from, target, place) in [
            ("docs/a.md", "b.md", file("docs/b.md", None)),
            ("docs/a.md", "#x", file("docs/a.md", Some("x"))),
            ("docs/why/a.md", "../b.md#x", file("docs/b.md", Some("x"))),
            ("docs/a.md", "../README.md", file("README.md", None)),
            ("README.md", "docs/", file("docs/README.md", None)),
            ("README.md", "../x.md", Place::Outside),
            ("README.md", "/x.md", Place::Outside),
            ("README.md", "https://example.org/x", Place::Elsewhere),
        ] {
            assert_eq!(resolve(Path::new(from), target), place, "{from} {target}");
        }
    }

    #[test]
    fn dead_links_are_found() {
        let text = "# A\n[1](b.md) [2](b.md#b) [3](c.md)\n[4](b.md#c) [5](d.txt) [6](d.txt#x)\n";
        let (a, b) = (Page::parse("docs/a.md", text), Page::parse("docs/b.md", "# B\n"));
        let pages = HashMap::from([(&*a.path, &a), (&*b.path, &b)]);
        let mut findings = Vec::new();
        check(&pages, |path| path == Path::new("docs/d.txt"), &mut findings);
        let lines: Vec<_> = findings.iter().map(|f| (f.line, f.message.as_str())).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(
            lines[0]
                == (2, "c.md: no such file; correct the path, or end that of a directory with /")
        );
        assert!(lines[1].0 == 3 && lines[1].1.starts_with("b.md#c: no such heading"));
        assert!(lines[2].1.starts_with("d.txt#x: a heading of what is no page"));
    }
}
