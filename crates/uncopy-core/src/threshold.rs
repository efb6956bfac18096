//! Sizes at which something else is done.

use std::fmt;

use crate::Choice;

/// Where the value of a threshold comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Nobody said anything.
    #[default]
    BuiltIn,
    /// The caller chose it.
    Given,
    /// It was measured on the filesystem (`uncopy::copy::tune`).
    Tuned,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::BuiltIn => "built in",
            Origin::Given => "given",
            Origin::Tuned => "tuned",
        })
    }
}

/// A size at which something else is done, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// The size in bytes.
    pub bytes: u64,
    /// Who says so.
    pub origin: Origin,
}

impl Threshold {
    /// Makes one that nobody chose.
    #[must_use]
    pub const fn built_in(bytes: u64) -> Threshold {
        Threshold { bytes, origin: Origin::BuiltIn }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// A size that is not built in, and without which a file would have gone another way.
///
/// `Display` names the option of `CopyOptions`: `tuning.direct_min 256 KiB (tuned)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The option that holds the size.
    pub choice: Choice,
    /// The size, and who says so.
    pub threshold: Threshold,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Threshold { origin, .. } = self.threshold;
        write!(f, "{} {} ({origin})", self.choice.option(), self.threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_names_the_option_its_size_and_who_says_so() {
        for (choice, bytes, origin, said) in [
            (Choice::ZeroCopyMin, 512 << 10, Origin::Tuned, "tuning.zero_copy_min 512 KiB (tuned)"),
            (Choice::DirectMin, 2 << 20, Origin::Given, "tuning.direct_min 2 MiB (given)"),
            (Choice::DirectCpuMin, 5, Origin::BuiltIn, "tuning.direct_cpu_min 5 bytes (built in)"),
        ] {
            let decision = Decision { choice, threshold: Threshold { bytes, origin } };
            assert_eq!(decision.to_string(), said);
        }
    }
}
