//! Machines, peers, targets, and every row.

use maud::{Markup, html};

use super::super::inputs::{Comparison, Inputs, Run};
use super::super::number;
use super::{code, section, table, table_of_figures, text};
use crate::compare::report::without_directories;
use crate::compare::row::Row;

pub(super) fn machines(inputs: &Inputs) -> Markup {
    let all = &inputs.comparisons;
    let runs = all
        .iter()
        .flat_map(|comparison| comparison.runs.iter().map(|run| of_run(&comparison.suite, run)));
    let unknown: usize = all.iter().map(Comparison::cases_of_unknown_host).sum();
    let body = html! {
        (table(&["suite", "cases", "kernel", "processor", "memory", "files lie on", "commit"], runs))
        @if unknown > 0 {
            p.missing {
                (unknown) " cases were recorded without the machine, the kernel and the filesystem \
                 that they were measured on, and nothing here says so in their place. Measured \
                 again, they have it."
            }
        }
        details {
            summary { "State of caches, and how it is measured" }
            @for comparison in all.iter().filter(|c| !c.notes.is_empty()) {
                h4 { (comparison.suite) }
                ul.notes { @for note in &comparison.notes { li { (note) } } }
            }
        }
        details {
            summary { "Versions of the peers" }
            @for comparison in all { (peers(comparison)) }
        }
    };
    section("machines", "Where it was measured", &body)
}

fn of_run(suite: &str, run: &Run) -> Vec<Markup> {
    let mut line = vec![text(suite), text(run.cases.len().to_string())];
    match &run.host {
        Some(host) => {
            let virtual_machine = if host.is_virtual { ", virtual" } else { "" };
            line.extend([
                text(&host.kernel),
                text(format!("{} × {}{virtual_machine}", host.processors, host.processor)),
                text(number::bytes(host.memory_bytes as f64)),
                text(&host.filesystem),
                code(&host.commit),
            ]);
        }
        None => line.extend([(); 5].map(|()| html! { span.missing { "not recorded" } })),
    }
    line
}

fn peers(comparison: &Comparison) -> Markup {
    let there = comparison.peers.iter().map(|(name, version)| vec![text(name), text(version)]);
    let absent = comparison
        .absent
        .iter()
        .map(|absent| vec![text(&absent.subject), html! { span.missing { (absent.reason) } }]);
    html! {
        @if !comparison.peers.is_empty() || !comparison.absent.is_empty() {
            h4 { (comparison.suite) }
            (table(&["peer", "version"], there.chain(absent)))
        }
    }
}

pub(super) fn targets(inputs: &Inputs) -> Markup {
    let of = |comparison: &Comparison, met: Option<bool>| {
        comparison.rows.iter().filter(|row| row.target.is_some() && row.met == met).count()
    };
    let lines = inputs.comparisons.iter().filter(|c| c.rows.iter().any(|row| row.target.is_some()));
    let lines = lines.map(|comparison| {
        let missed = of(comparison, Some(false));
        vec![
            text(&comparison.suite),
            text(of(comparison, Some(true)).to_string()),
            if missed == 0 {
                text("0")
            } else {
                html! { span.bad { (missed) } }
            },
            text(of(comparison, None).to_string()),
        ]
    });
    let all = inputs.comparisons.iter().flat_map(|comparison| &comparison.rows);
    let missed: Vec<&Row> = all.filter(|row| row.met == Some(false)).collect();
    let body = html! {
        p {
            "What was to be reached, judged within noise: the larger of a target's own band and the \
             spread of the same thing measured twice in each round. A limit of 1.03 is 1 with a band \
             of 3 % in it, which a larger spread takes the place of."
        }
        (table_of_figures(&["suite", "met", "missed", "not judged"], lines))
        @if !missed.is_empty() {
            h3 { "Missed" }
            (table(&["case", "what", "found", "at most", "noise"], missed.into_iter().map(missed_line)))
        }
    };
    section("targets", "Targets", &body)
}

fn missed_line(row: &Row) -> Vec<Markup> {
    let limit = row.target.unwrap_or_default();
    let (found, limit) = match (row.ratio, &row.baseline) {
        (Some(ratio), Some(baseline)) => {
            (format!("{ratio:.3} of {baseline}"), format!("{limit:.3}"))
        }
        _ => (
            number::quantity(row.value.unwrap_or_default(), &row.unit),
            number::quantity(limit, &row.unit),
        ),
    };
    vec![
        text(format!("{} {}", row.suite, row.case)),
        text(format!("{}: {}", row.subject, row.metric)),
        text(found),
        text(limit),
        text(row.noise.map_or_else(|| "–".to_owned(), per_cent)),
    ]
}

fn per_cent(part: f64) -> String {
    format!("{} %", number::plain(part * 100.0))
}

pub(super) fn all(inputs: &Inputs) -> Markup {
    let body = html! {
        p {
            "Every case: figures, and in brackets the median of each round's ratio to the \
             subject named above. “(again)” is the same subject's second run in each round: noise."
        }
        @for comparison in &inputs.comparisons {
            details {
                summary {
                    strong { (comparison.suite) } " "
                    (comparison.cases().len()) " cases, " (comparison.rows.len()) " rows"
                    @match comparison.cases_of_unknown_host() {
                        0 => {},
                        count => { ", " (count) " cases of unknown machine and kernel" },
                    }
                }
                @for case in comparison.cases() { (of_case(comparison, case)) }
            }
        }
    };
    section("rows", "All rows", &body)
}

fn of_case(comparison: &Comparison, case: &str) -> Markup {
    let mut metrics: Vec<&str> = Vec::new();
    let mut subjects: Vec<&str> = Vec::new();
    for row in comparison.figures(case) {
        if row.skipped.is_none() && !metrics.contains(&row.metric.as_str()) {
            metrics.push(&row.metric);
        }
        if !subjects.contains(&row.subject.as_str()) {
            subjects.push(&row.subject);
        }
    }
    let baseline = comparison.figures(case).find_map(|row| row.baseline.as_deref());
    let against = baseline.map(|baseline| format!("ratios to {baseline}")).unwrap_or_default();
    let mut heads = vec![against.as_str()];
    heads.extend(&metrics);
    let why_skipped = |subject: &str| {
        let mut own = comparison.figures(case).filter(|row| row.subject == subject);
        own.next().and_then(|row| row.skipped.as_deref())
    };
    let (skipped, measured): (Vec<&str>, Vec<&str>) =
        subjects.iter().copied().partition(|subject| why_skipped(subject).is_some());
    let lines = measured.iter().map(|subject| {
        let cells = metrics.iter().map(|metric| cell(comparison.figure(case, subject, metric)));
        [text(subject)].into_iter().chain(cells).collect()
    });
    html! {
        h4 { (case) }
        @if !measured.is_empty() { (table_of_figures(&heads, lines)) }
        @for subject in skipped {
            p.note {
                "skipped: " (subject) ": "
                (without_directories(why_skipped(subject).unwrap_or_default()))
            }
        }
    }
}

fn cell(row: Option<&Row>) -> Markup {
    let Some((row, value)) = row.and_then(|row| Some((row, row.value?))) else {
        return text("–");
    };
    let figure = number::quantity(value, &row.unit);
    match row.ratio {
        Some(ratio) => html! { (figure) " " span.note { "(" (number::plain(ratio)) ")" } },
        None => text(figure),
    }
}
