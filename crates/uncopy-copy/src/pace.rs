//! Decides how much is moved at a time.

use std::time::Duration;

/// Sizes the pieces by the clock, so that progress is seen and a wish to stop is heard.
pub(super) struct Pace {
    pub(super) piece_bytes: u64,
}

impl Pace {
    const FIRST_BYTES: u64 = 8 << 20;
    const MIN_BYTES: u64 = 256 << 10;
    const MAX_BYTES: u64 = 256 << 20;
    const TARGET: Duration = Duration::from_millis(50);

    pub(super) fn new() -> Pace {
        Pace { piece_bytes: Pace::FIRST_BYTES }
    }

    /// At most doubles and at most quarters the piece, towards one that takes [`Pace::TARGET`].
    pub(super) fn done(&mut self, bytes: u64, took: Duration) {
        if bytes < self.piece_bytes && took < Pace::TARGET {
            return;
        }
        let micros = took.as_micros().max(1);
        let ideal = u128::from(bytes) * Pace::TARGET.as_micros() / micros;
        let ideal = u64::try_from(ideal).unwrap_or(u64::MAX);
        let limited = ideal.clamp(self.piece_bytes / 4, self.piece_bytes * 2);
        // Whole pages, as direct writes and sharing want them.
        self.piece_bytes = limited.clamp(Pace::MIN_BYTES, Pace::MAX_BYTES) & !0xffff;
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::time::Duration;

    #[test]
    fn pieces_grow_and_shrink_towards_their_time() {
        let mut pace = Pace::new();
        for _ in 0..20 {
            let bytes = pace.piece_bytes;
            pace.done(bytes, Duration::from_micros(bytes / 2000));
        }
        assert!((90 << 20..110 << 20).contains(&pace.piece_bytes), "{}", pace.piece_bytes);
        for _ in 0..20 {
            let bytes = pace.piece_bytes;
            pace.done(bytes, Duration::from_micros(bytes / 10));
        }
        assert!((400 << 10..600 << 10).contains(&pace.piece_bytes), "{}", pace.piece_bytes);
        pace.done(10, Duration::from_secs(1));
        assert_eq!(pace.piece_bytes, Pace::MIN_BYTES);
    }
}
