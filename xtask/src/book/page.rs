//! A Markdown file, as far as the checks look at it.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Result;
use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::finding::RuleFinding;

/// A link or a picture.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) target: String,
    /// The first line it is on, from 1.
    pub(super) line: usize,
    /// Where the whole link stands in the text, if its target stands there too.
    pub(super) inline: Option<Range<usize>>,
}

/// A fenced block of code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Info string of the fence: `rust,no_run`.
    pub(super) language: String,
    pub(super) text: String,
    /// The line of the fence.
    pub(super) line: usize,
}

/// A parsed file.
#[derive(Debug)]
pub(super) struct Page {
    /// Relative to the root.
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// Levels of the headings, in order, with their lines.
    pub(super) headings: Vec<(usize, usize)>,
    /// Anchors that a link can name behind `#`.
    pub(super) anchors: Vec<String>,
    pub(super) links: Vec<Link>,
    pub(super) blocks: Vec<Block>,
}

impl Page {
    /// Reads the file at `path`, which is relative to the root.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn read(path: &Path) -> Result<Page> {
        Ok(Page::parse(path, super::read(path)?))
    }

    /// Parses `text` as the file `path`.
    pub(super) fn parse(path: impl Into<PathBuf>, text: impl Into<String>) -> Page {
        let mut page = Page {
            path: path.into(),
            text: text.into(),
            headings: Vec::new(),
            anchors: Vec::new(),
            links: Vec::new(),
            blocks: Vec::new(),
        };
        let text = std::mem::take(&mut page.text);
        page.take_in(&text);
        page.text = text;
        page
    }

    fn take_in(&mut self, text: &str) {
        let line_of = |at: usize| text[..at].bytes().filter(|byte| *byte == b'\n').count() + 1;
        let mut seen = HashMap::new();
        let mut heading: Option<String> = None;
        let mut block: Option<Block> = None;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    self.headings.push((level as usize, line_of(range.start)));
                    heading = Some(String::new());
                }
                Event::End(TagEnd::Heading(_)) => {
                    let words = heading.take().unwrap_or_default();
                    self.anchors.push(distinct(anchor(&words), &mut seen));
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                    let (language, line) = (language.to_string(), line_of(range.start));
                    block = Some(Block { language, text: String::new(), line });
                }
                Event::End(TagEnd::CodeBlock) => self.blocks.extend(block.take()),
                Event::Start(
                    Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. },
                ) => {
                    let (target, line) = (dest_url.to_string(), line_of(range.start));
                    let inline = (link_type == LinkType::Inline).then_some(range);
                    self.links.push(Link { target, line, inline });
                }
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    } else if let Some(block) = &mut block {
                        block.text.push_str(&words);
                    }
                }
                _ => {}
            }
        }
    }

    /// A finding on `line`.
    pub(super) fn finding(&self, line: usize, message: impl Into<String>) -> RuleFinding {
        RuleFinding { path: self.path.clone(), line, message: message.into() }
    }

    /// The text with the targets of inline links replaced where `replace` says so.
    pub(super) fn with_targets(&self, replace: impl Fn(&str) -> Option<String>) -> String {
        let mut text = self.text.clone();
        for link in self.links.iter().rev() {
            let (Some(range), Some(new)) = (&link.inline, replace(&link.target)) else { continue };
            // The target is the last thing in a link that these pages write: they have no titles.
            if let Some(at) = text[range.clone()].rfind(&link.target) {
                let begin = range.start + at;
                text.replace_range(begin..begin + link.target.len(), &new);
            }
        }
        text
    }
}

/// The name under which mdBook and the usual hosts of repositories link to a heading.
fn anchor(words: &str) -> String {
    words
        .trim()
        .chars()
        .filter_map(|letter| match letter {
            ' ' => Some('-'),
            _ if letter.is_alphanumeric() || letter == '-' || letter == '_' => Some(letter),
            _ => None,
        })
        .flat_map(char::to_lowercase)
        .collect()
}

/// `anchor`, or with a number where the page has had it already.
fn distinct(anchor: String, seen: &mut HashMap<String, usize>) -> String {
    let count = seen.entry(anchor.clone()).and_modify(|count| *count += 1).or_insert(0);
    if *count == 0 { anchor } else { format!("{anchor}-{count}") }
}

#[cfg(test)]
mod tests {
    use super::Page;

    const TEXT: &str = "# A `b-c`: D\n\n[x](y.md#z) ![p](p.svg)\n\n## Same\n\n## Same\n\n\
                        ```console\n$ uncopy [no](link.md)\n```\n\n[r]\n\n[r]: https://e.org\n";

    #[test]
    fn headings_links_and_blocks() {
        let page = Page::parse("docs/a.md", TEXT);
        assert_eq!(page.anchors, ["a-b-c-d", "same", "same-1"]);
        assert_eq!(page.headings, [(1, 1), (2, 5), (2, 7)]);
        let links: Vec<_> = page.links.iter().map(|l| (&*l.target, l.line)).collect();
        assert_eq!(links, [("y.md#z", 3), ("p.svg", 3), ("https://e.org", 13)]);
        assert_eq!(page.blocks[0].text, "$ uncopy [no](link.md)\n");
        assert_eq!((&*page.blocks[0].language, page.blocks[0].line), ("console", 9));
    }

    #[test]
    fn targets_are_replaced_where_they_stand() {
        let page = Page::parse("docs/a.md", "[y.md](y.md), [y](y.md), [z](z.md)\n");
        let text = page.with_targets(|target| (target == "y.md").then(|| "../q/y.md".into()));
        assert_eq!(text, "[y.md](../q/y.md), [y](../q/y.md), [z](z.md)\n");
    }
}
