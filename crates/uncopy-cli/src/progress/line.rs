//! Draws one line on the terminal again and again, no wider than the terminal is then.

use std::io::{Write, stderr};

use terminal_size::{Width, terminal_size_of};
use unicode_width::UnicodeWidthChar;

/// Width of a terminal that does not say how wide it is.
const USUAL_COLUMNS: usize = 80;

/// Width below which a part is rather left out than shortened.
const MIN_COLUMNS: usize = 12;

/// Mark of a part that is shortened.
const CUT: &str = "...";

/// Part of a line.
#[derive(Debug, Clone)]
pub(super) struct Part {
    text: String,
    /// Text between the part before it and this one.
    gap: &'static str,
    /// The part with the highest number is left out first.
    rank: u8,
    /// Whether it may be shortened before another part is left out.
    shrinks: bool,
}

impl Part {
    /// Makes a part that is apart from the one before it.
    pub(super) fn new(rank: u8, text: impl Into<String>) -> Part {
        Part { text: text.into(), gap: "  ", rank, shrinks: false }
    }

    /// Puts it close to the one before it.
    pub(super) fn close(self) -> Part {
        Part { gap: " ", ..self }
    }

    /// Lets it be shortened.
    pub(super) fn shrinking(self) -> Part {
        Part { shrinks: true, ..self }
    }
}

/// Line that is drawn over and over, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct StatusLine {
    /// Columns of the terminal that show it.
    shown: usize,
}

impl StatusLine {
    /// Draws these parts, as far as they fit.
    pub(super) fn show(&mut self, parts: &[Part]) {
        let room = room(columns());
        let text = fit(parts, room);
        write(&redrawn(&text, self.shown.min(room)));
        self.shown = width(&text);
    }

    /// Draws a text, as far as it fits.
    pub(crate) fn show_text(&mut self, text: &str) {
        self.show(&[Part::new(0, text)]);
    }

