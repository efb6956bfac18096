//! Decides how entries are cut into units (pure).

/// Default number of entries of a unit.
pub const DEFAULT_FILES: u64 = 10_000;

/// Default number of bytes of a unit: half a minute at 300 MB/s, so that little is lost with a worker, and a queue has
/// something to distribute.
pub const DEFAULT_BYTES: u64 = 8 << 30;

/// Minimum number of bytes of a unit, and what ranges are multiples of.
pub const MIN_BYTES: u64 = 1 << 20;

/// Maximum number of ranges that a plan cuts a file into.
const MAX_CUTS: u64 = 10_000;

/// Returns the length of the ranges that a file is cut into, and their number. `None`: it is not cut.
pub(super) fn ranges(size: u64, bytes: u64) -> Option<(u64, u32)> {
    let length = bytes.max(size.div_ceil(MAX_CUTS)).max(1).checked_next_multiple_of(MIN_BYTES)?;
    let count = size.div_ceil(length);
    (size > bytes && count > 1).then_some((length, u32::try_from(count).ok()?))
}

/// Limits of a unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Limits {
    /// Whether a unit with this contents is closed before entries that belong together are added to it.
    pub(super) fn closes_before(
        self,
        entries: u64,
        bytes: u64,
        more: u64,
        more_bytes: u64,
    ) -> bool {
        entries > 0
            && (entries.saturating_add(more) > self.files
                || bytes.saturating_add(more_bytes) > self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_above_the_limit_are_cut_into_equal_ranges() {
        const MIB: u64 = 1 << 20;
        for (size, bytes, expected) in [
            (0, MIB, None),
            (MIB, MIB, None),
            (MIB + 1, MIB, Some((MIB, 2))),
            (10 * MIB, 3 * MIB, Some((3 * MIB, 4))),
            // Ranges are whole mebibytes.
            (10 * MIB, 3 * MIB - 1, Some((3 * MIB, 4))),
            (MIB - 1, MIB / 2, None),
            // And not too many.
            (1 << 40, MIB, Some((105 * MIB, 9987))),
            (
                u64::MAX / 2,
                MIB,
                Some((((u64::MAX / 2).div_ceil(10_000)).next_multiple_of(MIB), 10_000)),
            ),
            (u64::MAX, u64::MAX, None),
        ] {
            assert_eq!(ranges(size, bytes), expected, "{size} {bytes}");
            if let Some((length, count)) = expected {
                assert!(u64::from(count - 1) * length < size && u64::from(count) * length >= size);
            }
        }
    }

    #[test]
    fn a_unit_is_closed_before_it_is_too_large() {
        let limits = Limits { files: 3, bytes: 100 };
        for (entries, bytes, more, more_bytes, expected) in [
            (0, 0, 1, 1000, false),
            (0, 0, 9, 0, false),
            (1, 50, 1, 50, false),
            (1, 50, 1, 51, true),
            (3, 0, 1, 0, true),
            (2, 0, 1, 0, false),
            (1, 0, 3, 0, true),
            (1, u64::MAX, 1, u64::MAX, true),
        ] {
            let found = limits.closes_before(entries, bytes, more, more_bytes);
            assert_eq!(found, expected, "{entries} {bytes} {more} {more_bytes}");
        }
    }
}
