//! The book as mdBook builds it: with what its pages link to outside of `docs/` laid beside them,
//! so that every link leads somewhere there too.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::links::{Place, resolve};
use super::page::Page;
use super::{BOOK, CONTENTS};
use crate::workspace;

/// Where files from outside of the book go in it.
const BESIDE: &str = "repository";

/// Builds the book with `mdbook` into `target/book`.
///
/// # Errors
/// If a file cannot be copied, or mdBook fails.
pub(super) fn build(mdbook: &Path, pages: &[Page]) -> Result<PathBuf> {
    let target = workspace::target_directory();
    let (source, output) = (target.join("book-source"), target.join("book"));
    if source.exists() {
        fs::remove_dir_all(&source)
            .with_context(|| format!("cannot empty {}", source.display()))?;
    }
    for file in workspace::tracked_files()?.iter().filter(|file| file.starts_with(BOOK)) {
        put(&source, &place(file), &fs::read(workspace::root().join(file))?)?;
    }
    for (path, text) in rewritten(pages) {
        match text {
            Some(text) => put(&source, &place(&path), text.as_bytes())?,
            None => put(&source, &place(&path), &fs::read(workspace::root().join(&path))?)?,
        }
    }
    let mut command = Command::new(mdbook);
    command.arg("build").arg("--dest-dir").arg(&output).env("MDBOOK_BOOK__SRC", &source);
    workspace::run(command.current_dir(workspace::root()))?;
    let dead = dead_links(&rendered(&output)?, |path| output.join(path).is_file());
    ensure!(dead.is_empty(), "dead links in the rendered book:\n{}", dead.join("\n"));
    Ok(output)
}

/// The text of every page that mdBook made, by its path in the book.
fn rendered(output: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut pages = BTreeMap::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(output.join(&directory))
            .with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|it| it == "html") {
                pages.insert(path, fs::read_to_string(entry.path())?);
            }
        }
    }
    // One page with all others in it, whose links lead to those, and one for any place at all.
    pages.retain(|path, _| !["print.html", "404.html"].iter().any(|it| path == Path::new(it)));
    Ok(pages)
}

/// Links of rendered pages that lead nowhere. `exists` is asked about files that are no pages.
fn dead_links(pages: &BTreeMap<PathBuf, String>, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let has = |page: &str, anchor: &str| page.contains(&format!("id=\"{anchor}\""));
    let mut dead = Vec::new();
    for (path, text) in pages {
        for link in text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let Place::File { path: target, anchor } = resolve(path, link) else { continue };
            let is_there = match (pages.get(&target), anchor) {
                (Some(page), Some(anchor)) => anchor.is_empty() || has(page, &anchor),
                _ => exists(&target),
            };
            if !is_there {
                dead.push(format!("{}: {link}", path.display()));
            }
        }
    }
    dead
}

fn put(source: &Path, file: &Path, contents: &[u8]) -> Result<()> {
    let path = source.join(file);
    let directory = path.parent().unwrap_or(source);
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&path, contents))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Where a file of the repository is in the book.
fn place(file: &Path) -> PathBuf {
    match file.strip_prefix(BOOK) {
        Ok(inside) => inside.to_owned(),
        Err(_) => Path::new(BESIDE).join(file),
    }
}

/// The book's pages, and all files that these and what they link to link to: with their new text,
/// or as they are.
fn rewritten(pages: &[Page]) -> BTreeMap<PathBuf, Option<String>> {
    let by_path: HashMap<&Path, &Page> = pages.iter().map(|page| (&*page.path, page)).collect();
    let mut waiting: Vec<PathBuf> =
        pages.iter().map(|page| page.path.clone()).filter(|path| path.starts_with(BOOK)).collect();
    let mut done: BTreeMap<PathBuf, Option<String>> = BTreeMap::new();
    while let Some(path) = waiting.pop() {
        if done.contains_key(&path) {
            continue;
        }
        let Some(page) = by_path.get(&*path) else {
            done.insert(path, None);
            continue;
        };
        waiting.extend(page.links.iter().filter_map(|link| match resolve(&path, &link.target) {
            Place::File { path, .. } => Some(path),
            _ => None,
        }));
        done.insert(path, Some(page.with_targets(|target| moved(&page.path, target))));
    }
    let beside: Vec<&Page> = by_path
        .values()
        .copied()
        .filter(|page| !page.path.starts_with(BOOK) && done.contains_key(&page.path))
        .collect();
    if let Some(Some(contents)) = done.get_mut(Path::new(CONTENTS)) {
        contents.push_str(&chapters(beside));
    }
    done
}

