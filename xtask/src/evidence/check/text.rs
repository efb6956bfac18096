//! Figures in pages: where passages have them, and which look like measurements.

use std::ops::Range;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use regex::Regex;

/// Placeholder for a figure in a passage.
const FIGURE: &str = "{}";

/// A page as it was written.
pub(super) struct Page {
    text: String,
    /// Code, which has figures of its own.
    code: Vec<Range<usize>>,
}

/// Code between fences or back quotes.
static CODE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?sm)^\s*```.*?^\s*```|`[^`\n]*\n?[^`\n]*`"));

/// A number with a unit of time, of rate or of shares, or a ratio.
static MEASURED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?P<figure>\d[\d,]*(?:\.\d+)?)(?:\s?(?:%|(?:ms|µs|ns|s|times|[kMG]i?B/s)\b))|(?P<ratio>\d\.\d{2,})",
    )
});

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is one")
}

impl Page {
    pub(super) fn new(text: impl Into<String>) -> Page {
        let text = text.into();
        let code = CODE.find_iter(&text).map(|found| found.range()).collect();
        Page { text, code }
    }

    pub(super) fn at(&self, range: Range<usize>) -> &str {
        &self.text[range]
    }

    /// Where the figures of a passage stand, in which white space counts as one blank.
    ///
    /// # Errors
    /// If the page does not have the passage exactly once.
    pub(super) fn figures_of(&self, passage: &str) -> Result<Vec<Range<usize>>> {
        let words = |part: &str| {
            let words: Vec<String> = part.split_whitespace().map(regex::escape).collect();
            let space = |is_space: bool| if is_space && !words.is_empty() { r"\s+" } else { "" };
            let begins = space(part.starts_with(char::is_whitespace));
            let ends = space(part.ends_with(char::is_whitespace));
            if words.is_empty() && !part.is_empty() {
                return r"\s+".to_owned();
            }
            format!("{begins}{}{ends}", words.join(r"\s+"))
        };
        let parts: Vec<String> = passage.trim().split(FIGURE).map(words).collect();
        let pattern = Regex::new(&parts.join(r"(\d(?:[\d,.]*\d)?)"))?;
        let mut found = pattern.captures_iter(&self.text);
        let captures = found.next().filter(|_| found.next().is_none());
        let captures = captures.with_context(|| format!("no such passage (once): {passage}"))?;
        Ok(captures.iter().skip(1).flatten().map(|figure| figure.range()).collect())
    }

    /// Where something stands that looks like a measurement.
    pub(super) fn measured(&self) -> impl Iterator<Item = Range<usize>> {
        MEASURED.captures_iter(&self.text).filter_map(|found| {
            let figure = found.name("figure").or_else(|| found.name("ratio"))?.range();
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '/' | '_');
            let before = self.text[..figure.start].chars().next_back();
            let is_kernel = self.text[..figure.start].trim_end().ends_with("Linux");
            // Part of a version, or of a longer number.
            let mut behind = self.text[figure.end..].chars();
            let goes_on = match behind.next() {
                Some('.') => behind.next().is_some_and(|c| c.is_ascii_digit()),
                Some(c) => found.name("ratio").is_some() && is_part(c),
                None => false,
            };
            let in_code = self.code.iter().any(|code| code.contains(&figure.start));
            (!before.is_some_and(is_part) && !goes_on && !in_code && !is_kernel).then_some(figure)
        })
    }

    /// The text around a figure, on one line.
    pub(super) fn around(&self, figure: &Range<usize>) -> String {
        let start = self.text[..figure.start].char_indices().rev().take(50).last();
        let end = self.text[figure.end..].char_indices().take(30).last();
        let start = start.map_or(figure.start, |(at, _)| at);
        let end = end.map_or(figure.end, |(at, c)| figure.end + at + c.len_utf8());
        self.text[start..end].split_whitespace().collect::<Vec<_>>().join(" ")
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        Page::new(text).measured().map(|range| &text[range]).collect()
    }

    #[test]
    fn numbers_that_look_like_measurements() {
        let table: [(&str, &[&str]); 10] = [
            ("takes 1,234 ns, or 3.5 µs.", &["1,234", "3.5"]),
            ("in 12 ms (0.93 of cp's)", &["12", "0.93"]),
            ("| **0.56** | 2 s |", &["0.56", "2"]),
            ("2.5 GB/s, 40 %, 3 times", &["2.5", "40", "3"]),
            ("a ratio of 1.035.", &["1.035"]),
            ("rsync 3.5.0 on 6.17.11, Linux 6.18, sends 64 KiB in 16 regions", &[]),
            ("runs 4 steps; v0.12 and x1.50 and 1.50x", &[]),
            ("`took 3 ms` in code, `and 4\nms` too", &[]),
            ("```\ntook 3 ms\n```\nand 4 ms", &["4"]),
            ("0.56\nof cp's, 7\nms", &["0.56", "7"]),
        ];
        for (text, figures) in table {
            assert_eq!(found(text), figures, "{text}");
        }
    }

    #[test]
    fn a_passage_is_found_across_lines_and_only_once() {
        let page = Page::new("It takes\n2,584 ns, and 3.5. Next: 4 of 5 ns.");
        let said = |passage: &str| -> Result<Vec<&str>> {
            let figures = page.figures_of(passage)?;
            Ok(figures.into_iter().map(|range| page.at(range)).collect())
        };
        assert_eq!(said("takes {} ns, and {}. Next").unwrap(), ["2,584", "3.5"]);
        assert_eq!(said("Next: {} of {}").unwrap(), ["4", "5"]);
        assert!(said("takes {} ms").is_err());
        assert!(said("{} ns").is_err());
    }
}
