//! Compares measured costs: the one margin by which a mechanism, or a setting, must be cheaper than the usual one.
//! Pure.

/// Maximum share of the usual cost, by the median of the measurements.
const CLEARLY: f64 = 0.95;

/// Minimum share of the measurements that must be below the usual cost.
const MOSTLY: f64 = 0.75;

/// Minimum number of measurements for a conclusion.
pub(crate) const MIN_MEASUREMENTS: usize = 3;

/// Whether something is cheaper beyond noise than what is usually done. Each number is one measurement, as its share
/// of the usual cost.
pub(crate) fn is_clearly_cheaper(shares: &[f64]) -> bool {
    let wins = shares.iter().filter(|share| **share < 1.0).count();
    shares.len() >= MIN_MEASUREMENTS
        && median(shares).is_some_and(|share| share <= CLEARLY)
        && wins as f64 >= shares.len() as f64 * MOSTLY
}

/// Returns the median, the upper one of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clear_win_is_by_five_percent_and_in_most_measurements() {
        let rows: [(&[f64], bool); 9] = [
            (&[0.8, 0.85, 0.78, 0.9, 0.82], true),
            (&[0.95; 3], true),
            (&[0.96; 9], false),
            (&[1.2, 1.3, 1.25], false),
            // Some lucky measurements, and an inconclusive median.
            (&[0.5, 1.6, 0.6, 1.4, 1.01], false),
            // A good median, and too many against it.
            (&[0.5, 0.6, 0.94, 1.3, 1.4], false),
            // One disturbed measurement of four.
            (&[0.7, 0.7, 0.7, 9.0], true),
            (&[0.5, 0.5], false),
            (&[], false),
        ];
        for (shares, expected) in rows {
            assert_eq!(is_clearly_cheaper(shares), expected, "{shares:?}");
        }
    }

    #[test]
    fn medians() {
        for (values, expected) in
            [(&[][..], None), (&[3.0, 1.0, 2.0], Some(2.0)), (&[1.0, 2.0], Some(2.0))]
        {
            assert_eq!(median(values), expected);
        }
    }
}
