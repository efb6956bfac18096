//! `cargo xtask evidence check`: every figure of the pages that comes from a record is still what the
//! record says.
//!
//! `docs/evidence/figures.toml` has, for each passage with figures, its text with `{}` in place of each
//! figure, and the recorded rows that the figures come from.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::inputs::Inputs;
use crate::compare::row::Row;
use crate::workspace;

/// What stands for a figure in a passage.
const FIGURE: &str = "{}";

/// Passages of pages, and the rows that they come from.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    /// Sections of pages in which every row of a table is a passage.
    complete: Vec<Section>,
    #[serde(rename = "passage")]
    passages: Vec<Passage>,
}

/// A section of a page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    page: String,
    heading: String,
}

/// A piece of text with figures in it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Passage {
    page: String,
    /// The text; white space counts as one blank.
    text: String,
    /// For each figure `suite | case | subject | metric unit`, or `quotient` of two of these.
    rows: Vec<String>,
}

/// One figure of a passage that is not what the record says.
#[derive(Debug, PartialEq)]
struct Disagreement {
    page: String,
    text: String,
    row: String,
    said: String,
    recorded: f64,
    noise: f64,
}

/// Holds the pages against the records in `docs/evidence`.
///
/// # Errors
/// If a figure is further from its row than the row's noise and its own last digit allow, if a passage
/// is not on its page, if a row is not in the record, or if a table of a complete section has a row
/// that no passage covers.
pub(super) fn run() -> Result<()> {
    let root = workspace::root();
    let directory = root.join("docs/evidence");
    let text = fs::read_to_string(directory.join("figures.toml")).context("figures.toml")?;
    let figures: Figures = toml::from_str(&text).context("figures.toml")?;
    let inputs = Inputs::read(&[directory])?;
    let mut count = 0;
    let mut wrong = Vec::new();
    for passage in &figures.passages {
        count += passage.rows.len();
        wrong.extend(check(passage, &page(root, &passage.page)?, &inputs)?);
    }
    for section in &figures.complete {
        let text = fs::read_to_string(root.join(&section.page))?;
        let covered = figures.passages.iter().filter(|passage| passage.page == section.page);
        if let Some(row) = uncovered(&text, &section.heading, covered)? {
            bail!(
                "{}, \"{}\": no passage of figures.toml covers {row}",
                section.page,
                section.heading
            );
        }
    }
    for Disagreement { page, text, row, said, recorded, noise } in &wrong {
        let percent = noise * 100.0;
        println!(
            "{page}: says {said}, recorded {recorded:.4} (noise {percent:.1} %): {row}\n    {text}"
        );
    }
    ensure!(
        wrong.is_empty(),
        "{} of {count} figures are not what the records say; change the text, or measure again",
        wrong.len()
    );
    println!("{count} figures of {} passages agree with the records", figures.passages.len());
    Ok(())
}

fn page(root: &Path, name: &str) -> Result<String> {
    let text = fs::read_to_string(root.join(name)).with_context(|| name.to_owned())?;
    Ok(folded(&text))
}

/// With one blank for all white space.
fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Figures of a passage that are not what the record says.
fn check(passage: &Passage, page: &str, inputs: &Inputs) -> Result<Vec<Disagreement>> {
    let name = &passage.page;
    let text = folded(&passage.text);
    let said = figures_in(&text, page)
        .with_context(|| format!("{name} has no such passage (once): {text}"))?;
    ensure!(
        said.len() == passage.rows.len(),
        "{name}: {} figures and {} rows: {text}",
        said.len(),
        passage.rows.len()
    );
    let mut wrong = Vec::new();
    for (said, key) in said.iter().zip(&passage.rows) {
        let recorded = lookup(key, inputs).with_context(|| format!("{name}: {text}"))?;
        if !agrees(said, recorded)? {
            wrong.push(Disagreement {
                page: name.clone(),
                text: text.clone(),
                row: key.clone(),
                said: said.clone(),
                recorded: recorded.value,
                noise: recorded.noise,
            });
        }
    }
    Ok(wrong)
}

/// The figures that stand in `page` where `text` has `{}`; none where the page does not have the text
/// exactly once.
fn figures_in(text: &str, page: &str) -> Option<Vec<String>> {
    let parts: Vec<&str> = text.split(FIGURE).collect();
    let (first, rest) = parts.split_first()?;
    // What a passage begins with tells it from others, so that it must have some text there.
    let mut found = page.match_indices(first).filter_map(|(at, _)| {
        let mut behind = &page[at + first.len()..];
        let mut figures = Vec::new();
        for part in rest {
            let length = behind.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
            let (figure, next) = behind.split_at(length.unwrap_or(behind.len()));
            // A full stop or comma behind a figure belongs to the sentence.
            let cut = figure.trim_end_matches(['.', ',']);
            behind = &behind[cut.len()..];
            debug_assert!(next.len() <= behind.len());
            behind = behind.strip_prefix(part)?;
            if cut.is_empty() {
                return None;
            }
            figures.push(cut.to_owned());
        }
        Some(figures)
    });
    let figures = found.next()?;
    found.next().is_none().then_some(figures)
}

