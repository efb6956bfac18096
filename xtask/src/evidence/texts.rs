//! The public texts' figures beside ours: pure.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::inputs::{Comparison, Inputs};
use crate::compare::row::Row;

/// All of them, as in `texts.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Texts {
    pub(super) text: Vec<Text>,
}

/// A public text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    pub(super) title: String,
    pub(super) url: Option<String>,
    /// The subject of its figures, and of ours.
    pub(super) about: String,
    pub(super) table: Vec<Table>,
    #[serde(default)]
    pub(super) claim: Vec<Claim>,
}

/// One of its tables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) note: Option<String>,
    pub(super) column: Vec<Column>,
    pub(super) row: Vec<TextRow>,
}

/// A column, and where we have the same figures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) unit: String,
    /// The best counterpart first.
    #[serde(default)]
    here: Vec<Counterpart>,
    /// Why there is none, where there cannot be one.
    why_not: Option<String>,
}

/// One line of a table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextRow {
    pub(super) name: String,
    /// One for each column; NaN where the text has none.
    figures: Vec<f64>,
    /// Cases of our suites for this line, the best counterpart first.
    #[serde(default)]
    cases: Vec<CaseName>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counterpart {
    suite: String,
    /// None: the line names it.
    subject: Option<String>,
    against: Option<String>,
    metric: String,
    quantity: Quantity,
    note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseName {
    suite: String,
    case: String,
    bytes: f64,
    /// How many operations the text's run had.
    count: Option<f64>,
    subject: Option<String>,
    note: Option<String>,
}

/// A quantity computed from one figure, or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Quantity {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    /// Operations in a second.
    PerSecond,
    /// Megabytes (10⁶) in a second.
    Throughput,
    /// Processor time in per cent of wall time.
    Share,
    /// By how many per cent the share is smaller than the other's.
    Reduction,
    /// The other's time divided by its own.
    Quotient,
    /// Its own time divided by the other's.
    Part,
    /// How many per cent more operations in a second than the other.
    Gain,
    /// For as many operations as the text's run had; only where the rounds say how sure that is.
    SecondsOfAll,
    /// The round with the most divided by the one with the least.
    Spread,
}

/// A figure of ours beside one of theirs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Here {
    Measured {
        value: f64,
        /// Range over the rounds, smaller first.
        range: Option<[f64; 2]>,
        command: String,
        note: String,
    },
    Missing {
        why: String,
        command: Option<String>,
    },
}

impl Here {
    pub(super) fn value(&self) -> Option<f64> {
        match self {
            Here::Measured { value, .. } => Some(*value),
            Here::Missing { .. } => None,
        }
    }
}

impl Texts {
    /// Those that are committed.
    ///
    /// # Errors
    /// If the file is not well-formed.
    pub(super) fn load() -> Result<Texts> {
        Texts::parse(include_str!("texts.toml"))
    }

    fn parse(text: &str) -> Result<Texts> {
        let texts: Texts = toml::from_str(text).context("cannot read the texts' figures")?;
        for text in &texts.text {
            for table in &text.table {
                for row in &table.row {
                    let count = row.figures.len() == table.column.len();
                    ensure!(
                        count,
                        "{}: {} has not a figure for each column",
                        table.title,
                        row.name
                    );
                }
            }
            for (claim, cell) in
                text.claim.iter().flat_map(|c| c.cells().map(move |cell| (c, cell)))
            {
                text.cell(cell).with_context(|| format!("the claim {:?}", claim.name))?;
            }
        }
        Ok(texts)
    }
}

impl Text {
    fn cell(&self, [table, row, column]: &Cell) -> Result<(&Table, &TextRow, usize)> {
        let table =
            self.table.iter().find(|t| t.title == *table).context("there is no such table")?;
        let row = table.row.iter().find(|r| r.name == *row).context("there is no such row")?;
        let index = table.column.iter().position(|c| c.name == *column);
        Ok((table, row, index.context("there is no such column")?))
    }
}

impl TextRow {
    /// The text's figure in a column.
    pub(super) fn figure(&self, column: usize) -> Option<f64> {
        self.figures.get(column).copied().filter(|figure| !figure.is_nan())
    }

    /// Ours.
    pub(super) fn here(&self, column: &Column, inputs: &Inputs) -> Here {
        if let Some(why) = &column.why_not {
            return Here::Missing { why: why.clone(), command: None };
        }
        let mut first = None;
        for counterpart in &column.here {
            for case in self.cases.iter().filter(|case| case.suite == counterpart.suite) {
                let command = command(&case.suite, &case.case);
                let value = inputs.comparison(&case.suite).and_then(|comparison| {
                    let value = counterpart.value(case, comparison)?;
                    Some((value, counterpart.range(case, comparison)))
                });
                if let Some((value, range)) = value {
                    let notes = [&case.note, &counterpart.note].map(|note| note.as_deref());
                    let notes: Vec<&str> = notes.into_iter().flatten().collect();
                    return Here::Measured { value, range, command, note: notes.join("; ") };
                }
                first.get_or_insert(command);
            }
        }
        let why = match &first {
            Some(_) => "this case is not in these rows",
            None => "no suite has such a case",
        };
        Here::Missing { why: why.to_owned(), command: first }
    }
}

