//! Decides how much is moved at a time.

use std::time::Duration;

use uncopy_core::Mechanism;

/// Sizes the pieces by the clock, so that progress is seen and a wish to stop is heard.
pub(super) struct Pace {
    pub(super) piece_bytes: u64,
    is_from_peer: bool,
}

impl Pace {
    const FIRST_BYTES: u64 = 8 << 20;
    const MIN_BYTES: u64 = 256 << 10;
    const MAX_BYTES: u64 = 256 << 20;
    /// Maximum for copies through the page cache. The kernel may hold each write back while too many pages are dirty
    /// (`mm/page-writeback.c`, `balance_dirty_pages`): a piece that was to take 25 ms then takes twenty times as long, and
    /// no wish to stop is heard in it.
    const MAX_CACHED_BYTES: u64 = 16 << 20;
    /// No copy is as fast: blocks are shared. Bytes per microsecond.
    const SHARING_SPEED: u64 = 32 << 10;
    /// Time that a piece is to take.
    pub(super) const TARGET: Duration = Duration::from_millis(25);
    /// The same for pieces that begin and end with an idle device.
    const TARGET_OF_DIRECT: Duration = Duration::from_millis(50);
    /// A piece of another machine: each waits for its first byte to come all the way, and progress is seen, and a wish
    /// to stop heard, within it.
    const TARGET_FROM_PEER: Duration = Duration::from_secs(1);
    const FIRST_BYTES_FROM_PEER: u64 = 1 << 20;

    pub(super) fn new() -> Pace {
        Pace { piece_bytes: Pace::FIRST_BYTES, is_from_peer: false }
    }

    /// Makes it for bytes that come from another machine.
    pub(super) fn from_peer() -> Pace {
        Pace { piece_bytes: Pace::FIRST_BYTES_FROM_PEER, is_from_peer: true }
    }

    /// At most doubles and at most quarters the piece, towards one that takes its target.
    /// `parallel`: by two threads, which end a piece that takes too long themselves.
    pub(super) fn done(
        &mut self,
        mechanism: Mechanism,
        parallel: bool,
        bytes: u64,
        took: Duration,
    ) {
        let micros = took.as_micros().max(1);
        let (target, most) = match mechanism {
            _ if self.is_from_peer => (Pace::TARGET_FROM_PEER, Pace::MAX_BYTES),
            direct if direct.is_direct() => (Pace::TARGET_OF_DIRECT, Pace::MAX_BYTES),
            _ if parallel || u128::from(bytes) > micros * u128::from(Pace::SHARING_SPEED) => {
                (Pace::TARGET, Pace::MAX_BYTES)
            }
            _ => (Pace::TARGET, Pace::MAX_CACHED_BYTES),
        };
        if bytes < self.piece_bytes && took < target {
            return;
        }
        let ideal = u128::from(bytes) * target.as_micros() / micros;
        let ideal = u64::try_from(ideal).unwrap_or(u64::MAX);
        let limited = ideal.clamp(self.piece_bytes / 4, self.piece_bytes * 2);
        // Whole pages, as direct writes and sharing want them.
        self.piece_bytes = limited.clamp(Pace::MIN_BYTES, most) & !0xffff;
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::time::Duration;
    use uncopy_core::Mechanism::{CopyFileRange, Direct, ReadWrite};

    #[test]
    fn pieces_grow_and_shrink_towards_their_time() {
        let mut pace = Pace::new();
        let mut settled = |mechanism, parallel, bytes_per_microsecond| {
            for _ in 0..20 {
                let bytes = pace.piece_bytes;
                let took = Duration::from_micros(bytes / bytes_per_microsecond);
                pace.done(mechanism, parallel, bytes, took);
            }
            pace.piece_bytes
        };
        for (mechanism, parallel, bytes_per_microsecond, expected) in [
            (Direct, false, 2000, 90 << 20..110 << 20),
            (ReadWrite, false, 200, 4 << 20..6 << 20),
            // As it is from here on, a piece that the kernel holds back ends soon all the same.
            (ReadWrite, false, 2000, 16 << 20..(16 << 20) + 1),
            (ReadWrite, true, 4000, 90 << 20..110 << 20),
            (CopyFileRange, false, 6000, 16 << 20..(16 << 20) + 1),
            // It shares blocks.
            (CopyFileRange, false, 100_000, 256 << 20..(256 << 20) + 1),
            (Direct, false, 10, 400 << 10..600 << 10),
            (ReadWrite, false, 20, 400 << 10..600 << 10),
        ] {
            let bytes = settled(mechanism, parallel, bytes_per_microsecond);
            assert!(expected.contains(&bytes), "{mechanism:?}: {bytes}");
        }
        pace.done(ReadWrite, false, 10, Duration::from_secs(1));
        assert_eq!(pace.piece_bytes, Pace::MIN_BYTES);
    }

    /// A way of 100 ms there and back, and 100 MB a second: nine tenths of that are reached.
    #[test]
    fn pieces_of_another_machine_outweigh_the_way() {
        let mut pace = Pace::from_peer();
        for _ in 0..30 {
            let bytes = pace.piece_bytes;
            pace.done(
                ReadWrite,
                false,
                bytes,
                Duration::from_millis(100) + Duration::from_micros(bytes / 100),
            );
        }
        assert!((80 << 20..100 << 20).contains(&pace.piece_bytes), "{}", pace.piece_bytes);
    }
}
