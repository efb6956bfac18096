//! Curves of the report, drawn with plotters, and where two of them cross: pure.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Deserialize;

use super::inputs::Comparison;
use super::{number, texts};

/// The contents of `plots.toml`, in the order of the report.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plots {
    subjects: BTreeMap<String, Vec<String>>,
    pub(super) plot: Vec<Plot>,
    pub(super) rivals: Vec<Rivals>,
}

/// Curves over the cases whose names differ in one number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) suite: String,
    cases: String,
    x: Number,
    metric: String,
    y: Quantity,
    subjects: String,
}

/// Two subjects of which one takes less on one side of a number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rivals {
    pub(super) suite: String,
    pub(super) cases: String,
    pub(super) x: Number,
    pub(super) metric: String,
    pub(super) first: String,
    pub(super) second: String,
}

/// The number in the names of cases.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Number {
    Bytes,
    Regions,
}

impl Number {
    pub(super) fn label(self) -> &'static str {
        if self == Number::Bytes { "size" } else { "regions" }
    }

    fn text(self, value: f64) -> String {
        if self == Number::Bytes { number::bytes(value) } else { number::plain(value) }
    }
}

/// A quantity computed from seconds.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Quantity {
    Throughput,
    PerMebibyte,
    Each,
    Rate,
}

impl Quantity {
    fn label(self) -> &'static str {
        match self {
            Quantity::Throughput => "MB/s",
            Quantity::PerMebibyte => "processor time of a MiB",
            Quantity::Each => "time of one",
            Quantity::Rate => "sends in a second",
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Quantity::Throughput | Quantity::Rate => number::plain(value),
            Quantity::PerMebibyte | Quantity::Each => number::seconds(value),
        }
    }

    fn of(self, x: f64, seconds: f64) -> f64 {
        match self {
            Quantity::Throughput => x / 1e6 / seconds,
            Quantity::PerMebibyte => seconds / (x / 1_048_576.0),
            Quantity::Each => seconds,
            Quantity::Rate => 1.0 / seconds,
        }
    }
}

/// A curve by ascending x; both coordinates are above 0.
#[derive(Debug, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    points: Vec<(f64, f64)>,
}

/// Marks of the curves, in order; the style of the page has a colour for each.
pub(super) const MARKS: [&str; 8] = ["●", "■", "▲", "◆", "▼", "○", "▬", "✚"];

impl Plots {
    /// Reads the committed file.
    ///
    /// # Errors
    /// If it is not well-formed.
    pub(super) fn load() -> Result<Plots> {
        toml::from_str(include_str!("plots.toml")).context("cannot read plots.toml")
    }

    /// The curves of `plot` that have points.
    pub(super) fn series(&self, plot: &Plot, comparison: &Comparison) -> Vec<Series> {
        let cases = sequence_of_cases(comparison, &plot.cases);
        let curve = |subject: &String| {
            let points = points(comparison, &cases, subject, &plot.metric);
            let points = points.into_iter().map(|(x, seconds)| (x, plot.y.of(x, seconds)));
            Series { name: subject.clone(), points: points.collect() }
        };
        let subjects = self.subjects.get(&plot.subjects).into_iter().flatten();
        subjects.map(curve).filter(|series| !series.points.is_empty()).collect()
    }
}

impl Plot {
    /// The command that measures the cases.
    pub(super) fn command(&self) -> String {
        texts::command(&self.suite, self.cases.split("{}").next().unwrap_or_default())
    }

    /// The head of a table with a column for each x, and a line for each series.
    pub(super) fn table(&self, series: &[Series]) -> (Vec<String>, Vec<Vec<String>>) {
        let mut all: Vec<f64> =
            series.iter().flat_map(|s| &s.points).map(|point| point.0).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        let columns = all.iter().map(|x| self.x.text(*x));
        let heads = [self.y.label().to_owned()].into_iter().chain(columns).collect();
        let line = |series: &Series| {
            let cell = |x: &f64| {
                let point = series.points.iter().find(|point| point.0 == *x);
                point.map_or_else(|| "–".to_owned(), |point| self.y.text(point.1))
            };
            [series.name.clone()].into_iter().chain(all.iter().map(cell)).collect()
        };
        (heads, series.iter().map(line).collect())
    }