impl Counterpart {
    fn value(&self, case: &CaseName, comparison: &Comparison) -> Option<f64> {
        self.made_of(|row| row.value, case, comparison)
    }

    /// For a quantity of one figure: that of the round with the least of it, and of the one with the most.
    fn range(&self, case: &CaseName, comparison: &Comparison) -> Option<[f64; 2]> {
        match self.quantity {
            Quantity::Nanoseconds
            | Quantity::Microseconds
            | Quantity::Milliseconds
            | Quantity::PerSecond
            | Quantity::Throughput
            | Quantity::SecondsOfAll => {}
            _ => return None,
        }
        let least = self.made_of(|row| row.range.map(|range| range[0]), case, comparison)?;
        let most = self.made_of(|row| row.range.map(|range| range[1]), case, comparison)?;
        Some([least.min(most), least.max(most)])
    }

    /// `pick`: which value of a row.
    fn made_of(
        &self,
        pick: impl Fn(&Row) -> Option<f64>,
        case: &CaseName,
        comparison: &Comparison,
    ) -> Option<f64> {
        let subject = self.subject.as_ref().or(case.subject.as_ref())?;
        let figure = |subject: &str, metric: &str| comparison.figure(&case.case, subject, metric);
        let seconds = |subject: &str, metric: &str| {
            let row = figure(subject, metric)?;
            let value = pick(row)?;
            match row.unit.as_str() {
                "s" => Some(value),
                "ns" => Some(value / 1e9),
                _ => None,
            }
        };
        let own = seconds(subject, &self.metric)?;
        let other = || seconds(self.against.as_deref()?, &self.metric);
        let share =
            |subject: &str| Some(100.0 * seconds(subject, "cpu")? / seconds(subject, "wall")?);
        let value = match self.quantity {
            Quantity::Nanoseconds => own * 1e9,
            Quantity::Microseconds => own * 1e6,
            Quantity::Milliseconds => own * 1e3,
            Quantity::PerSecond => 1.0 / own,
            Quantity::Throughput => case.bytes / 1e6 / own,
            Quantity::Share => share(subject)?,
            Quantity::Reduction => {
                100.0 * (1.0 - share(subject)? / share(self.against.as_deref()?)?)
            }
            Quantity::Quotient => other()? / own,
            Quantity::Part => own / other()?,
            Quantity::Gain => 100.0 * (other()? / own - 1.0),
            Quantity::SecondsOfAll => {
                figure(subject, &self.metric)?.range?;
                own * case.count?
            }
            Quantity::Spread => {
                let [least, most] = figure(subject, &self.metric)?.range?;
                most / least
            }
        };
        value.is_finite().then_some(value)
    }
}

/// The command that prints the rows of a case.
pub(super) fn command(suite: &str, case: &str) -> String {
    match suite {
        "copy_methods" => "cargo xtask evidence --only copy_methods".to_owned(),
        suite => format!("cargo xtask compare {suite} --only {}", quoted(case)),
    }
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Table, row and column.
type Cell = [String; 3];

/// A claim of the text that its own tables and ours can confirm.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub(super) name: String,
    /// The quantity.
    pub(super) measure: String,
    of: Cell,
    divided_by: Option<Cell>,
    multiplied_by: Option<Cell>,
    scale: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    /// The explanation if the text's own figures are outside.
    contradiction: Option<String>,
}

/// The result of checking a claim.
#[derive(Debug, PartialEq)]
pub(super) struct ClaimFinding {
    /// From the text's own figures.
    pub(super) text: Option<f64>,
    pub(super) here: Option<f64>,
    /// Why the text contradicts itself.
    pub(super) contradiction: Option<String>,
    /// For the figures measured here; undecided where there are none.
    pub(super) verdict: ClaimVerdict,
}

/// Whether a figure lies where it is said to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimVerdict {
    Holds,
    Fails,
    /// So near to a bound that noise decides.
    Undecided,
}

/// Less than this is no difference.
const BAND: f64 = 0.03;

impl Claim {
    fn cells(&self) -> impl Iterator<Item = &Cell> {
        [Some(&self.of), self.divided_by.as_ref(), self.multiplied_by.as_ref()]
            .into_iter()
            .flatten()
    }

