//! A Markdown page as plain text of 80 columns, for a terminal (pure).

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Columns between two columns of a table.
const GAP: usize = 2;

/// Renders a page. Links become their words and what `target` returns for them; pictures are left out.
pub(crate) fn render(markdown: &str, target: &dyn Fn(&str) -> Option<String>) -> String {
    let mut page = PlainPage::default();
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. }) => {
                page.link = Some(Link { at: page.words.len(), target: target(&dest_url) });
            }
            event => page.take(event),
        }
    }
    page.text.trim_end().to_owned() + "\n"
}

/// A page while it is written.
#[derive(Default)]
struct PlainPage {
    text: String,
    /// Words of the paragraph, heading or cell that is being read.
    words: String,
    /// Lists that are open, the outermost first: the number of the next item, if they have numbers.
    lists: Vec<Option<u64>>,
    /// Mark of an item whose first line is not written yet.
    mark: Option<String>,
    code: Option<CodeBlock>,
    table: Vec<Vec<String>>,
    in_picture: bool,
    link: Option<Link>,
}

struct Link {
    /// Where its words begin.
    at: usize,
    /// Words for where it leads, if a reader can go there.
    target: Option<String>,
}

struct CodeBlock {
    is_rust: bool,
    text: String,
}

impl PlainPage {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(words) => match &mut self.code {
                Some(code) => code.text.push_str(&words),
                None if self.in_picture => {}
                None => self.words.push_str(&words),
            },
            Event::Code(words) => {
                // Wrapped as one word.
                self.words.push('`');
                self.words.push_str(&words.replace(' ', "\u{a0}"));
                self.words.push('`');
            }
            Event::SoftBreak => self.words.push(' '),
            Event::HardBreak => self.words.push('\n'),
            Event::Rule => self.block(&"-".repeat(WIDTH)),
            _ => {}
        }
    }

    fn begin(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::CodeBlock(kind) => {
                let is_rust = matches!(kind, CodeBlockKind::Fenced(it) if it.starts_with("rust"));
                self.code = Some(CodeBlock { is_rust, text: String::new() });
            }
            Tag::List(first) => {
                self.paragraph();
                self.lists.push(first);
            }
            Tag::Item => {
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "- ".to_owned(),
                };
                self.mark = Some(mark);
            }
            Tag::Table(_) => self.table = Vec::new(),
            Tag::TableHead | Tag::TableRow => self.table.push(Vec::new()),
            Tag::Image { .. } => self.in_picture = true,
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                let words = std::mem::take(&mut self.words).replace('`', "");
                let line = match level {
                    HeadingLevel::H1 => "=",
                    HeadingLevel::H2 => "-",
                    _ => "",
                };
                let below = line.repeat(words.chars().count());
                self.block(format!("{words}\n{below}").trim_end());
            }
            TagEnd::Paragraph | TagEnd::Item => self.paragraph(),
            TagEnd::CodeBlock => self.code_block(),
            TagEnd::List(_) => {
                self.lists.pop();
                if self.lists.is_empty() {
                    self.blank_line();
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.words);
                if let Some(row) = self.table.last_mut() {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                let rows = std::mem::take(&mut self.table);
                self.block(&table(&rows));
            }
            TagEnd::Image => self.in_picture = false,
            TagEnd::Link => self.link(),
            _ => {}
        }
    }

    /// Writes the words so far, below the mark of an item if they are its first ones.
    fn paragraph(&mut self) {
        let words = std::mem::take(&mut self.words);
        if words.trim().is_empty() {
            return;
        }
        let depth = self.lists.len();
        let indent = 2 * depth;
        let lines = wrap(&words, WIDTH - indent - usize::from(depth > 0));
        let mark = self.mark.take();
        for (index, line) in lines.iter().enumerate() {
            let before = match &mark {
                Some(mark) if index == 0 => format!("{mark:>indent$}"),
                Some(mark) => " ".repeat(indent.max(mark.chars().count())),
                None => " ".repeat(indent),
            };
            self.text.push_str(&format!("{before}{line}\n"));
        }
        if depth == 0 {
            self.blank_line();
        }
    }

    /// Writes where a link leads: in the place of words that only name the page, and else behind them.
    fn link(&mut self) {
        let Some(Link { at, target: Some(target) }) = self.link.take() else { return };
        let words = &self.words[at..];
        if words == target {
            return;
        }
        let target = target.replace(' ', "\u{a0}");
        match words.ends_with(".md") {
            true => self.words.replace_range(at.., &target),
            false => self.words.push_str(&format!(" [{target}]")),
        }
    }

    fn code_block(&mut self) {
        let Some(code) = self.code.take() else { return };
        self.paragraph();
        // Lines that rustdoc hides.
        let is_hidden = |line: &&str| code.is_rust && (line.starts_with("# ") || *line == "#");
        let lines = code.text.lines().filter(|line| !is_hidden(line));
        let block: String =
            lines.map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect();
        self.block(block.trim_end());
    }

    /// Writes lines with a blank line after them, and before them.
    fn block(&mut self, lines: &str) {
        self.blank_line();
        self.text.push_str(lines);
        self.text.push_str("\n\n");
    }

    fn blank_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }
}

