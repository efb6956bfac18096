//! One thing that keeps bytes from staying where they are, or that is worth knowing.

use std::fmt;

use super::condition::Condition;

/// What a finding means for the bytes, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// A processor copies the bytes.
    Copies,
    /// Whether they are copied cannot be told, or the kernel cannot be believed about it.
    Unknown,
    /// They are not copied, up to a limit, or it does not pay.
    Limits,
    /// It changes nothing here.
    Note,
}

impl Severity {
    /// Every severity, the worst first.
    pub const ALL: [Severity; 4] =
        [Severity::Copies, Severity::Unknown, Severity::Limits, Severity::Note];

    /// The name in reports: `copies`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Copies => "copies",
            Severity::Unknown => "unknown",
            Severity::Limits => "limits",
            Severity::Note => "note",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What was seen, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Who says so: a file below `/proc`, a question to the kernel, a trial.
    pub source: &'static str,
    /// What it says.
    pub found: String,
}

/// A condition that was met.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Which one: its stable id, and what is known of it in general.
    pub condition: &'static Condition,
    /// What it means here.
    pub severity: Severity,
    /// What was found, as a clause: `lldpd (pid 812) holds a packet tap on all devices`.
    pub summary: String,
    /// What was seen, and where.
    pub evidence: Vec<Evidence>,
    /// What it does to the bytes, as a sentence.
    pub effect: String,
    /// What a person can do about it, as a sentence; `None`: nothing has to be done.
    pub next_step: Option<String>,
    /// The next step, or a better answer, needs root.
    pub needs_root: bool,
}

impl Finding {
    /// The condition as it usually is.
    pub(crate) fn of(condition: &'static Condition, summary: impl Into<String>) -> Finding {
        Finding {
            condition,
            severity: condition.severity,
            summary: summary.into(),
            evidence: Vec::new(),
            effect: condition.effect.to_owned(),
            next_step: Some(condition.next_step.to_owned()).filter(|step| !step.is_empty()),
            needs_root: condition.needs_root,
        }
    }

    /// With what was seen.
    pub(crate) fn seen(mut self, source: &'static str, found: impl Into<String>) -> Finding {
        self.evidence.push(Evidence { source, found: found.into() });
        self
    }

    /// With another meaning here.
    pub(crate) fn meaning(mut self, severity: Severity, effect: impl Into<String>) -> Finding {
        self.severity = severity;
        self.effect = effect.into();
        self
    }

    /// With another next step here.
    pub(crate) fn step(mut self, next_step: impl Into<String>, needs_root: bool) -> Finding {
        self.next_step = Some(next_step.into());
        self.needs_root = needs_root;
        self
    }
}

/// Adds what has not been said yet.
pub(crate) fn add_new(findings: &mut Vec<Finding>, more: Vec<Finding>) {
    for finding in more {
        let is_known = findings
            .iter()
            .any(|known| known.condition == finding.condition && known.summary == finding.summary);
        if !is_known {
            findings.push(finding);
        }
    }
}
