//! State of a plan as figures, in the text format of OpenMetrics (pure).

use std::fmt::Write as _;

use uncopy::unit::format::Plan;
use uncopy::unit::ledger::FailureKind;
use uncopy::unit::status::PlanStatus;

/// Kinds of failures, each with its label.
const KINDS: [(FailureKind, &str); 7] = [
    (FailureKind::SourceChanged, "source_changed"),
    (FailureKind::Conflict, "conflict"),
    (FailureKind::Verification, "verification"),
    (FailureKind::Error, "error"),
    (FailureKind::Interrupted, "interrupted"),
    (FailureKind::Overtaken, "overtaken"),
    (FailureKind::NotYet, "not_yet"),
];

/// One figure of a family: its labels beside the plan, and its value.
type Sample<'a> = (&'a str, &'a str, u64);

/// Formats all figures.
pub(super) fn text(plan: &Plan, status: &PlanStatus) -> String {
    let id = plan.id.to_string();
    let mut text = String::new();
    let mut family = |name: &str, unit: &str, help: &str, samples: &[Sample<'_>]| {
        let _ = writeln!(text, "# TYPE {name} gauge");
        if !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(text, "# HELP {name} {help}");
        for (label, value, number) in samples {
            let _ = match label.is_empty() {
                true => writeln!(text, "{name}{{plan=\"{id}\"}} {number}"),
                false => writeln!(text, "{name}{{plan=\"{id}\",{label}=\"{value}\"}} {number}"),
            };
        }
    };
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let units = [
        ("state", "done", status.done.into()),
        ("state", "begun", count(status.begun.len())),
        ("state", "failed", count(status.failed.len())),
        ("state", "waiting", status.waiting.into()),
    ];
    family("uncopy_unit_units", "", "Units by state.", &units);
    let kinds = status.failure_kinds();
    let of_kind = |kind: FailureKind| kinds.get(&kind).copied().unwrap_or(0).into();
    let failures = KINDS.map(|(kind, label)| ("kind", label, of_kind(kind)));
    family("uncopy_unit_failed_units", "", "Failed units by kind of failure.", &failures);
    let of = |planned: u64, done: u64| [("state", "planned", planned), ("state", "done", done)];
    let amounts = status.amounts;
    let entries = of(plan.entries, amounts.entries);
    family("uncopy_unit_entries", "", "Entries to copy, and copied.", &entries);
    let bytes = of(plan.bytes, amounts.bytes);
    family("uncopy_unit_size_bytes", "bytes", "Bytes to copy, and copied.", &bytes);
    let deletions = of(plan.deletions, amounts.deleted);
    family("uncopy_unit_deletions", "", "Entries to delete, and deleted.", &deletions);
    let seconds = [("", "", status.work.as_secs())];
    family(
        "uncopy_unit_work_seconds",
        "seconds",
        "Time that workers spent on units that are done.",
        &seconds,
    );
    text.push_str("# EOF\n");
    text
}

#[cfg(test)]
mod tests {
    use uncopy::unit::format::{Options, PlanId, Root, SCHEMA, SeenRoots};
    use uncopy::unit::status::status;

    use super::*;

    #[test]
    fn figures_are_in_the_format() {
        let plan = Plan {
            schema: SCHEMA,
            id: PlanId::from_random([1; 16]),
            source: Root::new("/s").unwrap(),
            destination: Root::new("/d").unwrap(),
            seen: SeenRoots::default(),
            options: Options::default(),
            units: 3,
            entries: 20,
            bytes: 30,
            deletions: 1,
            version: String::new(),
            finished: true,
        };
        let text = text(&plan, &status(&plan, []));
        let id = "01".repeat(16);
        assert!(text.ends_with("\n# EOF\n"));
        for line in [
            "# TYPE uncopy_unit_units gauge".to_owned(),
            "# UNIT uncopy_unit_size_bytes bytes".to_owned(),
            format!("uncopy_unit_units{{plan=\"{id}\",state=\"waiting\"}} 3"),
            format!("uncopy_unit_size_bytes{{plan=\"{id}\",state=\"planned\"}} 30"),
            format!("uncopy_unit_failed_units{{plan=\"{id}\",kind=\"conflict\"}} 0"),
            format!("uncopy_unit_work_seconds{{plan=\"{id}\"}} 0"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        // Each family is described before its figures, and its name ends in its unit.
        let mut family = "";
        for line in text.lines().filter(|line| *line != "# EOF") {
            match line.strip_prefix("# TYPE ") {
                Some(named) => family = named.split(' ').next().unwrap(),
                None => assert!(line.contains(family), "{line}"),
            }
        }
    }
}
