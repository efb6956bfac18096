//! Severity of findings.

use std::fmt;

/// Severity of a finding, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// A CPU copies the bytes.
    Copies,
    /// It is unknown whether they are copied, or the kernel's reports about it are unreliable.
    Unknown,
    /// They are not copied up to a limit, or lending saves no time.
    Limits,
    /// It has no influence here.
    Note,
}

impl Severity {
    /// Every severity, the worst first.
    pub const ALL: [Severity; 4] =
        [Severity::Copies, Severity::Unknown, Severity::Limits, Severity::Note];

    /// Returns the name in reports: `copies`.
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
