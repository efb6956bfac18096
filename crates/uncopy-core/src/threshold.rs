//! Sizes that decide which mechanism is used.

use std::fmt;

use crate::Choice;

/// Origin of a threshold's value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The built-in default.
    #[default]
    BuiltIn,
    /// Set by the caller.
    Given,
    /// Measured on the filesystem (`uncopy::copy::tune`).
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

/// A size that decides which mechanism is used, and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// The size in bytes.
    pub bytes: u64,
    /// Where it comes from.
    pub origin: Origin,
}

impl Threshold {
    /// Makes a threshold with a built-in value.
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

/// A threshold that is not built in and changed the choice of the mechanism.
///
/// `Display` names the option of `CopyOptions`: `tuning.direct_min 256 KiB (tuned)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The option that holds the size.
    pub choice: Choice,
    /// The threshold.
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
    fn a_decision_shows_the_option_its_size_and_its_origin() {
        for (choice, bytes, origin, expected) in [
            (Choice::ZeroCopyMin, 512 << 10, Origin::Tuned, "tuning.zero_copy_min 512 KiB (tuned)"),
            (Choice::DirectMin, 2 << 20, Origin::Given, "tuning.direct_min 2 MiB (given)"),
            (Choice::DirectCpuMin, 5, Origin::BuiltIn, "tuning.direct_cpu_min 5 bytes (built in)"),
        ] {
            let decision = Decision { choice, threshold: Threshold { bytes, origin } };
            assert_eq!(decision.to_string(), expected);
        }
    }
}