    /// Draws curves on logarithmic axes, as SVG whose colours are those of the page's style.
    ///
    /// # Errors
    /// If plotters cannot.
    pub(super) fn draw(&self, series: &[Series]) -> Result<String> {
        const TEXT: RGBColor = RGBColor(2, 0, 0);
        const GRID: RGBColor = RGBColor(3, 0, 0);
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (480, 320)).into_drawing_area();
            let x = range(series, |point| point.0).log_scale().base(2.0);
            let y = range(series, |point| point.1);
            // An axis of less than two decades has powers of two on it.
            let base = if y.end / y.start < 100.0 { 2.0 } else { 10.0 };
            let y = y.log_scale().base(base);
            let mut builder = ChartBuilder::on(&area);
            builder.margin(8).margin_right(28).x_label_area_size(40).y_label_area_size(72);
            let mut chart = builder.build_cartesian_2d(x, y)?;
            let mut mesh = chart.configure_mesh();
            mesh.disable_x_mesh().light_line_style(TRANSPARENT).bold_line_style(GRID);
            mesh.axis_style(TEXT).label_style(("sans-serif", 14).into_font().color(&TEXT));
            mesh.x_labels(7).y_labels(7).x_desc(self.x.label()).y_desc(self.y.label());
            let (x_text, y_text) = (|x: &f64| self.x.text(*x), |y: &f64| self.y.text(*y));
            mesh.x_label_formatter(&x_text).y_label_formatter(&y_text).draw()?;
            // The first is ours, and lies on top.
            for (index, series) in series.iter().enumerate().rev() {
                let index = index % MARKS.len();
                let colour = RGBColor(1, 0, u8::try_from(index)?);
                let width = if index == 0 { 3 } else { 2 };
                let points = || series.points.iter().copied();
                chart.draw_series(LineSeries::new(points(), colour.stroke_width(width)))?;
                let centre = Pos::new(HPos::Center, VPos::Center);
                let style = ("sans-serif", 14).into_text_style(&area).color(&colour).pos(centre);
                chart.draw_series(points().map(|at| Text::new(MARKS[index], at, style.clone())))?;
            }
            area.present()?;
        }
        svg =
            svg.replace("\"#020000\"", "\"var(--soft)\"").replace("\"#030000\"", "\"var(--line)\"");
        for index in 0..MARKS.len() {
            svg = svg.replace(&format!("\"#0100{index:02X}\""), &format!("\"var(--c{index})\""));
        }
        Ok(svg)
    }
}

/// Holds every value, with some room.
fn range(series: &[Series], value: fn(&(f64, f64)) -> f64) -> Range<f64> {
    let values = || series.iter().flat_map(|series| series.points.iter().map(value));
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    low / 1.15..high * 1.15
}

/// The cases named like `pattern`, by their numbers.
fn sequence_of_cases<'a>(comparison: &'a Comparison, pattern: &str) -> Vec<(f64, &'a str)> {
    let Some((before, after)) = pattern.split_once("{}") else { return Vec::new() };
    let number = |case: &'a str| {
        Some((number::parse(case.strip_prefix(before)?.strip_suffix(after)?)?, case))
    };
    let mut cases: Vec<_> = comparison.cases().into_iter().filter_map(number).collect();
    cases.sort_by(|a, b| a.0.total_cmp(&b.0));
    cases
}

/// A subject's figures in seconds.
fn points(
    comparison: &Comparison,
    cases: &[(f64, &str)],
    subject: &str,
    metric: &str,
) -> Vec<(f64, f64)> {
    let point = |(x, case): &(f64, &str)| {
        let row = comparison.figure(case, subject, metric)?;
        let value = row.value.filter(|value| *value > 0.0)?;
        Some((*x, if row.unit == "ns" { value / 1e9 } else { value }))
    };
    cases.iter().filter_map(point).collect()
}

