//! Findings: conditions that were met, with their evidence.

use super::condition::Condition;
use super::effect::Effect;
use super::found::FoundFact;
use super::next_step::NextStep;
use super::severity::Severity;

/// Observation that a finding rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evidence {
    /// Source: a file below `/proc`, a request to the kernel, a trial.
    pub source: &'static str,
    /// Statement of the source.
    pub found: String,
}

/// Condition that was met.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoctorFinding {
    /// The condition: its stable id, and its general description.
    pub condition: &'static Condition,
    /// Severity here.
    pub severity: Severity,
    /// Fact that was found, which displays a clause: `lldpd (pid 812) holds a packet tap on all devices`.
    pub summary: FoundFact,
    /// Observations that it rests on.
    pub evidence: Vec<Evidence>,
    /// Effect on the bytes, which displays a sentence.
    pub effect: Effect,
    /// Step that a person can take; `None`: nothing has to be done.
    pub next_step: Option<NextStep>,
    /// Whether the next step, or a better answer, needs root.
    pub needs_root: bool,
}

impl DoctorFinding {
    /// Creates a finding with the condition's usual severity, effect and next step.
    pub(crate) fn of(
        condition: &'static Condition,
        summary: impl Into<FoundFact>,
    ) -> DoctorFinding {
        DoctorFinding {
            condition,
            severity: condition.severity,
            summary: summary.into(),
            evidence: Vec::new(),
            effect: Effect::Usual(condition),
            next_step: (!condition.next_step.is_empty()).then_some(NextStep::Usual(condition)),
            needs_root: condition.needs_root,
        }
    }

    /// Adds evidence.
    pub(crate) fn seen(mut self, source: &'static str, found: impl Into<String>) -> DoctorFinding {
        self.evidence.push(Evidence { source, found: found.into() });
        self
    }

    /// Replaces severity and effect.
    pub(crate) fn meaning(mut self, severity: Severity, effect: Effect) -> DoctorFinding {
        self.severity = severity;
        self.effect = effect;
        self
    }

    /// Replaces the next step.
    pub(crate) fn step(mut self, next_step: NextStep, needs_root: bool) -> DoctorFinding {
        self.next_step = Some(next_step);
        self.needs_root = needs_root;
        self
    }
}

/// Adds findings that are not in the list yet.
pub(crate) fn add_new(findings: &mut Vec<DoctorFinding>, more: Vec<DoctorFinding>) {
    for finding in more {
        let is_known = findings
            .iter()
            .any(|known| known.condition == finding.condition && known.summary == finding.summary);
        if !is_known {
            findings.push(finding);
        }
    }
}