/// A recorded figure, in the unit that the text has, and the share of it that is noise.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Recorded {
    value: f64,
    noise: f64,
}

/// Finds what a key names.
fn lookup(key: &str, inputs: &Inputs) -> Result<Recorded> {
    if let Some((above, below)) = key.split_once(" / ") {
        let (above, below) = (lookup(above, inputs)?, lookup(below, inputs)?);
        let noise = above.noise.max(below.noise);
        return Ok(Recorded { value: above.value / below.value, noise });
    }
    let parts: Vec<&str> = key.split(" | ").collect();
    let [suite, case, subject, figure] = parts[..] else {
        bail!("\"{key}\" is not `suite | case | subject | metric unit`");
    };
    let Some((metric, unit)) = figure.rsplit_once(' ') else {
        bail!("\"{key}\" names no unit");
    };
    let comparison =
        inputs.comparison(suite).with_context(|| format!("no suite {suite} is recorded"))?;
    let row = comparison
        .figure(case, subject, metric)
        .with_context(|| format!("no such row is recorded: {key}"))?;
    let spread = |row: &&Row| row.case == case && row.metric == metric && row.target.is_none();
    let noise =
        comparison.rows.iter().filter(spread).filter_map(|row| row.noise).fold(0.0, f64::max);
    Ok(Recorded { value: in_unit(row, unit).with_context(|| key.to_owned())?, noise })
}

fn in_unit(row: &Row, unit: &str) -> Result<f64> {
    if unit == "ratio" {
        return row.ratio.context("the row has no ratio");
    }
    let value = row.value.context("the row has no value")?;
    let factor = match (row.unit.as_str(), unit) {
        (recorded, asked) if recorded == asked => 1.0,
        ("s", "ms") => 1e3,
        ("s", "µs") => 1e6,
        ("ns", "µs") => 1e-3,
        ("ns", "ms") => 1e-6,
        (recorded, asked) => bail!("a row in {recorded} is not said in {asked}"),
    };
    Ok(value * factor)
}

/// Whether a figure is the recorded one, as far as the noise and its own last digit allow.
fn agrees(said: &str, recorded: Recorded) -> Result<bool> {
    let digits = said.replace(',', "");
    let value: f64 = digits.parse().with_context(|| format!("{said} is no figure"))?;
    let decimals = digits.split_once('.').map_or(0, |(_, behind)| behind.len());
    let rounding = 0.5 * 10_f64.powi(-i32::try_from(decimals).unwrap_or(i32::MAX));
    let allowed = (recorded.noise * recorded.value).max(rounding) * (1.0 + 1e-9);
    Ok((value - recorded.value).abs() <= allowed)
}

