//! `cargo xtask evidence check`: every figure of the pages that comes from a record is still what the
//! record says.
//!
//! `docs/evidence/figures.toml` has, for each passage with figures, its text with `{}` in place of each
//! figure, and the recorded rows that the figures come from.

use std::fs;
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::inputs::Inputs;
use crate::workspace;

mod key;
mod text;

use key::{agrees, lookup};
use text::Page;

/// Passages of pages, and the rows that they come from.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    /// Sections of pages in which every row of a table is a passage.
    complete: Vec<Section>,
    #[serde(rename = "passage")]
    passages: Vec<Passage>,
    elsewhere: Vec<Elsewhere>,
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
    /// For each figure its key.
    rows: Vec<String>,
}

/// Pieces of a page with figures that no record has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Elsewhere {
    page: String,
    why: Why,
    texts: Vec<String>,
}

/// Where a figure comes from that no record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Why {
    /// A constant or a limit of the program or of the system, a time in a rule, a version.
    Rule,
    /// Words of somebody else's text, or an example.
    Quoted,
    /// Measured by hand; the page says on what and how.
    Hand,
}

impl Why {
    const ALL: [Why; 3] = [Why::Rule, Why::Quoted, Why::Hand];

    fn words(self) -> &'static str {
        match self {
            Why::Rule => "have a rule's figures",
            Why::Quoted => "quote",
            Why::Hand => "are measurements by hand",
        }
    }
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
/// If a figure is further from its row than the row's noise and its own last digit allow; if a passage
/// is not on its page, or a row not in the record; if a table of a complete section has a row that no
/// passage covers; if a page has something that looks like a measurement and is in no passage, nor
/// among what comes from elsewhere.
pub(super) fn run() -> Result<()> {
    let root = workspace::root();
    let directory = root.join("docs/evidence");
    let text = fs::read_to_string(directory.join("figures.toml")).context("figures.toml")?;
    let figures: Figures = toml::from_str(&text).context("figures.toml")?;
    let inputs = Inputs::read(&[directory])?;
    let names = pages()?;
    let named = figures.passages.iter().map(|passage| &passage.page);
    let named = named.chain(figures.elsewhere.iter().map(|other| &other.page));
    for name in named.chain(figures.complete.iter().map(|section| &section.page)) {
        ensure!(names.contains(name), "there is no page {name}");
    }
    let mut wrong = Vec::new();
    let mut unlisted = Vec::new();
    for name in names {
        let page = Page::new(fs::read_to_string(root.join(&name)).context(name.clone())?);
        let passages = figures.passages.iter().filter(|passage| passage.page == name);
        let mut covered = Vec::new();
        for passage in passages.clone() {
            let said = page.figures_of(&passage.text).with_context(|| name.clone())?;
            wrong.extend(check(passage, &page, &said, &inputs)?);
            covered.extend(said);
        }
        let elsewhere = figures.elsewhere.iter().filter(|other| other.page == name);
        for text in elsewhere.flat_map(|other| &other.texts) {
            covered.extend(page.figures_of(text).with_context(|| name.clone())?);
        }
        let left = uncovered_figures(&page, &covered);
        unlisted.extend(left.map(|around| format!("{name}: {around}")));
        for section in figures.complete.iter().filter(|section| section.page == name) {
            let heading = &section.heading;
            if let Some(row) = uncovered_row(page.text(), heading, passages.clone())? {
                unlisted.push(format!("{name}, \"{heading}\": {row}"));
            }
        }
    }
    report(&figures, &wrong, &unlisted)
}

fn report(figures: &Figures, wrong: &[Disagreement], unlisted: &[String]) -> Result<()> {
    for Disagreement { page, text, row, said, recorded, noise } in wrong {
        let percent = noise * 100.0;
        println!(
            "{page}: says {said}, recorded {recorded:.4} (noise {percent:.1} %): {row}\n    {text}"
        );
    }
    for figure in unlisted {
        println!("no passage of figures.toml, and nothing from elsewhere, is {figure}");
    }
    let passages = figures.passages.len();
    let count: usize = figures.passages.iter().map(|passage| passage.rows.len()).sum();
    ensure!(
        wrong.is_empty() && unlisted.is_empty(),
        "{} of {count} figures are not what the records say, {} are not listed; change the text, \
         measure again, or name where they come from in docs/evidence/figures.toml",
        wrong.len(),
        unlisted.len()
    );
    println!("{count} figures of {passages} passages agree with the records");
    for why in Why::ALL {
        let others = figures.elsewhere.iter().filter(|other| other.why == why);
        let count: usize = others.map(|other| other.texts.len()).sum();
        println!("{count} texts {}", why.words());
    }
    Ok(())
}

/// The README, and every page of the book.
fn pages() -> Result<Vec<String>> {
    let files = workspace::tracked_files()?;
    let names = files.iter().filter_map(|file| file.to_str());
    let is_page =
        |name: &&str| *name == "README.md" || (name.starts_with("docs/") && name.ends_with(".md"));
    Ok(names.filter(is_page).map(str::to_owned).collect())
}