/// Lines of at most `width` columns; a longer word has a line of its own.
fn wrap(words: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in words.split('\n') {
        let mut line = String::new();
        for word in paragraph.split([' ', '\t']).filter(|word| !word.is_empty()) {
            if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines.iter().map(|line| line.replace('\u{a0}', " ")).collect()
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

/// A table, of which the first row is the head: cells are wrapped so that all fit into the width.
fn table(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let natural: Vec<usize> = (0..count)
        .map(|index| rows.iter().filter_map(|row| row.get(index)).map(|cell| columns(cell)).max())
        .map(|widest| widest.unwrap_or(0).max(1))
        .collect();
    let widths = fit(&natural, WIDTH.saturating_sub(GAP * count.saturating_sub(1)));
    let mut text = String::new();
    let is_wrapped = natural != widths;
    for (index, row) in rows.iter().enumerate() {
        if row.iter().all(|cell| cell.trim().is_empty()) {
            continue;
        }
        if is_wrapped && index > 1 {
            text.push('\n');
        }
        text.push_str(&table_row(row, &widths));
        if index == 0 {
            let rules: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
            text.push_str(&rules.join(&" ".repeat(GAP)));
            text.push('\n');
        }
    }
    text.trim_end().to_owned()
}

fn table_row(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| wrap(cell, *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    for line in 0..height {
        let mut all = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            let words = cell.get(line).map_or("", String::as_str);
            all.push_str(words);
            all.push_str(&" ".repeat(width.saturating_sub(columns(words)) + GAP));
        }
        text.push_str(all.trim_end());
        text.push('\n');
    }
    text
}

/// Widths that fit into `room`: narrow columns keep theirs, and the wide ones share the rest.
fn fit(natural: &[usize], room: usize) -> Vec<usize> {
    let mut widths = vec![0; natural.len()];
    let mut left = room;
    let mut open: Vec<usize> = (0..natural.len()).collect();
    loop {
        let share = left / open.len().max(1);
        let (narrow, wide): (Vec<_>, Vec<_>) =
            open.iter().partition(|index| natural[**index] <= share);
        if narrow.is_empty() {
            for index in wide {
                widths[index] = share.max(1);
            }
            return widths;
        }
        for index in narrow {
            widths[index] = natural[index];
            left -= natural[index];
        }
        open = wide;
    }
}

#[cfg(test)]
mod tests {
    use super::{WIDTH, columns, fit, render};

    #[test]
    fn a_page_becomes_plain() {
        let page = "\
# A `b`
One [link](x.md), [x.md](x.md#y), [here](#c), [there](https://a.b) and
*two*.

- first
- second, which is so long that it must be wrapped, because a terminal has 80 columns
  and no more
  1. inner

## C
```rust
# hidden();
shown();
```
| a | b |
|---|---|
| `x y` | 2 |
";
        let expected = "\
A b
===

One link [uncopy help x], uncopy help x, here, there [https://a.b] and two.

- first
- second, which is so long that it must be wrapped, because a terminal has 80
  columns and no more
 1. inner

C
-

    shown();

a      b
-----  -
`x y`  2
";
        let target = |to: &str| match to.split('#').next().unwrap() {
            "" => None,
            "x.md" => Some("uncopy help x".to_owned()),
            address => Some(address.to_owned()),
        };
        assert_eq!(render(page, &target), expected);
    }

    #[test]
    fn wide_columns_share_what_narrow_ones_leave() {
        assert_eq!(fit(&[3, 4], 10), [3, 4]);
        assert_eq!(fit(&[3, 40, 40], 23), [3, 10, 10]);
        assert_eq!(fit(&[], 10), [0; 0]);
        assert_eq!(fit(&[40, 40], 0), [1, 1]);
    }

    #[test]
    fn tables_are_no_wider_than_a_terminal() {
        let cell = "word ".repeat(40);
        let page = format!("| a | b | c |\n|---|---|---|\n| {cell} | x | {cell} |\n");
        let text = render(&page, &|_| None);
        assert!(text.lines().all(|line| columns(line) <= WIDTH), "{text}");
        assert!(text.lines().count() > 5, "{text}");
    }
}