    /// Removes it from the terminal, until it is drawn again.
    pub(crate) fn clear(&mut self) {
        let shown = std::mem::take(&mut self.shown).min(room(columns()));
        if shown > 0 {
            write(&redrawn("", shown));
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Joins all parts, however wide they are.
pub(super) fn joined(parts: &[Part]) -> String {
    let mut line = String::new();
    for part in parts {
        match line.is_empty() {
            true => line.push_str(part.text.trim_start()),
            false => line.extend([part.gap, &part.text]),
        }
    }
    line
}

/// Returns the text that draws a line in place of one of this width.
fn redrawn(text: &str, over: usize) -> String {
    format!("\r{:over$}\r{text}", "")
}

fn write(text: &str) {
    let mut to = stderr().lock();
    let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

/// Returns the width of the terminal at this moment.
fn columns() -> usize {
    let size = terminal_size_of(stderr());
    size.map_or(USUAL_COLUMNS, |(Width(columns), _)| usize::from(columns))
}

/// Returns the columns that a line may take: some terminals begin the next line when the last column is
/// written to.
fn room(columns: usize) -> usize {
    if columns > 1 { columns - 1 } else { columns }
}

/// Joins the parts that fit into so many columns. Parts are left out, the least important first, until
/// the rest fits; one that may be shortened is, where that is enough.
fn fit(parts: &[Part], columns: usize) -> String {
    let mut kept: Vec<Part> = parts.to_vec();
    loop {
        let line = joined(&kept);
        let excess = width(&line).saturating_sub(columns);
        if excess == 0 {
            return line;
        }
        if let Some(part) = kept.iter_mut().find(|part| part.shrinks)
            && let Some(enough) = width(&part.text).checked_sub(excess)
            && enough >= MIN_COLUMNS
        {
            part.text = shortened(&part.text, enough);
            continue;
        }
        let last = (0..kept.len()).max_by_key(|at| kept[*at].rank);
        match last {
            Some(last) if kept.len() > 1 => drop(kept.remove(last)),
            _ => return shortened(&line, columns),
        }
    }
}

/// Cuts a text so that it takes no more than so many columns.
fn shortened(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mark = if columns > CUT.len() { CUT } else { "" };
    let mut left = columns - mark.len();
    let mut kept = String::new();
    for character in text.chars() {
        let Some(rest) = left.checked_sub(width_of(character)) else { break };
        left = rest;
        kept.push(character);
    }
    kept + mark
}

/// Returns the columns that a text takes at most: terminals differ in whether they join characters (a
/// man, a zero width joiner, a woman) into one.
fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

fn width_of(character: char) -> usize {
    match character {
        // It may make the character before it a wide one (Unicode, UTS 51, emoji presentation).
        '\u{fe0f}' => 1,
        other => other.width().unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows the cells of one row of a terminal, and panics if text goes beyond it.
    struct Row {
        cells: Vec<bool>,
        at: usize,
    }

    impl Row {
        fn write(&mut self, text: &str) {
            for character in text.chars() {
                if character == '\r' {
                    self.at = 0;
                    continue;
                }
                for _ in 0..character.width().unwrap_or(1) {
                    assert!(self.at < self.cells.len(), "{text:?} in {}", self.cells.len());
                    self.cells[self.at] = character != ' ';
                    self.at += 1;
                }
            }
        }

        fn end(&self) -> usize {
            self.cells.iter().rposition(|is_written| *is_written).map_or(0, |last| last + 1)
        }
    }

    const NAMES: [&str; 9] = [
        "",
        "a",
        "a name of some length, with spaces.iso",
        "\u{6f22}\u{5b57}\u{306e}\u{9577}\u{3044}\u{540d}\u{524d}\u{306e}\u{30d5}\u{30a1}\u{30a4}\u{30eb}",
        "e\u{301}e\u{301}\u{302}\u{303}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}",
        "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
        "\u{2764}\u{fe0f}\u{2764}\u{fe0f}\u{2764}\u{fe0f}\u{2764}\u{fe0f}\u{2764}\u{fe0f}\u{2764}\u{fe0f}",
        "\u{e9}\u{6f22}e\u{301}\u{ff21}\u{1f600}\u{600}\u{e01}\u{e33}",
        "\\u{1b}[31m, as control characters are shown",
    ];

    fn line(name: &str) -> Vec<Part> {
        vec![
            Part::new(3, format!("copying {name}")).shrinking(),
            Part::new(0, " 42%"),
            Part::new(5, "[=========>              ]").close(),
            Part::new(1, "1.00 GiB/2.38 GiB").close(),
            Part::new(2, "512.00 MiB/s"),
            Part::new(4, "3s left"),
        ]
    }

    #[test]
    fn a_line_is_never_wider_than_the_terminal() {
        for name in NAMES.iter().map(|name| name.to_string()).chain(NAMES.map(|n| n.repeat(9))) {
            for columns in 1..=500 {
                let text = fit(&line(&name), room(columns));
                assert!(width(&text) <= room(columns), "{text:?} in {columns}");
                assert!(!text.is_empty() && !text.contains(['\r', '\n']), "{text:?}");
                let mut row = Row { cells: vec![false; columns], at: 0 };
                row.write(&redrawn(&text, 0));
            }
        }
    }

    #[test]
    fn the_least_important_part_goes_first() {
        let long = "n".repeat(60);
        for (name, columns, expected) in [
            (
                "a",
                100,
                "copying a   42% [=========>              ] 1.00 GiB/2.38 GiB  512.00 MiB/s  3s left",
            ),
            (
                &*long,
                100,
                "copying nnnnnnnnnnnnnn...   42% [=========>              ] 1.00 GiB/2.38 GiB  512.00 MiB/s  3s left",
            ),
            ("a", 80, "copying a   42% 1.00 GiB/2.38 GiB  512.00 MiB/s  3s left"),
            ("a", 50, "copying a   42% 1.00 GiB/2.38 GiB  512.00 MiB/s"),
            (&*long, 50, "42% 1.00 GiB/2.38 GiB  512.00 MiB/s"),
            (&*long, 52, "copying nn...   42% 1.00 GiB/2.38 GiB  512.00 MiB/s"),
            ("a", 30, "42% 1.00 GiB/2.38 GiB"),
            ("a", 10, "42%"),
            ("a", 4, "42%"),
            ("a", 3, "42"),
            ("a", 1, "4"),
        ] {
            assert_eq!(fit(&line(name), room(columns)), expected, "{columns}");
        }
    }

    #[test]
    fn a_shortened_text_ends_between_characters() {
        for (text, columns, expected) in [
            ("abcdef", 6, "abcdef"),
            ("abcdefg", 6, "abc..."),
            ("\u{6f22}\u{5b57}\u{6f22}\u{5b57}", 8, "\u{6f22}\u{5b57}\u{6f22}\u{5b57}"),
            // The next character would take two columns, of which one is there.
            ("\u{6f22}\u{5b57}\u{6f22}\u{5b57}", 7, "\u{6f22}\u{5b57}..."),
            ("\u{6f22}\u{5b57}\u{6f22}\u{5b57}", 6, "\u{6f22}..."),
            ("\u{6f22}\u{5b57}", 3, "\u{6f22}"),
            ("\u{6f22}\u{5b57}", 1, ""),
            // Marks stay with their letter.
            (
                "e\u{301}e\u{301}\u{302}e\u{301}e\u{301}e\u{301}e\u{301}",
                5,
                "e\u{301}e\u{301}\u{302}...",
            ),
        ] {
            assert_eq!(shortened(text, columns), expected, "{text:?} in {columns}");
        }
    }

    /// The terminal may have another width for each drawing.
    #[test]
    fn nothing_of_an_older_line_stays() {
        for (before, now) in [(500, 1), (1, 500), (80, 80), (80, 40), (40, 80), (12, 11), (2, 3)] {
            for (name, next) in [(NAMES[3], "a"), ("a", NAMES[3]), (NAMES[2], NAMES[4])] {
                let old = fit(&line(name), room(before));
                let new = fit(&line(next), room(now));
                let mut row = Row { cells: vec![false; now], at: 0 };
                // The part that the narrower terminal still shows.
                row.write(&shortened(&old, room(now)));
                row.write(&redrawn(&new, width(&old).min(room(now))));
                assert_eq!(row.end(), width(new.trim_end()), "{name:?} and {next:?} in {now}");
                row.write(&redrawn("", width(&new).min(room(now))));
                assert_eq!((row.end(), row.at), (0, 0), "{name:?} and {next:?} in {now}");
            }
        }
    }
}
