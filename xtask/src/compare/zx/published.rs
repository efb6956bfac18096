//! Figures that others have published, in nanoseconds.

/// RFC-0010, "Performance": byte vector events on its prototype. Contents in bytes, before and
/// after.
const VECTORS: [(usize, f64, f64); 2] = [(4096, 9398.0, 4495.0), (256, 8788.0, 3794.0)];

/// The kernel's microbenchmark of `zx_channel_write_etc` with `ZX_CHANNEL_WRITE_USE_IOVEC`: bytes,
/// and the time with each of [`COUNTS`] regions.
const IOVECS: [(usize, [f64; 4]); 3] = [
    (64, [380.0, 1109.0, 2278.0, 3916.0]),
    (1024, [410.0, 1120.0, 2303.0, 3935.0]),
    (65_536, [4105.0, 5086.0, 5963.0, 7616.0]),
];

/// Regions of a message there.
pub(super) const COUNTS: [usize; 4] = [1, 16, 32, 64];

/// A byte vector of so many bytes, linear and in iovecs.
pub(super) fn vector(contents: usize) -> Option<(f64, f64)> {
    VECTORS.into_iter().find(|row| row.0 == contents).map(|(_, before, after)| (before, after))
}

/// A message of so many bytes in so many regions.
pub(super) fn iovecs(bytes: usize, regions: usize) -> Option<f64> {
    let column = COUNTS.iter().position(|count| *count == regions)?;
    IOVECS.iter().find(|row| row.0 == bytes).map(|row| row.1[column])
}

#[cfg(test)]
mod tests {
    use super::{iovecs, vector};

    #[test]
    fn figures_are_found_by_their_sizes() {
        assert_eq!(vector(256), Some((8788.0, 3794.0)));
        assert_eq!(vector(4096), Some((9398.0, 4495.0)));
        assert_eq!(vector(65_504), None);
        assert_eq!(iovecs(64, 1), Some(380.0));
        assert_eq!(iovecs(65_536, 64), Some(7616.0));
        assert_eq!(iovecs(64, 2), None);
    }
}
