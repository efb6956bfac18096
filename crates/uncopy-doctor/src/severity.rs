//! What a finding means for the bytes.

use std::fmt;

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
