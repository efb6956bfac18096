//! The four texts: their tables beside ours, and what they claim.

use maud::{Markup, html};

use super::super::inputs::Inputs;
use super::super::number;
use super::super::texts::{Here, Table, Text, Texts};
use super::{code, table, text};

pub(super) fn section(texts: &Texts, inputs: &Inputs) -> Markup {
    let body = html! {
        p {
            "Each figure of the texts, ours of the same thing, and ours divided by theirs. Their \
             machines are others, and so are their systems: what can be held against them is rather \
             how their own figures stand to one another, which “claims” asks of both."
        }
        @for one in &texts.text { (article(one, inputs)) }
    };
    super::section("texts", "The four texts", body)
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

fn figures(of: &Table, inputs: &Inputs) -> Markup {
    let mut lines = Vec::new();
    for row in &of.row {
        for (index, column) in of.column.iter().enumerate() {
            let theirs = row.figure(index);
            let here = row.here(column, inputs);
            let with_unit = |value| text(format!("{} {}", number::plain(value), column.unit));
            let ratio = theirs.zip(here.value()).filter(|(theirs, _)| *theirs != 0.0);
            let (ours, how) = match &here {
                Here::Measured { value, command, note } => (with_unit(*value), how(command, note)),
                Here::Missing { why, command } => {
                    (html! { span.missing { "not measured" } }, how_not(why, command.as_deref()))
                }
            };
            let name = if index == 0 {
                text(&row.name)
            } else {
                html! { span.again { (row.name) } }
            };
            lines.push(vec![
                name,
                text(&column.name),
                theirs.map_or_else(|| text("–"), with_unit),
                ours,
                ratio.map_or_else(
                    || text("–"),
                    |(theirs, ours)| text(format!("{}×", number::plain(ours / theirs))),
                ),
                how,
            ]);
        }
    }
    html! {
        h4 { (of.title) }
        @if let Some(note) = &of.note { p.note { (note) } }
        (table(&["", "", "the text", "this machine", "ratio", "command"], lines))
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
            None => html! { span.good { "agrees" } },
        };
        let here = match finding.holds_here {
            Some(true) => html! { span.good { "holds" } },
            Some(false) => html! { span.bad { "does not hold here" } },
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
