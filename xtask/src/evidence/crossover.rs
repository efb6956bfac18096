//! Where one curve becomes the lower one: pure.

/// Points by ascending x; both coordinates above 0.
pub(super) type Curve = [(f64, f64)];

/// A change of order between two curves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Crossing {
    /// The last x at which both were measured before it, and the first after it.
    pub(super) between: (f64, f64),
    /// Where straight lines on logarithmic axes meet.
    pub(super) at: f64,
    /// From there on the first curve is the lower one.
    pub(super) first_is_lower: bool,
}

/// Where the order of two curves changes, at the x that both have. Points that are equal within
/// `band` change nothing.
pub(super) fn crossings(first: &Curve, second: &Curve, band: f64) -> Vec<Crossing> {
    let ratio = |(x, y): &(f64, f64)| {
        let other = second.iter().find(|(other, _)| other == x)?;
        Some((*x, (y / other.1).ln()))
    };
    let threshold = band.ln_1p();
    let clear = first.iter().filter_map(ratio).filter(|(_, ratio)| ratio.abs() > threshold);
    let clear: Vec<(f64, f64)> = clear.collect();
    let changes = clear.windows(2).filter(|pair| (pair[0].1 < 0.0) != (pair[1].1 < 0.0));
    changes
        .map(|pair| {
            let ((x0, r0), (x1, r1)) = (pair[0], pair[1]);
            let part = r0 / (r0 - r1);
            let at = (x0.ln() + part * (x1.ln() - x0.ln())).exp();
            Crossing { between: (x0, x1), at, first_is_lower: r1 < 0.0 }
        })
        .collect()
}

/// Whether the first is clearly lower wherever both are, or nowhere; none if it changes or is never
/// clear.
pub(super) fn always_lower(first: &Curve, second: &Curve, band: f64) -> Option<bool> {
    let clearly = |(x, y): &(f64, f64)| {
        let other = second.iter().find(|(other, _)| other == x)?.1;
        let ratio = y / other;
        (ratio.ln().abs() > band.ln_1p()).then_some(ratio < 1.0)
    };
    let mut verdicts = first.iter().filter_map(clearly);
    let one = verdicts.next()?;
    verdicts.all(|other| other == one).then_some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_that_cross_do_so_between_two_points() {
        let first = [(1.0, 4.0), (10.0, 4.0), (100.0, 4.0)];
        let second = [(1.0, 1.0), (10.0, 2.0), (100.0, 8.0)];
        let found = crossings(&first, &second, 0.03);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].between, (10.0, 100.0));
        assert!((found[0].at - 1000f64.sqrt()).abs() < 1e-6, "{found:?}");
        assert!(found[0].first_is_lower);
        let back = crossings(&second, &first, 0.03);
        assert!(!back[0].first_is_lower && back[0].between == (10.0, 100.0));
    }

    #[test]
    fn points_within_the_band_change_nothing() {
        let first = [(1.0, 1.0), (2.0, 1.02), (3.0, 1.0)];
        let second = [(1.0, 2.0), (2.0, 1.0), (3.0, 2.0)];
        assert_eq!(crossings(&first, &second, 0.03), []);
        assert_eq!(crossings(&first, &second, 0.01).len(), 2);
        assert_eq!(always_lower(&first, &second, 0.03), Some(true));
        assert_eq!(always_lower(&first, &second, 0.01), None);
    }

    #[test]
    fn only_what_both_have_is_compared() {
        let first = [(1.0, 1.0), (2.0, 9.0), (4.0, 1.0)];
        let second = [(1.0, 2.0), (3.0, 1.0), (4.0, 2.0)];
        assert_eq!(crossings(&first, &second, 0.03), []);
        assert_eq!(always_lower(&second, &first, 0.03), Some(false));
        assert_eq!(always_lower(&first, &[], 0.03), None);
        assert_eq!(crossings(&[], &second, 0.03), []);
    }
}
