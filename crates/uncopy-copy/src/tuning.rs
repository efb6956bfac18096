//! Thresholds between mechanisms, and their origin.

pub use uncopy_core::{Origin, Threshold};

/// Sizes on which the choice of a mechanism depends. The defaults are built in.
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
    /// Size below which a file that cannot be shared is read and written: nothing with a setup cost is
    /// quicker. Capped at [`Tuning::MAX_ZERO_COPY_MIN_BYTES`]: each worker has a buffer of this size.
    pub zero_copy_min: Threshold,
    /// Minimum size for direct writes, unless nothing else is allowed. From it on they are used where
    /// the bytes must reach the device anyway.
    pub direct_min: Threshold,
    /// Minimum size for direct writes that save processor time
    /// ([`Prefer::CpuTime`](super::Prefer::CpuTime)), if the source is in the page cache.
    pub direct_cpu_min: Threshold,
    /// Buffer of copies through the program's memory. Clamped to 4 KiB and [`Tuning::MAX_BUFFER_BYTES`],
    /// and rounded down to a multiple of 4 KiB.
    pub buffer: Threshold,
}

impl Tuning {
    /// Largest [`Tuning::zero_copy_min`] that has an effect.
    pub const MAX_ZERO_COPY_MIN_BYTES: u64 = 1 << 20;

    /// Largest [`Tuning::buffer`] that has an effect.
    pub const MAX_BUFFER_BYTES: u64 = 64 << 20;

    /// Built-in values.
    pub const BUILT_IN: Tuning = Tuning {
        zero_copy_min: Threshold::built_in(64 << 10),
        direct_min: Threshold::built_in(1 << 20),
        direct_cpu_min: Threshold::built_in(4 << 20),
        // Larger buffers exceed the processor's second-level cache.
        buffer: Threshold::built_in(256 << 10),
    };

    /// Returns the length in bytes from which on a file is copied by more than one read and one write.
    #[must_use]
    pub fn small_bytes(&self) -> u64 {
        self.zero_copy_min.bytes.min(Tuning::MAX_ZERO_COPY_MIN_BYTES)
    }

    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.buffer.bytes.clamp(4 << 10, Tuning::MAX_BUFFER_BYTES) & !0xfff
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
}
