//! Pure functions from measurements to settings. A built-in value changes only after a clear win.

use std::time::Duration;

use crate::speed;

/// Times of two candidates for the same work, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) usual: Duration,
    pub(super) other: Duration,
}

impl Round {
    fn turned(self) -> Round {
        Round { usual: self.other, other: self.usual }
    }
}

/// Number of rounds of each comparison, interleaved with all others of its section.
pub(super) const ROUNDS: usize = 9;

/// Whether another round of a value may begin, given the duration of its last one: there must be time
/// left in the section, and all rounds of a value may take at most a third of it, so that every value
/// gets some. A value not measured yet has taken nothing.
pub(super) fn may_begin(took: Duration, left: Duration) -> bool {
    !left.is_zero() && took.saturating_mul(ROUNDS as u32) <= left.saturating_mul(3)
}

/// Returns the end of a section with this time limit, in a measurement that ends at `over`; both from
/// now.
pub(super) fn section(longest: Duration, over: Duration) -> Duration {
    longest.min(over)
}

/// Returns the other candidate's time as a share of the usual one's: the median over the rounds.
pub(super) fn ratio(rounds: &[Round]) -> Option<f64> {
    speed::median(&shares(rounds))
}

fn shares(rounds: &[Round]) -> Vec<f64> {
    let share = |round: &Round| round.other.as_secs_f64() / round.usual.as_secs_f64().max(1e-9);
    rounds.iter().map(share).collect()
}

fn clearly_wins(rounds: &[Round]) -> bool {
    speed::is_clearly_cheaper(&shares(rounds))
}

/// Returns the size from which on the other candidate is used, so far `built_in`. The sizes rise; each
/// has its rounds.
///
/// The threshold falls while the other candidate clearly wins at the next smaller size, or rises while
/// the usual one clearly wins at the next larger size. It stays within the measured sizes, also where
/// one candidate wins at the largest or smallest.
pub(super) fn crossover(built_in: u64, sizes: &[(u64, Vec<Round>)]) -> u64 {
    let below = sizes.iter().rev().filter(|(size, _)| *size < built_in);
    let fallen = below.take_while(|(_, rounds)| clearly_wins(rounds)).last();
    if let Some((size, _)) = fallen {
        return *size;
    }
    let turned = |rounds: &[Round]| -> Vec<Round> { rounds.iter().map(|r| r.turned()).collect() };
    let above: Vec<&(u64, Vec<Round>)> =
        sizes.iter().filter(|(size, _)| *size >= built_in).collect();
    let stays = above.iter().position(|(_, rounds)| !clearly_wins(&turned(rounds)));
    match stays.unwrap_or(above.len().saturating_sub(1)) {
        0 => built_in,
        place => above[place].0,
    }
}

/// Returns the best of several candidates, each measured against the built-in value: among those that
/// clearly win, the one that saves most.
pub(super) fn best(built_in: u64, candidates: &[(u64, Vec<Round>)]) -> u64 {
    candidates
        .iter()
        .filter(|(_, rounds)| clearly_wins(rounds))
        .filter_map(|(value, rounds)| Some((*value, ratio(rounds)?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map_or(built_in, |(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_begins_only_if_there_is_time_for_it() {
        let millis = Duration::from_millis;
        for (took, left, expected) in [
            (0, 9000, true),
            (0, 1, true),
            // Nothing begins when the time is up, measured before or not.
            (0, 0, false),
            (1, 0, false),
            (3000, 9000, true),
            (3001, 9000, false),
            (9000, 9000, false),
            (60_000, 9000, false),
            (1, 3, true),
            (1, 2, false),
        ] {
            assert_eq!(may_begin(millis(took), millis(left)), expected, "{took} of {left}");
        }
        assert!(!may_begin(Duration::MAX, millis(9000)));
    }

    #[test]
    fn no_section_outlasts_the_measurement() {
        let seconds = Duration::from_secs;
        for (longest, over, expected) in [(9, 50, 9), (12, 12, 12), (12, 3, 3), (12, 0, 0)] {
            assert_eq!(section(seconds(longest), seconds(over)), seconds(expected));
        }
    }

    /// Makes rounds from percentages: the other candidate's share of the usual one's time.
    fn rounds(percent: &[u64]) -> Vec<Round> {
        let round = |p: &u64| Round {
            usual: Duration::from_micros(1000),
            other: Duration::from_micros(p * 10),
        };
        percent.iter().map(round).collect()
    }

    const WINS: &[u64] = &[80, 85, 78, 90, 82];
    const LOSES: &[u64] = &[120, 130, 125, 118, 140];
    const EVEN: &[u64] = &[98, 103, 99, 101, 100];
    /// Some lucky rounds, and an inconclusive median.
    const NOISY: &[u64] = &[50, 160, 60, 140, 101];
    /// A good median, and too many rounds against it.
    const UNSTEADY: &[u64] = &[50, 60, 94, 130, 140];
    const FEW: &[u64] = &[50, 50];

    #[test]
    fn a_threshold_moves_as_far_as_a_way_clearly_wins() {
        // Sizes 16, 32, 64, 128, 256; built in is 64.
        let rows: [([&[u64]; 5], u64); 12] = [
            ([EVEN, EVEN, EVEN, EVEN, EVEN], 64),
            ([LOSES, LOSES, WINS, WINS, WINS], 64),
            ([LOSES, WINS, WINS, WINS, WINS], 32),
            ([WINS, WINS, WINS, WINS, WINS], 16),
            // Sizes beyond one without a clear win are irrelevant.
            ([WINS, EVEN, WINS, WINS, WINS], 64),
            ([LOSES, LOSES, LOSES, WINS, WINS], 128),
            ([LOSES, LOSES, LOSES, LOSES, WINS], 256),
            ([LOSES, LOSES, LOSES, LOSES, LOSES], 256),
            ([LOSES, LOSES, EVEN, LOSES, LOSES], 64),
            ([WINS, NOISY, NOISY, NOISY, WINS], 64),
            ([WINS, UNSTEADY, WINS, WINS, WINS], 64),
            ([FEW, FEW, FEW, FEW, FEW], 64),
        ];
        for (number, (percents, expected)) in rows.into_iter().enumerate() {
            let sizes: Vec<_> =
                [16, 32, 64, 128, 256].into_iter().zip(percents.map(rounds)).collect();
            assert_eq!(crossover(64, &sizes), expected, "row {number}");
        }
        assert_eq!(crossover(64, &[]), 64);
    }

    #[test]
    fn a_candidate_must_clearly_beat_what_is_built_in() {
        type Candidate = (u64, &'static [u64]);
        let rows: [(&[Candidate], u64); 6] = [
            (&[], 2),
            (&[(1, EVEN), (4, EVEN)], 2),
            (&[(1, WINS), (4, LOSES)], 1),
            (&[(1, WINS), (4, &[60, 61, 62])], 4),
            (&[(1, NOISY), (4, UNSTEADY)], 2),
            (&[(4, &[96, 96, 96, 96])], 2),
        ];
        for (candidates, expected) in rows {
            let candidates: Vec<_> =
                candidates.iter().map(|(value, percent)| (*value, rounds(percent))).collect();
            assert_eq!(best(2, &candidates), expected, "{candidates:?}");
        }
    }

    #[test]
    fn the_ratio_is_the_median() {
        assert_eq!(ratio(&rounds(&[50, 70, 300])), Some(0.7));
        assert_eq!(ratio(&[]), None);
        let still = Round { usual: Duration::ZERO, other: Duration::ZERO };
        assert_eq!(ratio(&[still]), Some(0.0));
    }
}
