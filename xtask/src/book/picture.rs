//! Pictures of a terminal, drawn from what was typed and printed (`docs/pictures/*.console`).

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::read;
use crate::finding::RuleFinding;
use crate::workspace;

/// Columns; longer lines are continued on the next one.
const COLUMNS: usize = 100;
/// Width of a letter and height of a line, in the picture's own units.
const LETTER: f64 = 8.4;
const LINE: usize = 20;
/// Around the text; the bar at the top comes on top of it.
const MARGIN: usize = 18;
const BAR: usize = 26;

/// The picture that belongs to a recorded text.
fn path_of(text: &Path) -> PathBuf {
    text.with_extension("svg")
}

/// Every recorded text has the picture that is drawn from it.
///
/// # Errors
/// If a text cannot be read.
pub(super) fn check(texts: &[&PathBuf], findings: &mut Vec<RuleFinding>) -> Result<()> {
    for text in texts {
        if read(&path_of(text)).ok().as_deref() != Some(&draw(&read(text)?)) {
            let message = "its picture shows something else; cargo xtask book --draw".into();
            findings.push(RuleFinding { path: (*text).clone(), line: 1, message });
        }
    }
    Ok(())
}

/// Draws the pictures of all recorded texts.
///
/// # Errors
/// If a file cannot be read or written.
pub(super) fn draw_all(texts: &[&PathBuf]) -> Result<()> {
    for text in texts {
        let path = workspace::root().join(path_of(text));
        std::fs::write(&path, draw(&read(text)?))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// How a line looks.
#[derive(Clone, Copy)]
enum Style {
    Typed,
    Printed,
    Detail,
}

impl Style {
    fn of(line: &str) -> Style {
        match line {
            _ if line.starts_with("$ ") => Style::Typed,
            _ if line.starts_with("  ") || line == "..." => Style::Detail,
            _ => Style::Printed,
        }
    }

    fn attributes(self) -> &'static str {
        match self {
            Style::Typed => "fill=\"#8fd694\" font-weight=\"bold\"",
            Style::Printed => "fill=\"#f2f2f2\"",
            Style::Detail => "fill=\"#b3bcc8\"",
        }
    }
}

/// A terminal with `text` in it, as SVG.
fn draw(text: &str) -> String {
    let lines: Vec<(Style, String)> = text
        .lines()
        .flat_map(|line| wrapped(line).into_iter().map(|part| (Style::of(line), part)))
        .collect();
    let width = (COLUMNS as f64 * LETTER) as usize + 2 * MARGIN;
    let height = lines.len() * LINE + 2 * MARGIN + BAR;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#1d2229\"/>\n"
    );
    for (at, colour) in [(20, "#ec6a5e"), (38, "#f4bf4f"), (56, "#61c554")] {
        let _ = writeln!(svg, "<circle cx=\"{at}\" cy=\"18\" r=\"5.5\" fill=\"{colour}\"/>");
    }
    svg.push_str("<g font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"14\">\n");
    for (index, (style, line)) in lines.iter().enumerate() {
        let y = BAR + MARGIN + (index + 1) * LINE - 5;
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\" {}>{}</text>",
            style.attributes(),
            escaped(line)
        );
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// The line in parts that fit, broken between words; later parts are indented as the first is, and
/// by two more.
fn wrapped(line: &str) -> Vec<String> {
    let indent = line.len() - line.trim_start().len() + 2;
    let mut parts = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let last = parts.last().map_or(0, |part| part.chars().count());
        if last + word.trim_end().chars().count() > COLUMNS && last > indent {
            parts.push(" ".repeat(indent));
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(word);
        }
    }
    parts.iter().map(|part| part.trim_end().to_owned()).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::{draw, wrapped};

    #[test]
    fn long_lines_are_broken_between_words() {
        let line = format!("  {} tail", "x".repeat(97));
        assert_eq!(wrapped(&line), [format!("  {}", "x".repeat(97)), "    tail".to_owned()]);
        assert_eq!(wrapped("  short line"), ["  short line"]);
        assert_eq!(wrapped(""), [""]);
        assert_eq!(wrapped(&"y".repeat(120)).len(), 1);
    }

    #[test]
    fn a_picture_has_every_line_and_is_xml() {
        let svg = draw("$ a <b> && c\nprinted\n  detail\n");
        for part in [">$ a &lt;b&gt; &amp;&amp; c</text>", ">printed</text>", ">  detail</text>"] {
            assert!(svg.contains(part), "{svg}");
        }
        assert_eq!(svg.matches("<text").count(), 3);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }
}