/// The first row with figures in a table of a section that no passage covers.
fn uncovered<'a>(
    page: &str,
    heading: &str,
    passages: impl Iterator<Item = &'a Passage>,
) -> Result<Option<String>> {
    let covered: Vec<String> = passages.map(|passage| folded(&passage.text)).collect();
    let mut lines = page.lines();
    let level = heading.bytes().take_while(|&byte| byte == b'#').count();
    lines
        .find(|line| *line == heading)
        .with_context(|| format!("the page has no section \"{heading}\""))?;
    let is_next = |line: &str| {
        let marks = line.bytes().take_while(|&byte| byte == b'#').count();
        (1..=level).contains(&marks)
    };
    let section: Vec<&str> = lines.take_while(|line| !is_next(line)).collect();
    // A table's head stands above a line of dashes.
    let is_head = |at: usize| section.get(at + 1).is_some_and(|below| below.starts_with("|---"));
    let is_bare = |line: &str| {
        let line = folded(line);
        let figures = line.split('|').skip(2).any(|cell| {
            cell.trim_start_matches([' ', '*']).starts_with(|c: char| c.is_ascii_digit())
        });
        let matches = |text: &String| text.starts_with('|') && figures_in(text, &line).is_some();
        line.starts_with('|') && figures && !covered.iter().any(matches)
    };
    let mut rows = section.iter().enumerate().filter(|(at, _)| !is_head(*at));
    Ok(rows.find(|(_, line)| is_bare(line)).map(|(_, line)| (*line).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(text: &str, rows: &[&str]) -> Passage {
        let rows = rows.iter().map(|&row| row.to_owned()).collect();
        Passage { page: "page.md".to_owned(), text: text.to_owned(), rows }
    }

    fn inputs() -> Inputs {
        let mut inputs = Inputs::default();
        let head = r#"{"suite":"copy"}"#;
        let row = |subject: &str, value: f64, ratio: f64, more: &str| {
            format!(
                r#"{{"suite":"copy","case":"ext4/1GiB/warm","subject":"{subject}","metric":"wall",
                "value":{value},"unit":"s","baseline":"cp","ratio":{ratio}{more}}}"#
            )
            .replace('\n', "")
        };
        let rows = [
            head.to_owned(),
            row("cp", 0.400, 1.0, ""),
            row("uncopy", 0.200, 0.5, ""),
            row("cp (again)", 0.402, 1.005, r#","noise":0.05"#),
            // Judged: a target's noise is not the row's.
            row("uncopy", 0.200, 0.5, r#","target":0.8,"met":true,"noise":0.9"#),
        ];
        inputs.add(&rows.join("\n")).unwrap();
        inputs
    }

    const WALL: &str = "copy | ext4/1GiB/warm | uncopy | wall ms";

    fn disagreements(text: &str, rows: &[&str], page: &str) -> Vec<(String, f64)> {
        let wrong = check(&passage(text, rows), &folded(page), &inputs()).unwrap();
        wrong.into_iter().map(|wrong| (wrong.said, (wrong.recorded * 1e6).round() / 1e6)).collect()
    }

    #[test]
    fn a_figure_within_the_rows_noise_agrees_and_one_beyond_it_does_not() {
        let text = "copies it in {} ms.";
        for (said, agrees) in
            [("200", true), ("210", true), ("190", true), ("211", false), ("189", false)]
        {
            let page = format!("It copies\nit in {said} ms. More.");
            let wrong = disagreements(text, &[WALL], &page);
            assert_eq!(wrong.is_empty(), agrees, "{said}: {wrong:?}");
        }
    }

    #[test]
    fn ratios_quotients_and_other_units_are_looked_up() {
        let ratio = "copy | ext4/1GiB/warm | uncopy | wall ratio";
        let quotient =
            "copy | ext4/1GiB/warm | cp | wall s / copy | ext4/1GiB/warm | uncopy | wall s";
        let page = "| 1 GiB | **0.50** | 2.0 times |";
        assert_eq!(disagreements("| 1 GiB | **{}** | {} times |", &[ratio, quotient], page), []);
        let page = "| 1 GiB | **0.60** | 3.0 times |";
        let wrong = disagreements("| 1 GiB | **{}** | {} times |", &[ratio, quotient], page);
        assert_eq!(wrong, [("0.60".to_owned(), 0.5), ("3.0".to_owned(), 2.0)]);
    }

    #[test]
    fn what_cannot_be_held_against_each_other_is_an_error() {
        let failure = |text: &str, rows: &[&str], page: &str| {
            format!("{:#}", check(&passage(text, rows), &folded(page), &inputs()).unwrap_err())
        };
        assert!(failure("in {} ms", &[WALL], "in the page").contains("no such passage"));
        assert!(failure("in {} ms", &[WALL], "in 1 ms, in 2 ms").contains("no such passage"));
        assert!(failure("in {} ms", &[WALL, WALL], "in 200 ms").contains("1 figures and 2 rows"));
        let gone = "copy | ext4/2GiB/warm | uncopy | wall ms";
        assert!(failure("in {} ms", &[gone], "in 200 ms").contains("no such row"));
        let unit = "copy | ext4/1GiB/warm | uncopy | wall B";
        assert!(failure("in {} ms", &[unit], "in 200 ms").contains("not said in B"));
        assert!(failure("in {} ms", &["uncopy"], "in 200 ms").contains("is not `suite"));
    }

    #[test]
    fn a_row_of_a_complete_section_needs_a_passage() {
        let page = "# A\n| x | 9 |\n## Measured\n| | 256 B |\n|---|---|\n| a | 1 ms |\n\n| b | **2** ms |\n## Next\n| c | 3 |";
        let look = |texts: &[&str]| {
            let passages: Vec<Passage> = texts.iter().map(|text| passage(text, &[])).collect();
            uncovered(page, "## Measured", passages.iter()).unwrap()
        };
        assert_eq!(look(&["| a | {} ms |", "| b | **{}** ms |"]), None);
        assert_eq!(look(&["| a | {} ms |"]), Some("| b | **2** ms |".to_owned()));
        assert_eq!(look(&[]), Some("| a | 1 ms |".to_owned()));
        assert!(uncovered(page, "## Gone", [].into_iter()).is_err());
    }

    #[test]
    fn thousands_and_full_stops_are_read_as_people_write_them() {
        let found = figures_in("takes {} ns, and {}.", "takes 2,584 ns, and 3.5. Next");
        assert_eq!(found.unwrap(), ["2,584", "3.5"]);
        assert!(agrees("2,584", Recorded { value: 2584.3, noise: 0.0 }).unwrap());
        assert!(!agrees("2,584", Recorded { value: 2585.3, noise: 0.0 }).unwrap());
    }
}