/// Less than this is no difference.
const BAND: f64 = 0.03;

impl Rivals {
    /// Where the first takes less, in words; none if there are no such rows.
    pub(super) fn crossover(&self, comparison: &Comparison) -> Option<String> {
        let cases = sequence_of_cases(comparison, &self.cases);
        let curve = |subject| points(comparison, &cases, subject, &self.metric);
        let ratios = ratios(&curve(&self.first), &curve(&self.second));
        let text = |x| self.x.text(x);
        let range = format!("{} to {}", text(ratios.first()?.0), text(ratios.last()?.0));
        let crossings = crossings(&ratios, BAND);
        if crossings.is_empty() {
            let clear = ratios.iter().find(|(_, ratio)| ratio.abs() > BAND.ln_1p());
            return Some(match clear {
                Some((_, ratio)) if *ratio < 0.0 => format!("the first, from {range}"),
                Some(_) => format!("the second, from {range}"),
                None => format!("neither by more than 3 %, from {range}"),
            });
        }
        // There are no halves of a region.
        let about = |at: f64| text(if self.x == Number::Bytes { at } else { at.ceil() });
        let words = crossings.iter().map(|crossing| {
            format!(
                "the {} from about {} on (measured: {} and {})",
                if crossing.first_is_lower { "first" } else { "second" },
                about(crossing.at),
                text(crossing.between.0),
                text(crossing.between.1),
            )
        });
        Some(words.collect::<Vec<_>>().join("; "))
    }
}

/// Logarithms of the first to the second, at the x that both have.
fn ratios(first: &[(f64, f64)], second: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let ratio = |(x, y): &(f64, f64)| {
        let other = second.iter().find(|(other, _)| other == x)?;
        Some((*x, (y / other.1).ln()))
    };
    first.iter().filter_map(ratio).collect()
}

/// A change of order between two curves.
#[derive(Debug, PartialEq)]
struct Crossing {
    /// The measured x before and after it.
    between: (f64, f64),
    /// Where straight lines on logarithmic axes meet.
    at: f64,
    /// From there on the first curve is the lower one.
    first_is_lower: bool,
}

