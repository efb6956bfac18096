//! Reports of the doctor.

use std::fmt;

use super::channel_facts::ChannelFacts;
use super::finding::DoctorFinding;
use super::severity::Severity;
use uncopy_core::{Cost, Mechanism, RefusalReason};
use uncopy_os::capabilities::Answer;

/// Answer to the question whether the bytes will be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CopyVerdict {
    /// No finding copies.
    ZeroCopy,
    /// Nothing copies up to a limit, or lending saves no time.
    Limited,
    /// A CPU copies the bytes.
    Copied,
    /// It is unknown.
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

    /// Returns the verdict of the worst of these findings.
    #[must_use]
    pub fn of(findings: &[DoctorFinding]) -> CopyVerdict {
        match findings.iter().map(|finding| finding.severity).min() {
            Some(Severity::Copies) => CopyVerdict::Copied,
            Some(Severity::Unknown) => CopyVerdict::Unknown,
            Some(Severity::Limits) => CopyVerdict::Limited,
            Some(Severity::Note) | None => CopyVerdict::ZeroCopy,
        }
    }

    /// Returns the predicate of the headline.
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

/// Fact in a report, with or without a finding about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReportFact {
    /// Name: `route`, `device`, `source`.
    pub name: &'static str,
    /// Value, for people.
    pub value: String,
}

/// Trial of one mechanism for a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TriedMechanism {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Whether it works between these directories, and its cost.
    pub answer: Answer<Cost>,
    /// Description of the trial and its result; empty if there was no trial.
    pub proof: String,
    /// Reason why a copy would not use it although it works; `None`: it would, or it does not work.
    pub passed_over: Option<RefusalReason>,
}

/// A kernel stack with a copying function, seen by a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Names of functions, the innermost first.
    pub functions: Vec<String>,
    /// Number of samples.
    pub samples: u64,
    /// Number of calls of a copying function from this stack, recorded by kprobes.
    pub calls: u64,
}

/// Result of examining one target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The target: `tcp://192.0.2.1:443`.
    pub target: String,
    /// The answer.
    pub verdict: CopyVerdict,
    /// The answer as a sentence, with the first reason.
    pub headline: String,
    /// Findings, the worst first.
    pub findings: Vec<DoctorFinding>,
    /// Examined facts.
    pub facts: Vec<ReportFact>,
    /// For a file: every mechanism, the one that touches the bytes least first.
    pub mechanisms: Vec<TriedMechanism>,
    /// For a channel: its facts. `None`: the target is not a channel, or this user has no right to look.
    pub channel: Option<Box<ChannelFacts>>,
    /// The five most frequent copying stacks, the most frequent first. `None`: they were not requested, or the
    /// kernel cannot be sampled.
    pub stacks: Option<Vec<Stack>>,
    /// Subject of the headline.
    subject: String,
}

impl Report {
    /// Creates a report with sorted findings and a verdict. `subject` begins the headline: `TCP to 192.0.2.1
    /// through eth1`.
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
            mechanisms: Vec::new(),
            channel: None,
            stacks: None,
            subject: subject.to_owned(),
        };
        report.with(findings, facts)
    }

    /// Adds findings and facts, and updates the verdict.
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

    /// Returns the finding of the condition with this id, if there is one.
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
