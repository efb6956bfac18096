//! Recorded figures, and how `figures.toml` names them.

use std::cmp::Ordering;

use anyhow::{Context, Result, bail};

use crate::compare::row::Row;
use crate::evidence::inputs::{Comparison, Inputs};

/// A recorded figure, in the unit that the text has, and the share of it that is noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Recorded {
    pub(super) value: f64,
    pub(super) noise: f64,
}

impl Recorded {
    fn exact(value: f64) -> Recorded {
        Recorded { value, noise: 0.0 }
    }
}

/// Finds what a key names: a term, or two with ` / ` or ` - ` between them.
pub(super) fn lookup(key: &str, inputs: &Inputs) -> Result<Recorded> {
    let both = |(left, right)| Ok::<_, anyhow::Error>((term(left, inputs)?, term(right, inputs)?));
    if let Some(terms) = key.split_once(" / ") {
        let (above, below) = both(terms)?;
        let noise = above.noise.max(below.noise);
        return Ok(Recorded { value: above.value / below.value, noise });
    }
    if let Some(terms) = key.split_once(" - ") {
        let (whole, part) = both(terms)?;
        let value = whole.value - part.value;
        let spread = (whole.noise * whole.value).hypot(part.noise * part.value);
        return Ok(Recorded { value, noise: spread / value.abs() });
    }
    term(key, inputs)
}

fn term(key: &str, inputs: &Inputs) -> Result<Recorded> {
    let parts: Vec<&str> = key.split(" | ").collect();
    let comparison = inputs
        .comparison(parts[0])
        .with_context(|| format!("no suite {} is recorded, as \"{key}\" says", parts[0]))?;
    match parts[..] {
        [_, count] => counted(comparison, count).with_context(|| key.to_owned()),
        [_, case, subject, figure] => {
            recorded(comparison, case, subject, figure).with_context(|| key.to_owned())
        }
        _ => bail!("\"{key}\" is not `suite | case | subject | figure`, nor `suite | count`"),
    }
}

/// How many rows there are of a kind.
fn counted(comparison: &Comparison, count: &str) -> Result<Recorded> {
    let is_counted: fn(bool) -> bool = match count {
        "judged" => |_| true,
        "met" => |met| met,
        "missed" => |met| !met,
        _ => bail!("\"{count}\" is not `judged`, `met` or `missed`"),
    };
    let rows = comparison.rows.iter().filter_map(|row| row.met).filter(|met| is_counted(*met));
    Ok(Recorded::exact(rows.count() as f64))
}

