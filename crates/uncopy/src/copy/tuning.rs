//! Thresholds between mechanisms, and where they come from.

use std::fmt;

/// Where the value of a threshold comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Nobody said anything.
    #[default]
    BuiltIn,
    /// The caller chose it.
    Given,
    /// It was measured on the filesystem ([`tune`](super::tune)).
    Tuned,
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
    const fn built_in(bytes: u64) -> Threshold {
        Threshold { bytes, origin: Origin::BuiltIn }
    }

    /// Part of a refusal: which threshold of this name ruled, if it is not the one built in.
    pub(crate) fn reason(self, name: &str) -> String {
        match self.origin {
            Origin::BuiltIn => String::new(),
            Origin::Given => format!(" (below {name}, {self})"),
            Origin::Tuned => format!(" (below {name}, {self}, tuned for this filesystem)"),
        }
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

/// The sizes on which the choice of a mechanism depends. The defaults are those built in.
///
/// ```
/// use uncopy::copy::{CopyOptions, Origin, Threshold};
/// let mut options = CopyOptions::default();
/// assert_eq!(options.tuning.zero_copy_min.bytes, 64 << 10);
/// options.tuning.zero_copy_min = Threshold { bytes: 16 << 10, origin: Origin::Given };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tuning {
    /// Below it a file that cannot be shared is read and written: nothing that needs setting up is
    /// quicker. At most [`Tuning::MOST_ZERO_COPY_MIN_BYTES`] count: each worker has a buffer as large.
    pub zero_copy_min: Threshold,
    /// Below it nothing is written directly, unless nothing else is allowed. From it on, direct
    /// writes are taken where the bytes must reach the device anyway.
    pub direct_min: Threshold,
    /// From it on direct writes are taken to save processor time
    /// ([`Prefer::CpuTime`](super::Prefer::CpuTime)), if the source is in the page cache.
    pub direct_cpu_min: Threshold,
    /// The buffer of copies through the program's memory. Between 4 KiB and
    /// [`Tuning::MOST_BUFFER_BYTES`] count, rounded down to a multiple of 4 KiB.
    pub buffer: Threshold,
}

impl Tuning {
    /// The largest [`Tuning::zero_copy_min`] that has an effect.
    pub const MOST_ZERO_COPY_MIN_BYTES: u64 = 1 << 20;

    /// The largest [`Tuning::buffer`] that has an effect.
    pub const MOST_BUFFER_BYTES: u64 = 64 << 20;

    /// What is built in.
    pub const BUILT_IN: Tuning = Tuning {
        zero_copy_min: Threshold::built_in(64 << 10),
        direct_min: Threshold::built_in(1 << 20),
        direct_cpu_min: Threshold::built_in(4 << 20),
        // Larger ones leave the processor's second-level cache.
        buffer: Threshold::built_in(256 << 10),
    };

    pub(crate) fn small_bytes(&self) -> u64 {
        self.zero_copy_min.bytes.min(Tuning::MOST_ZERO_COPY_MIN_BYTES)
    }

    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.buffer.bytes.clamp(4 << 10, Tuning::MOST_BUFFER_BYTES) & !0xfff
    }
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning::BUILT_IN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_limits() {
        for (bytes, small, buffer) in [
            (0, 0, 4096),
            (5000, 5000, 4096),
            (1 << 20, 1 << 20, 1 << 20),
            (u64::MAX, 1 << 20, 64 << 20),
        ] {
            let given = Threshold { bytes, origin: Origin::Given };
            let tuning = Tuning { zero_copy_min: given, buffer: given, ..Tuning::default() };
            assert_eq!((tuning.small_bytes(), tuning.buffer_bytes()), (small, buffer), "{bytes}");
        }
    }

    #[test]
    fn a_reason_names_its_origin() {
        for (bytes, origin, expected) in [
            (1 << 20, Origin::BuiltIn, ""),
            (1 << 20, Origin::Given, " (below direct-min, 1 MiB)"),
            (96 << 10, Origin::Tuned, " (below direct-min, 96 KiB, tuned for this filesystem)"),
            (5000, Origin::Given, " (below direct-min, 5000 bytes)"),
        ] {
            assert_eq!(Threshold { bytes, origin }.reason("direct-min"), expected);
        }
    }
}