/// Figures of a passage that are not what the record says.
fn check(
    passage: &Passage,
    page: &Page,
    said: &[Range<usize>],
    inputs: &Inputs,
) -> Result<Vec<Disagreement>> {
    let Passage { page: name, text, rows } = passage;
    ensure!(
        said.len() == rows.len(),
        "{name}: {} figures and {} rows: {text}",
        said.len(),
        rows.len()
    );
    let mut wrong = Vec::new();
    for (said, key) in said.iter().zip(rows) {
        let said = page.at(said.clone());
        let recorded = lookup(key, inputs).with_context(|| format!("{name}: {text}"))?;
        if !agrees(said, recorded)? {
            wrong.push(Disagreement {
                page: name.clone(),
                text: text.clone(),
                row: key.clone(),
                said: said.to_owned(),
                recorded: recorded.value,
                noise: recorded.noise,
            });
        }
    }
    Ok(wrong)
}

/// The surroundings of what looks like a measurement and is none of the covered figures.
fn uncovered_figures<'a>(
    page: &'a Page,
    covered: &'a [Range<usize>],
) -> impl Iterator<Item = String> + 'a {
    let is_bare =
        |figure: &Range<usize>| !covered.iter().any(|covered| covered.contains(&figure.start));
    page.measured().filter(is_bare).map(|figure| page.around(&figure))
}

/// The first row with figures in a table of a section that no passage covers.
fn uncovered_row<'a>(
    page: &str,
    heading: &str,
    passages: impl Iterator<Item = &'a Passage>,
) -> Result<Option<String>> {
    let covered: Vec<&String> = passages.map(|passage| &passage.text).collect();
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
        let figures = line.split('|').skip(2).any(|cell| {
            cell.trim_start_matches([' ', '*']).starts_with(|c: char| c.is_ascii_digit())
        });
        let row = Page::new(line);
        let matches = |text: &&String| text.starts_with('|') && row.figures_of(text).is_ok();
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

    fn held(text: &str, rows: &[&str], page: &str) -> Result<Vec<Disagreement>> {
        let page = Page::new(page);
        let said = page.figures_of(text)?;
        check(&passage(text, rows), &page, &said, &inputs())
    }

    fn disagreements(text: &str, rows: &[&str], page: &str) -> Vec<(String, f64)> {
        let wrong = held(text, rows, page).unwrap();
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
            format!("{:#}", held(text, rows, page).unwrap_err())
        };
        assert!(failure("in {} ms", &[WALL], "in the page").contains("no such passage"));
        assert!(failure("in {} ms", &[WALL], "in 1 ms, in 2 ms").contains("no such passage"));
        assert!(failure("in {} ms", &[WALL, WALL], "in 200 ms").contains("1 figures and 2 rows"));
        let gone = "copy | ext4/2GiB/warm | uncopy | wall ms";
        assert!(failure("in {} ms", &[gone], "in 200 ms").contains("no such row"));
        let unit = "copy | ext4/1GiB/warm | uncopy | wall B";
        assert!(failure("in {} ms", &[unit], "in 200 ms").contains("not said in B"));
        let short = "copy | ext4/1GiB/warm | uncopy";
        assert!(failure("in {} ms", &[short], "in 200 ms").contains("is not `suite"));
    }

    #[test]
    fn a_row_of_a_complete_section_needs_a_passage() {
        let page = "# A\n| x | 9 |\n## Measured\n| | 256 B |\n|---|---|\n| a | 1 ms |\n\n| b | **2** ms |\n## Next\n| c | 3 |";
        let look = |texts: &[&str]| {
            let passages: Vec<Passage> = texts.iter().map(|text| passage(text, &[])).collect();
            uncovered_row(page, "## Measured", passages.iter()).unwrap()
        };
        assert_eq!(look(&["| a | {} ms |", "| b | **{}** ms |"]), None);
        assert_eq!(look(&["| a | {} ms |"]), Some("| b | **2** ms |".to_owned()));
        assert_eq!(look(&[]), Some("| a | 1 ms |".to_owned()));
        assert!(uncovered_row(page, "## Gone", [].into_iter()).is_err());
    }

    #[test]
    fn what_looks_like_a_measurement_is_in_a_passage_or_comes_from_elsewhere() {
        let page = Page::new("Takes 0.93 of cp's 12 ms. A round is\n5 ms long.");
        let left = |texts: &[&str]| -> Vec<String> {
            let covered: Vec<_> =
                texts.iter().flat_map(|text| page.figures_of(text).unwrap()).collect();
            uncovered_figures(&page, &covered).collect()
        };
        assert_eq!(left(&["Takes {} of cp's {} ms", "A round is {} ms"]), [""; 0]);
        let bare = left(&["Takes {} of cp's"]);
        assert_eq!(bare.len(), 2);
        assert!(bare[0].ends_with("cp's 12 ms. A round is 5 ms long."), "{bare:?}");
        assert!(page.figures_of("Takes {} of tar's").is_err());
    }
}
