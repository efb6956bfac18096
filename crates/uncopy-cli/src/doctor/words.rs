//! Reports of the doctor for people, with the verdict first.

use std::fmt::Write as _;

use uncopy::capabilities::Answer;
use uncopy::doctor::{CopyVerdict, DoctorFinding, Report, Severity, Stack, TriedMechanism};

use super::explain;
use crate::report::printable;
use crate::report::refusal::words;

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Coloured,
}

impl Style {
    /// Chooses colours for terminals, unless `NO_COLOR` is set (<https://no-color.org>).
    pub(super) fn of(is_terminal: bool) -> Style {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if is_terminal && !unwanted { Style::Coloured } else { Style::Plain }
    }

    /// Formats text in bold with this colour (`console_codes(4)`).
    fn paint(self, colour: u8, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Coloured => format!("\x1b[1;{colour}m{text}\x1b[0m"),
        }
    }
}

const RED: u8 = 31;
const GREEN: u8 = 32;
const YELLOW: u8 = 33;
const BLUE: u8 = 34;

/// Formats the verdict, the findings and the facts that were examined. `follows`: whether it
/// follows another report.
pub(super) fn report(report: &Report, style: Style, follows: bool) -> String {
    let mut text = String::from(if follows { "\n" } else { "" });
    let colour = match report.verdict {
        CopyVerdict::ZeroCopy => GREEN,
        CopyVerdict::Limited | CopyVerdict::Unknown => YELLOW,
        _ => RED,
    };
    let _ = writeln!(text, "{}", style.paint(colour, &printable(&report.headline)));
    let (notes, weighty): (Vec<_>, Vec<_>) =
        report.findings.iter().partition(|finding| finding.severity == Severity::Note);
    for finding in &weighty {
        write_finding(&mut text, finding, style);
    }
    if !notes.is_empty() {
        text.push('\n');
    }
    for finding in &notes {
        let severity = style.paint(BLUE, "note");
        let summary = finding.summary.to_string();
        let (summary, id) = (printable(&summary), finding.condition.id);
        let _ = writeln!(text, "{severity}: {summary} [{id}]");
    }
    if !report.mechanisms.is_empty() {
        text.push_str("\nmechanisms, cheapest first\n");
    }
    for tried in &report.mechanisms {
        let _ = writeln!(text, "  {:16}{}", tried.mechanism.name(), printable(&result_of(tried)));
    }
    if let Some(stacks) = &report.stacks {
        write_stacks(&mut text, stacks);
    }
    text.push_str("\nexamined\n");
    for fact in &report.facts {
        let _ = writeln!(text, "  {:8}{}", fact.name, printable(&fact.value));
    }
    if let Some(first) = report.findings.first() {
        let _ = writeln!(text, "\nmore: uncopy doctor --explain {}", first.condition.id);
    }
    text
}

/// Adds each stack with its functions, innermost first.
fn write_stacks(text: &mut String, stacks: &[Stack]) {
    let head = if stacks.is_empty() { "no copying stack was seen" } else { "copying stacks" };
    let _ = writeln!(text, "\n{head}");
    for stack in stacks {
        let _ = writeln!(text, "  {} samples, {} calls", stack.samples, stack.calls);
        for (place, name) in stack.functions.iter().enumerate() {
            let arrow = if place == 0 { " " } else { "←" };
            let _ = writeln!(text, "    {arrow} {}", printable(name));
        }
    }
}

/// Formats the result of trying a mechanism.
fn result_of(tried: &TriedMechanism) -> String {
    let answer = match &tried.answer {
        Answer::Yes(cost) => format!("yes, {cost}"),
        Answer::No { errno: Some(errno), reason } => format!("no: {reason} ({errno})"),
        Answer::No { errno: None, reason } => format!("no: {reason}"),
        Answer::Unknown { reason } => format!("unknown: {reason}"),
    };
    let passed_over = tried.passed_over.map(|reason| format!("; not used: {}", words(reason)));
    std::iter::once(answer).chain(passed_over).collect()
}

/// Adds a finding that matters for the verdict.
fn write_finding(text: &mut String, finding: &DoctorFinding, style: Style) {
    let colour = if finding.severity == Severity::Copies { RED } else { YELLOW };
    let severity = style.paint(colour, finding.severity.name());
    let summary = finding.summary.to_string();
    let (summary, id) = (printable(&summary), finding.condition.id);
    let _ = writeln!(text, "\n{severity}: {summary} [{id}]");
    for evidence in &finding.evidence {
        let _ = writeln!(text, "  seen in {}: {}", evidence.source, printable(&evidence.found));
    }
    let _ = writeln!(text, "  effect: {}", printable(&finding.effect.to_string()));
    if let Some(step) = explain::next_step(finding) {
        let root = if finding.needs_root { " (needs root)" } else { "" };
        let _ = writeln!(text, "  next step{root}: {}", printable(&step));
    }
}

#[cfg(test)]
mod tests {
    use uncopy::doctor::{Options, Target, examine};

    use super::*;

    fn loopback() -> Report {
        let target = Target::Tcp("127.0.0.1:9".parse().unwrap());
        examine(&target, &Options::default()).unwrap()
    }

    #[test]
    fn the_verdict_comes_first_and_the_reason_with_it() {
        let text = super::report(&loopback(), Style::Plain, false);
        let first =
            "TCP to 127.0.0.1:9 through lo will be copied: 127.0.0.1:9 is on this machine\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("\ncopies: 127.0.0.1:9 is on this machine [loopback]\n"), "{text}");
        assert!(text.contains("\n  next step: "), "{text}");
        assert!(text.contains("\nexamined\n  route   through lo\n"), "{text}");
        assert!(text.ends_with("\nmore: uncopy doctor --explain loopback\n"), "{text}");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn stacks_are_shown_function_by_function() {
        let mut examined = loopback();
        let text = |report: &Report| super::report(report, Style::Plain, false);
        assert!(!text(&examined).contains("stack"));
        examined.stacks = Some(Vec::new());
        assert!(text(&examined).contains("\nno copying stack was seen\n"));
        let functions = ["skb_copy_ubufs", "dev_queue\u{1b}"].map(str::to_owned).to_vec();
        examined.stacks = Some(vec![Stack { functions, samples: 3, calls: 40 }]);
        let shown = text(&examined);
        let expected =
            "\ncopying stacks\n  3 samples, 40 calls\n      skb_copy_ubufs\n    ← dev_queue";
        assert!(shown.contains(expected), "{shown}");
        assert!(!shown.contains('\x1b'), "{shown}");
    }

    #[test]
    fn colours_are_for_terminals() {
        let text = super::report(&loopback(), Style::Coloured, true);
        assert!(text.starts_with("\n\x1b[1;31mTCP to"), "{text}");
        assert_eq!(Style::of(false), Style::Plain);
    }
}