/// The target of a link as it is in the book; `None`: the same.
fn moved(from: &Path, target: &str) -> Option<String> {
    let Place::File { path, anchor } = resolve(from, target) else { return None };
    let is_inside = from.starts_with(BOOK) && path.starts_with(BOOK);
    let is_index = path.file_name().is_some_and(|name| name == "README.md");
    if from == Path::new(CONTENTS) || is_inside && !is_index {
        return None;
    }
    let mut file = PathBuf::new();
    place(from).components().skip(1).for_each(|_| file.push(Component::ParentDir));
    file.push(place(&path));
    if is_index {
        // mdBook renders such a page under this name, and leaves links to it as they are.
        file.set_file_name("index.md");
    }
    let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
    Some(format!("{}{anchor}", file.display()))
}

/// A part of the contents for pages from outside of the book.
fn chapters(mut pages: Vec<&Page>) -> String {
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    let mut text = String::from("\n# The repository\n\n");
    for page in pages {
        let name = page.path.display().to_string();
        text.push_str(&format!("- [{name}]({BESIDE}/{name})\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Page, dead_links, moved, rewritten};

    #[test]
    fn links_follow_their_files() {
        for (from, target, expected) in [
            ("docs/a.md", "b.md#x", None),
            ("docs/a.md", "../S.md#x", Some("repository/S.md#x")),
            ("docs/tour/a.md", "../../S.md", Some("../repository/S.md")),
            ("S.md", "docs/a.md", Some("../a.md")),
            ("S.md", "R.md", Some("../repository/R.md")),
            ("docs/a.md", "https://example.org", None),
            ("docs/tour/a.md", "../README.md", Some("../index.md")),
            ("docs/a.md", "../README.md#x", Some("repository/index.md#x")),
            ("docs/SUMMARY.md", "README.md", None),
        ] {
            assert_eq!(moved(Path::new(from), target).as_deref(), expected, "{from} {target}");
        }
    }

    #[test]
    fn rendered_links_are_followed() {
        let page = |path: &str, text: &str| (path.into(), text.to_owned());
        let a = "<a href=\"b.html#x\"><a href=\"b.html#y\"><a href=\"c.html\"><a href=\"d.css\">\
                 <a href=\"#\"><a href=\"https://example.org/\"><a href=\"t/e.html\">";
        let pages = [page("a.html", a), page("b.html", "<h2 id=\"x\">"), page("t/e.html", "")];
        let dead = dead_links(&pages.into(), |path| {
            path == Path::new("d.css") || path == Path::new("t/e.html")
        });
        assert_eq!(dead, ["a.html: b.html#y", "a.html: c.html"]);
    }

    #[test]
    fn what_is_linked_to_comes_along() {
        let pages = [
            Page::parse("docs/SUMMARY.md", "# C\n- [a](a.md)\n"),
            Page::parse("docs/a.md", "# A\n[s](../S.md) [h](../inc/x.h)\n"),
            Page::parse("S.md", "# S\n[a](docs/a.md) [t](T.md)\n"),
            Page::parse("T.md", "# T\n"),
            Page::parse("U.md", "# U\n"),
        ];
        let files = rewritten(&pages);
        let names: Vec<_> = files.keys().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(names, ["S.md", "T.md", "docs/SUMMARY.md", "docs/a.md", "inc/x.h"]);
        let contents = files[Path::new("docs/SUMMARY.md")].as_deref().unwrap();
        assert!(contents.ends_with("- [S.md](repository/S.md)\n- [T.md](repository/T.md)\n"));
        assert_eq!(
            files[Path::new("S.md")].as_deref().unwrap(),
            "# S\n[a](../a.md) [t](../repository/T.md)\n"
        );
        assert!(files[Path::new("inc/x.h")].is_none());
    }
}