/// Changes of order, where points that are equal within `band` change nothing.
fn crossings(ratios: &[(f64, f64)], band: f64) -> Vec<Crossing> {
    let clear = ratios.iter().filter(|(_, ratio)| ratio.abs() > band.ln_1p());
    let clear: Vec<&(f64, f64)> = clear.collect();
    let changes = clear.windows(2).filter(|pair| (pair[0].1 < 0.0) != (pair[1].1 < 0.0));
    let crossing = |pair: &[&(f64, f64)]| {
        let (&(x0, r0), &(x1, r1)) = (pair[0], pair[1]);
        let at = (x0.ln() + r0 / (r0 - r1) * (x1.ln() - x0.ln())).exp();
        Crossing { between: (x0, x1), at, first_is_lower: r1 < 0.0 }
    };
    changes.map(crossing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::inputs::Inputs;

    fn inputs(rows: &[(&str, &str, f64)]) -> Inputs {
        let mut inputs = Inputs::default();
        for (case, subject, value) in rows {
            inputs.of_row("copy", case, subject, ["wall", "s"], *value);
        }
        inputs
    }

    #[test]
    fn cases_are_ordered_by_the_number_in_their_names() {
        let inputs = inputs(&[
            ("ext4/1MiB/warm", "cp", 0.5),
            ("ext4/4KiB/warm", "cp", 0.1),
            ("ext4/4KiB/cold", "cp", 9.0),
            ("ext4/many/warm", "cp", 9.0),
            ("ext4/1MiB/warm", "uncopy", 0.25),
        ]);
        let copy = inputs.comparison("copy").unwrap();
        let cases = sequence_of_cases(copy, "ext4/{}/warm");
        assert_eq!(cases, [(4096.0, "ext4/4KiB/warm"), (1_048_576.0, "ext4/1MiB/warm")]);
        let plots = Plots::load().unwrap();
        let series = plots.series(&plots.plot[0], copy);
        let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["uncopy", "cp"]);
        assert_eq!(series[0].points, [(1_048_576.0, 4.194304)]);
        assert_eq!(plots.plot[0].command(), "cargo xtask compare copy --only ext4/");
        let (heads, lines) = plots.plot[0].table(&series);
        assert_eq!(heads, ["MB/s", "4 KiB", "1 MiB"]);
        assert_eq!(lines[0], ["uncopy", "–", "4.19"]);
        // Every point has its mark, in the colour of its curve.
        let svg = plots.plot[0].draw(&series).unwrap();
        assert_eq!((svg.matches(MARKS[0]).count(), svg.matches(MARKS[1]).count()), (1, 2));
        assert!(
            svg.contains("var(--c1)") && !svg.contains("NaN") && !svg.contains("\"#01"),
            "{svg}"
        );
    }

    #[test]
    fn crossovers_say_from_where_on() {
        let plots = Plots::load().unwrap();
        let pair = plots.rivals.iter().find(|pair| pair.second == "cp").unwrap();
        let crossover = |rows: &[(&str, &str, f64)]| {
            inputs(rows).comparison("copy").and_then(|copy| pair.crossover(copy))
        };
        let (small, large) = ("ext4/4KiB/warm", "ext4/64KiB/warm");
        let crossing = [
            (small, "uncopy", 2.0),
            (small, "cp", 1.0),
            (large, "uncopy", 1.0),
            (large, "cp", 2.0),
        ];
        let expected = "the first from about 16 KiB on (measured: 4 KiB and 64 KiB)";
        assert_eq!(crossover(&crossing).as_deref(), Some(expected));
        let first = [(small, "uncopy", 1.0), (small, "cp", 2.0), (large, "uncopy", 1.0)];
        assert_eq!(crossover(&first).as_deref(), Some("the first, from 4 KiB to 4 KiB"));
        let second = [(small, "uncopy", 2.0), (small, "cp", 1.0)];
        assert_eq!(crossover(&second).as_deref(), Some("the second, from 4 KiB to 4 KiB"));
        assert_eq!(crossover(&[(small, "uncopy", 1.0)]), None);
        let equal = [(small, "uncopy", 1.0), (small, "cp", 1.01)];
        assert!(crossover(&equal).unwrap().starts_with("neither by more than 3 %"));
    }

    #[test]
    fn every_plot_and_pair_has_one_number_and_its_subjects() {
        let plots = Plots::load().unwrap();
        let cases = plots.plot.iter().map(|plot| &plot.cases);
        for pattern in cases.chain(plots.rivals.iter().map(|pair| &pair.cases)) {
            assert_eq!(pattern.matches("{}").count(), 1, "{pattern}");
        }
        assert!(plots.plot.iter().all(|plot| plots.subjects.contains_key(&plot.subjects)));
    }

    #[test]
    fn curves_cross_between_two_points_that_both_have() {
        let first = [(1.0, 4.0), (5.0, 1.0), (10.0, 4.0), (100.0, 4.0)];
        let second = [(1.0, 1.0), (10.0, 2.0), (50.0, 1.0), (100.0, 8.0)];
        let found = crossings(&ratios(&first, &second), 0.03);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].between, (10.0, 100.0));
        assert!((found[0].at - 1000f64.sqrt()).abs() < 1e-6, "{found:?}");
        assert!(found[0].first_is_lower);
        let back = crossings(&ratios(&second, &first), 0.03);
        assert!(!back[0].first_is_lower && back[0].between == (10.0, 100.0));
        assert_eq!(ratios(&first, &[]), []);
    }

    #[test]
    fn points_within_the_band_change_nothing() {
        let first = [(1.0, 1.0), (2.0, 1.02), (3.0, 1.0)];
        let second = [(1.0, 2.0), (2.0, 1.0), (3.0, 2.0)];
        assert_eq!(crossings(&ratios(&first, &second), 0.03), []);
        assert_eq!(crossings(&ratios(&first, &second), 0.01).len(), 2);
    }
}
