//! The four texts: their tables beside ours, and what they claim.

use maud::{Markup, html};

use super::super::inputs::Inputs;
use super::super::number;
use super::super::texts::{Column, Here, Table, Text, TextRow, Texts, Verdict};
use super::{code, table, table_of_figures, text};

pub(super) fn section(texts: &Texts, inputs: &Inputs) -> Markup {
    let body = html! {
        p {
            "Each figure of the texts, ours of the same thing, and ours divided by theirs. Their \
             machines are others, and so are their systems: what can be held against them is rather \
             how their own figures stand to one another, which “claims” asks of both."
        }
        @for one in &texts.text { (article(one, inputs)) }
    };
    super::section("texts", "The four texts", &body)
}

fn article(one: &Text, inputs: &Inputs) -> Markup {
    html! {
        article {
            h3 {
                @match &one.url {
                    Some(url) => a href=(url) rel="noreferrer" { (one.title) },
                    None => (one.title),
                }
            }
            p { (one.about) }
            @for table in &one.table { (figures(table, inputs)) }
            h4 { "Claims" }
            (claims(one, inputs))
        }
    }
}

/// A figure a line; or as the text has it, where nothing here can stand beside it.
fn figures(of: &Table, inputs: &Inputs) -> Markup {
    let cells = |row: &TextRow| of.column.iter().map(|column| row.here(column, inputs)).collect();
    let here: Vec<Vec<Here>> = of.row.iter().map(cells).collect();
    let nothing_here = here.iter().flatten().all(|here| here.value().is_none());
    html! {
        h4 { (of.title) }
        @if let Some(note) = &of.note { p.note { (note) } }
        @if nothing_here {
            (only_theirs(of))
            (why_nothing(here.iter().flatten()))
        } @else {
            (side_by_side(of, &here))
        }
    }
}

fn with_unit(value: f64, unit: &str) -> Markup {
    text(number::plain(value) + &unit_after(unit))
}

/// A figure of a text, with all its digits.
fn theirs(value: f64, unit: &str) -> Markup {
    text(number::exact(value) + &unit_after(unit))
}

fn unit_after(unit: &str) -> String {
    let space = if unit.starts_with(['×', '%', '/']) && unit != "% CPU" { "" } else { " " };
    format!("{space}{unit}")
}

/// The rounds' least and most.
fn between([least, most]: &[f64; 2]) -> Markup {
    text(format!("({} to {})", number::plain(*least), number::plain(*most)))
}

fn side_by_side(of: &Table, here: &[Vec<Here>]) -> Markup {
    let mut lines = Vec::new();
    for (row, here) in of.row.iter().zip(here) {
        for (index, (column, here)) in of.column.iter().zip(here).enumerate() {
            let figure = row.figure(index);
            // A gain has no ratio to a loss.
            let ratio = figure.zip(here.value()).filter(|(theirs, ours)| theirs * ours > 0.0);
            let (ours, how) = match here {
                Here::Measured { value, range, command, note } => {
                    let ours = html! {
                        (with_unit(*value, &column.unit))
                        @if let Some(range) = range { " " span.note { (between(range)) } }
                    };
                    (ours, how(command, note))
                }
                Here::Missing { why, command } => {
                    (html! { span.missing { "not measured" } }, how_not(why, command.as_deref()))
                }
            };
            lines.push(vec![
                if index == 0 {
                    text(&row.name)
                } else {
                    html! { span.again { (row.name) } }
                },
                text(&column.name),
                figure.map_or_else(|| text("–"), |value| theirs(value, &column.unit)),
                ours,
                ratio.map_or_else(|| text("–"), |(theirs, ours)| with_unit(ours / theirs, "×")),
                how,
            ]);
        }
    }
    table(&["", "", "the text", "this machine", "ratio", "command"], lines)
}

fn only_theirs(of: &Table) -> Markup {
    let mut heads = vec![""];
    heads.extend(of.column.iter().map(|column| column.name.as_str()));
    let lines = of.row.iter().map(|row| {
        let cell = |(index, column): (usize, &Column)| {
            row.figure(index).map_or_else(|| text("–"), |value| theirs(value, &column.unit))
        };
        [text(&row.name)].into_iter().chain(of.column.iter().enumerate().map(cell)).collect()
    });
    table_of_figures(&heads, lines)
}

/// Each reason and each command once.
fn why_nothing<'a>(here: impl Iterator<Item = &'a Here>) -> Markup {
    let (mut reasons, mut commands) = (Vec::new(), Vec::new());
    for here in here {
        let Here::Missing { why, command } = here else { continue };
        if !reasons.contains(&why) {
            reasons.push(why);
        }
        // Of several cases their suite.
        let whole = command.as_deref().and_then(|command| command.split(" --only ").next());
        if let Some(whole) = whole.filter(|whole| !commands.contains(whole)) {
            commands.push(whole);
        }
    }
    html! {
        p.note {
            strong { "Not measured on this machine" } ": "
            @for (index, why) in reasons.iter().enumerate() { @if index > 0 { "; " } (why) }
            "."
            @for command in commands { " " (code(command)) }
        }
    }
}

fn how(command: &str, note: &str) -> Markup {
    html! { (code(command)) @if !note.is_empty() { " " span.note { (note) } } }
}

fn how_not(why: &str, command: Option<&str>) -> Markup {
    html! { span.note { (why) } @if let Some(command) = command { ": " (code(command)) } }
}

fn claims(one: &Text, inputs: &Inputs) -> Markup {
    let lines = one.claim.iter().map(|claim| {
        let finding = claim.ask(one, inputs);
        let value = |value: Option<f64>| text(value.map_or_else(|| "–".to_owned(), number::plain));
        let in_itself = match &finding.contradiction {
            Some(why) => html! { span.bad { "contradicts itself" } " " span.note { (why) } },
            None if finding.text.is_some() => html! { span.good { "agrees" } },
            None => html! { span.note { "has none" } },
        };
        let here = match finding.here.map(|_| &finding.verdict) {
            Some(Verdict::Holds) => html! { span.good { "holds" } },
            Some(Verdict::Fails) => html! { span.bad { "does not hold here" } },
            Some(Verdict::Undecided) => html! { "undecided: within 3 % of it" },
            None => html! { span.missing { "not measured" } },
        };
        vec![
            html! { (claim.name) br; span.note { (claim.measure) } },
            text(claim.bounds()),
            value(finding.text),
            in_itself,
            value(finding.here),
            here,
        ]
    });
    table(&["", "expected", "its own figures", "", "this machine", ""], lines)
}