    /// The bounds, in words.
    pub(super) fn bounds(&self) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!("{low} to {high}"),
            (Some(low), None) => format!("at least {low}"),
            (None, Some(high)) => format!("at most {high}"),
            (None, None) => String::new(),
        }
    }

    /// Asks the text's own tables, and ours.
    pub(super) fn ask(&self, text: &Text, inputs: &Inputs) -> ClaimFinding {
        let of_text = |cell: &Cell| {
            let (_, row, column) = text.cell(cell).ok()?;
            row.figure(column)
        };
        let of_here = |cell: &Cell| {
            let (table, row, column) = text.cell(cell).ok()?;
            row.here(&table.column[column], inputs).value()
        };
        let (theirs, ours) = (self.measured(of_text), self.measured(of_here));
        let outside = theirs.is_some_and(|value| !self.holds(value));
        ClaimFinding {
            text: theirs,
            here: ours,
            contradiction: self.contradiction.clone().filter(|_| outside),
            verdict: ours.map_or(ClaimVerdict::Undecided, |value| self.judge(value)),
        }
    }

    fn measured(&self, cell: impl Fn(&Cell) -> Option<f64>) -> Option<f64> {
        let mut value = cell(&self.of)? * self.scale.unwrap_or(1.0);
        if let Some(other) = &self.divided_by {
            value /= cell(other)?;
        }
        if let Some(other) = &self.multiplied_by {
            value *= cell(other)?;
        }
        value.is_finite().then_some(value)
    }

    fn judge(&self, value: f64) -> ClaimVerdict {
        let is_near = |bound: f64| (value / bound - 1.0).abs() < BAND;
        match self.holds(value) {
            _ if [self.low, self.high].into_iter().flatten().any(is_near) => {
                ClaimVerdict::Undecided
            }
            true => ClaimVerdict::Holds,
            false => ClaimVerdict::Fails,
        }
    }

    fn holds(&self, value: f64) -> bool {
        self.low.is_none_or(|low| value >= low) && self.high.is_none_or(|high| value <= high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::inputs::Inputs;

    const TEXT: &str = r#"
        [[text]]
        title = "T"
        about = ""
        [[text.table]]
        title = "Times"
        [[text.table.column]]
        name = "old"
        unit = "ms"
        here = [{ suite = "s", subject = "old", metric = "wall", quantity = "milliseconds" }]
        [[text.table.column]]
        name = "new"
        unit = "ms"
        here = [
            { suite = "better", subject = "new", metric = "wall", quantity = "milliseconds" },
            { suite = "s", subject = "new", metric = "wall", quantity = "milliseconds", note = "b" },
        ]
        [[text.table.column]]
        name = "nowhere"
        unit = "s"
        why_not = "no disk"
        [[text.table.row]]
        name = "1 MB"
        figures = [4.0, 5.0, nan]
        cases = [
            { suite = "better", case = "exact", bytes = 1e6 },
            { suite = "s", case = "a b", bytes = 1e6, note = "a" },
        ]
        [[text.claim]]
        name = "new is quicker"
        measure = "new to old"
        of = ["Times", "1 MB", "new"]
        divided_by = ["Times", "1 MB", "old"]
        high = 1.0
        contradiction = "it is not"
    "#;

    fn inputs() -> Inputs {
        let row = |subject: &str, metric: &str, value: f64| {
            format!(
                r#"{{"suite":"s","case":"a b","subject":"{subject}","metric":"{metric}","value":{value},"unit":"s"}}"#
            )
        };
        let lines = [
            row("old", "wall", 0.004),
            row("new", "wall", 0.002),
            row("old", "cpu", 0.004),
            row("new", "cpu", 0.001),
            row("new", "user", 0.001).replace('}', r#","range":[0.0008,0.0016]}"#),
        ];
        let mut inputs = Inputs::default();
        inputs.add(&lines.join("\n")).unwrap();
        inputs
    }

    fn quantity(quantity: &str) -> Option<f64> {
        let counterpart = format!(
            "suite = 's'\nsubject = 'new'\nagainst = 'old'\nmetric = 'wall'\nquantity = '{quantity}'"
        );
        let counterpart: Counterpart = toml::from_str(&counterpart).unwrap();
        let case: CaseName = toml::from_str("suite = 's'\ncase = 'a b'\nbytes = 1e6").unwrap();
        counterpart.value(&case, inputs().comparison("s").unwrap())
    }

    #[test]
    fn quantities_come_from_one_row_or_two() {
        for (name, expected) in [
            ("nanoseconds", 2e6),
            ("microseconds", 2e3),
            ("milliseconds", 2.0),
            ("per_second", 500.0),
            ("throughput", 500.0),
            ("share", 50.0),
            ("reduction", 50.0),
            ("quotient", 2.0),
            ("part", 0.5),
            ("gain", 100.0),
        ] {
            let value = quantity(name).unwrap();
            assert!((value - expected).abs() < 1e-6, "{name}: {value}");
        }
    }

    #[test]
    fn what_is_made_of_one_figure_has_the_range_of_its_rounds() {
        let of = |quantity: &str, metric: &str| {
            let counterpart = format!(
                "suite = 's'\nsubject = 'new'\nmetric = '{metric}'\nquantity = '{quantity}'"
            );
            let counterpart: Counterpart = toml::from_str(&counterpart).unwrap();
            let case = "suite = 's'\ncase = 'a b'\nbytes = 1e6\ncount = 1000.0";
            let case: CaseName = toml::from_str(case).unwrap();
            let (inputs, near) = (inputs(), |value: f64| (value * 1e6).round() / 1e6);
            let comparison = inputs.comparison("s").unwrap();
            let range = counterpart.range(&case, comparison);
            (counterpart.value(&case, comparison).map(near), range.map(|range| range.map(near)))
        };
        assert_eq!(of("seconds_of_all", "user"), (Some(1.0), Some([0.8, 1.6])));
        assert_eq!(of("throughput", "user"), (Some(1000.0), Some([625.0, 1250.0])));
        assert_eq!(of("spread", "user"), (Some(2.0), None));
        // Rows without it, as older ones are.
        assert_eq!(of("milliseconds", "wall"), (Some(2.0), None));
        assert_eq!(of("seconds_of_all", "wall"), (None, None));
        assert_eq!(of("spread", "wall"), (None, None));
    }

    #[test]
    fn the_best_counterpart_that_is_there_is_taken_and_says_what_it_is() {
        let texts = Texts::parse(TEXT).unwrap();
        let table = &texts.text[0].table[0];
        let measured = Here::Measured {
            value: 2.0,
            range: None,
            command: "cargo xtask compare s --only 'a b'".into(),
            note: "a; b".into(),
        };
        assert_eq!(table.row[0].here(&table.column[1], &inputs()), measured);
        let missing = table.row[0].here(&table.column[1], &Inputs::default());
        let command = Some("cargo xtask compare better --only exact".to_owned());
        assert_eq!(
            missing,
            Here::Missing { why: "this case is not in these rows".into(), command }
        );
        let nowhere = table.row[0].here(&table.column[2], &inputs());
        assert_eq!(nowhere, Here::Missing { why: "no disk".into(), command: None });
        assert_eq!(table.row[0].figure(2), None);
    }

    #[test]
    fn a_claim_is_asked_of_the_text_and_of_this_machine() {
        let texts = Texts::parse(TEXT).unwrap();
        let claim = &texts.text[0].claim[0];
        let finding = claim.ask(&texts.text[0], &inputs());
        assert_eq!((finding.text, finding.here), (Some(1.25), Some(0.5)));
        assert_eq!(finding.contradiction.as_deref(), Some("it is not"));
        assert_eq!(finding.verdict, ClaimVerdict::Holds);
        assert_eq!(claim.ask(&texts.text[0], &Inputs::default()).here, None);
        for (value, expected) in [
            (0.96, ClaimVerdict::Holds),
            (0.98, ClaimVerdict::Undecided),
            (1.02, ClaimVerdict::Undecided),
            (1.04, ClaimVerdict::Fails),
        ] {
            assert_eq!(claim.judge(value), expected, "{value}");
        }
        assert_eq!(claim.bounds(), "at most 1");
    }

    #[test]
    fn a_claim_about_no_cell_is_refused() {
        let wrong = TEXT.replace("\"1 MB\", \"new\"]", "\"1 MB\", \"newer\"]");
        let error = format!("{:#}", Texts::parse(&wrong).unwrap_err());
        assert_eq!(error, "the claim \"new is quicker\": there is no such column");
        let short = TEXT.replace("[4.0, 5.0, nan]", "[4.0]");
        assert!(Texts::parse(&short).is_err());
    }

    #[test]
    fn the_committed_texts_contradict_themselves_where_it_is_said() {
        let texts = Texts::load().unwrap();
        assert_eq!(texts.text.len(), 4);
        for text in &texts.text {
            for claim in &text.claim {
                let finding = claim.ask(text, &Inputs::default());
                let said = claim.contradiction.is_some();
                assert_eq!(finding.contradiction.is_some(), said, "{}", claim.name);
                // Where it gives no figure it cannot contradict one.
                let holds = finding.text.is_none_or(|value| claim.holds(value));
                assert_eq!(holds, !said, "{}: {:?}", claim.name, finding.text);
            }
        }
    }

    #[test]
    fn words_for_a_shell() {
        assert_eq!(quoted("ext4/1MiB/warm"), "ext4/1MiB/warm");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
