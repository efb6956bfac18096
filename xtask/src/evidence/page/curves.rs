//! Curves and bars, each with its table, and where curves cross.

use maud::{Markup, html};

use super::super::chart::{self, Chart, Group, Series};
use super::super::inputs::{Comparison, Inputs};
use super::super::number;
use super::super::plots::{PLOTS, Plot, RIVALS};
use super::super::texts::command;
use super::{code, table, table_of_figures, text};

pub(super) fn section(inputs: &Inputs) -> Markup {
    let drawn: Vec<Markup> = PLOTS
        .iter()
        .filter_map(|plot| {
            let comparison = inputs.comparison(plot.suite)?;
            let series = plot.series(comparison);
            (!series.is_empty()).then(|| figure(plot, &series))
        })
        .collect();
    let tree = inputs.comparison("tree");
    let missing: Vec<&str> = ["copy", "copy_methods", "tree", "channel", "zx", "fidl", "send"]
        .into_iter()
        .filter(|suite| inputs.comparison(suite).is_none())
        .collect();
    let body = html! {
        p {
            "Medians. Both axes are logarithmic; names of subjects are those of the rows. "
            "The noise of a row stands in " a href="#rows" { "all rows" } ", under “(again)”."
        }
        @for suite in missing {
            p.missing { "The suite " (suite) " is not in these rows: " (code(&whole(suite))) }
        }
        @for markup in drawn { (markup) }
        @if let Some(tree) = tree { (trees(tree)) }
    };
    super::section("curves", "Curves", &body)
}

/// The command for a whole suite.
fn whole(suite: &str) -> String {
    match suite {
        "copy_methods" => command(suite, ""),
        suite => format!("cargo xtask compare {suite}"),
    }
}

fn figure(plot: &Plot, series: &[Series]) -> Markup {
    let chart = Chart {
        description: plot.title,
        x_label: plot.x.label(),
        y_label: plot.y.label(),
        x_text: plot.x.text(),
        y_text: plot.y.text(),
        series,
    };
    let names = series.iter().map(|series| series.name.as_str());
    html! {
        div.pair {
            figure {
                figcaption { h3 { (plot.title) } }
                (chart::lines(&chart))
                (chart::legend(names))
                p.note { (code(&plot.command())) }
            }
            (beside(plot, series))
        }
    }
}

/// A line for each series, a column for each x.
fn beside(plot: &Plot, series: &[Series]) -> Markup {
    let mut all: Vec<f64> = series.iter().flat_map(|s| &s.points).map(|point| point.0).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let columns: Vec<String> = all.iter().map(|x| (plot.x.text())(*x)).collect();
    let mut heads = vec![plot.y.label()];
    heads.extend(columns.iter().map(String::as_str));
    let lines = series.iter().map(|series| {
        let cell = |x: &f64| {
            let point = series.points.iter().find(|point| point.0 == *x);
            text(point.map_or_else(|| "–".to_owned(), |point| (plot.y.text())(point.1)))
        };
        let name = [text(&series.name)].into_iter();
        name.chain(all.iter().map(cell)).collect()
    });
    table_of_figures(&heads, lines)
}

fn trees(tree: &Comparison) -> Markup {
    html! {
        (tree_bars(tree, "Whole trees: time", "wall"))
        (tree_bars(tree, "Whole trees: CPU", "cpu"))
    }
}

fn tree_bars(tree: &Comparison, title: &str, metric: &str) -> Markup {
    let cases = tree.cases();
    let measured = |case| {
        let figures = tree.figures(case).filter(move |row| row.metric == metric);
        figures.filter(|row| !row.subject.ends_with("(again)"))
    };
    let mut subjects: Vec<&str> = Vec::new();
    for row in cases.iter().flat_map(|case| measured(case)) {
        if !subjects.contains(&row.subject.as_str()) {
            subjects.push(&row.subject);
        }
    }
    // Ours first, as in the curves.
    subjects.sort_by_key(|subject| !subject.starts_with("uncopy"));
    let value =
        |case: &str, subject: &str| tree.figure(case, subject, metric).and_then(|row| row.value);
    let groups: Vec<Group<'_>> = cases
        .iter()
        .map(|case| {
            let bars = subjects.iter().enumerate();
            let bars = bars.filter_map(|(index, subject)| Some((index, value(case, subject)?)));
            Group { name: case, bars: bars.collect() }
        })
        .filter(|group| !group.bars.is_empty())
        .collect();
    let mut heads = vec![""];
    heads.extend(&subjects);
    let lines = cases.iter().map(|case| {
        let cell = |subject: &&str| {
            text(value(case, subject).map_or_else(|| "–".to_owned(), number::seconds))
        };
        [text(case)].into_iter().chain(subjects.iter().map(cell)).collect()
    });
    html! {
        div.pair {
            figure {
                figcaption { h3 { (title) } }
                (chart::bars(title, &groups, number::seconds))
                (chart::legend(subjects.iter().copied()))
                p.note { (code("cargo xtask compare tree")) " Each case has a scale of its own." }
            }
            (table_of_figures(&heads, lines))
        }
    }
}

pub(super) fn crossovers(inputs: &Inputs) -> Markup {
    let lines = RIVALS.iter().map(|pair| {
        let verdict = inputs.comparison(pair.suite).and_then(|comparison| pair.verdict(comparison));
        let metric = if pair.metric == "cpu" { "processor time" } else { "time" };
        vec![
            text(pair.first),
            text(pair.second),
            text(format!("{metric} by {}", pair.x.label())),
            code(&format!("{} {}", pair.suite, pair.cases.replace("{}", "…"))),
            match verdict {
                Some(verdict) => text(verdict),
                None => html! { span.missing { "not measured: " (code(&whole(pair.suite))) } },
            },
        ]
    });
    let body = html! {
        p {
            "Which of two ways needs less, and from where on. Where lines between measured points \
             meet is an estimate; less than 3 % is no difference."
        }
        (table(&["first", "second", "", "cases", "less"], lines))
    };
    super::section("crossovers", "Crossovers", &body)
}