fn recorded(comparison: &Comparison, case: &str, subject: &str, figure: &str) -> Result<Recorded> {
    let Some((metric, asked)) = figure.split_once(' ') else {
        bail!("it names no unit");
    };
    let spread = comparison.figures(case).filter(|row| row.metric == metric);
    let noise = spread.filter_map(|row| row.noise).fold(0.0, f64::max);
    let judged = |baseline: Option<&str>| {
        let names = move |row: &&Row| {
            row.case == case && row.subject == subject && row.metric == metric && row.met.is_some()
        };
        let rows = comparison.rows.iter().filter(names);
        // The strictest, where there are several.
        rows.filter(|row| row.baseline.as_deref() == baseline)
            .min_by(|a, b| a.target.partial_cmp(&b.target).unwrap_or(Ordering::Equal))
            .context("no such row is judged")
    };
    if let Some((what, baseline)) = asked.split_once(" of ") {
        let row = judged(Some(baseline))?;
        return Ok(match what {
            "ratio" => Recorded { value: row.ratio.context("the row has no ratio")?, noise },
            "target" => Recorded::exact(row.target.context("the row has no target")?),
            "noise" => Recorded::exact(row.noise.context("the row has no noise")?),
            _ => bail!("a row has no {what} of a baseline"),
        });
    }
    if asked == "target" {
        // Judged by itself, without a baseline.
        return Ok(Recorded::exact(judged(None)?.target.context("the row has no target")?));
    }
    let row = comparison.figure(case, subject, metric).context("no such row is recorded")?;
    match asked {
        "noise" => Ok(Recorded::exact(row.noise.context("the row has no noise")?)),
        unit => Ok(Recorded { value: in_unit(row, unit)?, noise }),
    }
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
pub(super) fn agrees(said: &str, recorded: Recorded) -> Result<bool> {
    let digits = said.replace(',', "");
    let value: f64 = digits.parse().with_context(|| format!("{said} is no figure"))?;
    let decimals = digits.split_once('.').map_or(0, |(_, behind)| behind.len());
    let rounding = 0.5 * 10_f64.powi(-i32::try_from(decimals).unwrap_or(i32::MAX));
    let allowed = (recorded.noise * recorded.value.abs()).max(rounding) * (1.0 + 1e-9);
    Ok((value - recorded.value).abs() <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> Inputs {
        let row = |subject: &str, figures: &str| {
            format!(
                r#"{{"suite":"tree","case":"files","subject":"{subject}","metric":"wall",{figures}}}"#
            )
        };
        let rows = [
            r#"{"suite":"tree"}"#.to_owned(),
            row("cp", r#""value":0.4,"unit":"s","baseline":"cp","ratio":1.0"#),
            row(
                "cp (again)",
                r#""value":0.4,"unit":"s","baseline":"cp","ratio":1.01,"noise":0.09"#,
            ),
            row("uncopy", r#""value":0.3,"unit":"s","baseline":"cp","ratio":0.75"#),
            row(
                "uncopy",
                r#""value":0.3,"unit":"s","baseline":"cpz","ratio":0.996,"target":0.9,"met":false,"noise":0.2"#,
            ),
            row(
                "uncopy",
                r#""value":0.3,"unit":"s","baseline":"cpz","ratio":0.996,"target":1.0,"met":true,"noise":0.2"#,
            ),
            row(
                "uncopy",
                r#""value":0.3,"unit":"s","baseline":"rsync","ratio":1.5,"target":1.03,"met":false"#,
            ),
            row("alone", r#""value":4.1,"unit":"ns","baseline":null,"ratio":null"#),
            row(
                "alone",
                r#""value":4.1,"unit":"ns","baseline":null,"ratio":null,"target":4.0,"met":false"#,
            ),
            row(
                "not judged",
                r#""value":null,"unit":"s","baseline":null,"ratio":null,"target":1.0"#,
            ),
        ];
        let mut inputs = Inputs::default();
        inputs.add(&rows.join("\n")).unwrap();
        inputs
    }

    #[test]
    fn keys_name_figures() {
        let table = [
            ("tree | files | uncopy | wall ms", 300.0, 0.09),
            ("tree | files | uncopy | wall ratio", 0.75, 0.09),
            ("tree | files | uncopy | wall ratio of cpz", 0.996, 0.09),
            ("tree | files | uncopy | wall ratio of rsync", 1.5, 0.09),
            ("tree | files | uncopy | wall target of rsync", 1.03, 0.0),
            ("tree | files | uncopy | wall target of cpz", 0.9, 0.0),
            ("tree | files | uncopy | wall noise of cpz", 0.2, 0.0),
            ("tree | files | cp (again) | wall noise", 0.09, 0.0),
            ("tree | files | alone | wall ns", 4.1, 0.09),
            ("tree | files | alone | wall target", 4.0, 0.0),
            ("tree | judged", 4.0, 0.0),
            ("tree | met", 1.0, 0.0),
            ("tree | missed", 3.0, 0.0),
            ("tree | files | cp | wall s / tree | files | uncopy | wall s", 4.0 / 3.0, 0.09),
            ("tree | files | cp | wall ms - tree | files | uncopy | wall ms", 100.0, 0.45),
        ];
        for (key, value, noise) in table {
            let found = lookup(key, &inputs()).unwrap();
            assert!((found.value - value).abs() < 1e-9, "{key}: {found:?}");
            assert!((found.noise - noise).abs() < 1e-9, "{key}: {found:?}");
        }
    }

    #[test]
    fn what_a_key_does_not_name_is_an_error() {
        let table = [
            ("copy | judged", "no suite copy"),
            ("tree | lost", "is not `judged`"),
            ("tree | files | uncopy", "is not `suite"),
            ("tree | files | uncopy | wall", "names no unit"),
            ("tree | none | uncopy | wall s", "no such row is recorded"),
            ("tree | files | not judged | wall s", "no such row is recorded"),
            ("tree | files | uncopy | wall ratio of fcp", "no such row is judged"),
            ("tree | files | uncopy | wall target", "no such row is judged"),
            ("tree | files | uncopy | wall ms of cpz", "no ms of a baseline"),
            ("tree | files | uncopy | wall noise", "has no noise"),
            ("tree | files | uncopy | wall B", "not said in B"),
        ];
        for (key, reason) in table {
            let error = format!("{:#}", lookup(key, &inputs()).unwrap_err());
            assert!(error.contains(reason), "{key}: {error}");
        }
    }

    #[test]
    fn the_last_digit_of_a_figure_is_rounded() {
        assert!(agrees("2,584", Recorded::exact(2584.3)).unwrap());
        assert!(!agrees("2,584", Recorded::exact(2585.3)).unwrap());
    }
}
