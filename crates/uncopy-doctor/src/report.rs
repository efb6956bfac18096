//! What the doctor says in the end.

use std::fmt;

use super::finding::DoctorFinding;
use super::severity::Severity;
use uncopy_core::{Cost, Mechanism, RefusalReason};
use uncopy_os::capabilities::Answer;

/// The answer to "will these bytes be copied?".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CopyVerdict {
    /// Nothing was found that copies.
    ZeroCopy,
    /// Nothing copies, up to a limit; or it costs more than it brings.
    Limited,
    /// A processor copies the bytes.
    Copied,
    /// It cannot be told.
    Unknown,
}

impl CopyVerdict {
    /// Every verdict.
    pub const ALL: [CopyVerdict; 4] =
        [CopyVerdict::ZeroCopy, CopyVerdict::Limited, CopyVerdict::Copied, CopyVerdict::Unknown];

    /// Returns the name in reports: `zero_copy`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CopyVerdict::ZeroCopy => "zero_copy",
            CopyVerdict::Limited => "limited",
            CopyVerdict::Copied => "copied",
            CopyVerdict::Unknown => "unknown",
        }
    }

    /// Returns what follows from the worst of these findings.
    #[must_use]
    pub fn of(findings: &[DoctorFinding]) -> CopyVerdict {
        match findings.iter().map(|finding| finding.severity).min() {
            Some(Severity::Copies) => CopyVerdict::Copied,
            Some(Severity::Unknown) => CopyVerdict::Unknown,
            Some(Severity::Limits) => CopyVerdict::Limited,
            Some(Severity::Note) | None => CopyVerdict::ZeroCopy,
        }
    }

    /// What is said of the subject before the reason.
    const fn predicate(self) -> &'static str {
        match self {
            CopyVerdict::ZeroCopy => "is not copied, as far as can be seen",
            CopyVerdict::Limited => "is not copied, with a limit",
            CopyVerdict::Copied => "will be copied",
            CopyVerdict::Unknown => "may or may not be copied",
        }
    }
}

impl fmt::Display for CopyVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that was looked at, whatever came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReportFact {
    /// What: `route`, `device`, `source`.
    pub name: &'static str,
    /// What it is like, for people.
    pub value: String,
}

/// One way to copy a file, as it was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TriedMechanism {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Whether it works between these directories, and what it would cost.
    pub answer: Answer<Cost>,
    /// What was done to find out, and what came of it; empty if nothing was.
    pub proof: String,
    /// Why a copy would not take it although it works; `None`: it would, or it does not work.
    pub passed_over: Option<RefusalReason>,
}

/// A whole stack of the kernel with a function in it that copies, as a trace saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Names of functions, the innermost first.
    pub functions: Vec<String>,
    /// Samples that found it.
    pub samples: u64,
    /// Calls of a function that copies, noted by kprobes, that were made from it.
    pub calls: u64,
}

/// What was found out about one target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What was asked about: `tcp://192.0.2.1:443`.
    pub target: String,
    /// The answer.
    pub verdict: CopyVerdict,
    /// The answer as a sentence, with the first reason.
    pub headline: String,
    /// What was found, the worst first.
    pub findings: Vec<DoctorFinding>,
    /// What was looked at.
    pub facts: Vec<ReportFact>,
    /// For a file: every mechanism, the one that touches the bytes least first.
    pub ways: Vec<TriedMechanism>,
    /// The five commonest stacks that copy, those seen most often first. `None`: they were not asked
    /// for, or the kernel may not be sampled.
    pub stacks: Option<Vec<Stack>>,
    /// What begins the headline.
    subject: String,
}

impl Report {
    /// Sorts the findings and draws the conclusion. `subject` begins the headline: `TCP to
    /// 192.0.2.1 through eth1`.
    pub(crate) fn conclude(
        target: String,
        subject: &str,
        findings: Vec<DoctorFinding>,
        facts: Vec<ReportFact>,
    ) -> Report {
        let report = Report {
            target,
            verdict: CopyVerdict::ZeroCopy,
            headline: String::new(),
            findings: Vec::new(),
            facts: Vec::new(),
            ways: Vec::new(),
            stacks: None,
            subject: subject.to_owned(),
        };
        report.with(findings, facts)
    }

    /// The same with more, and the conclusion from all of it.
    pub(crate) fn with(mut self, findings: Vec<DoctorFinding>, facts: Vec<ReportFact>) -> Report {
        self.findings.extend(findings);
        self.facts.extend(facts);
        self.findings.sort_by_key(|finding| finding.severity);
        self.verdict = CopyVerdict::of(&self.findings);
        let reason = self.findings.first().filter(|first| first.severity != Severity::Note);
        let reason = reason.map(|first| format!(": {}", first.summary)).unwrap_or_default();
        self.headline = format!("{} {}{reason}", self.subject, self.verdict.predicate());
        self
    }

    /// Returns the finding of this condition, if there is one.
    #[must_use]
    pub fn finding(&self, id: &str) -> Option<&DoctorFinding> {
        self.findings.iter().find(|finding| finding.condition.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition;
    use crate::effect::Effect;
    use crate::found::NetworkFound;

    #[test]
    fn the_worst_finding_is_the_verdict_and_leads() {
        let finding = |severity: Severity| {
            let device = severity.to_string();
            DoctorFinding::of(&condition::LOOPBACK, NetworkFound::DeviceDown { device })
                .meaning(severity, Effect::Usual(&condition::LOOPBACK))
                .seen("a test", "")
        };
        use Severity::{Copies, Limits, Note, Unknown};
        for (severities, verdict, headline) in [
            (&[][..], CopyVerdict::ZeroCopy, "It is not copied, as far as can be seen"),
            (&[Note], CopyVerdict::ZeroCopy, "It is not copied, as far as can be seen"),
            (
                &[Note, Limits],
                CopyVerdict::Limited,
                "It is not copied, with a limit: limits is down",
            ),
            (
                &[Limits, Unknown],
                CopyVerdict::Unknown,
                "It may or may not be copied: unknown is down",
            ),
            (
                &[Note, Unknown, Copies, Limits],
                CopyVerdict::Copied,
                "It will be copied: copies is down",
            ),
        ] {
            let findings = severities.iter().copied().map(finding).collect();
            let report = Report::conclude("x".into(), "It", findings, vec![]);
            assert_eq!((report.verdict, report.headline.as_str()), (verdict, headline));
            assert!(report.findings.is_sorted_by_key(|finding| finding.severity));
        }
    }
}
