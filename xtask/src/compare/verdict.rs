//! Medians, ratios and targets: pure.

use super::case::Role;
use super::metric::{Metric, WALL};
use super::rounds::{Outcome, name_again};

/// Something that is to be reached.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) subject: String,
    pub(super) metric: Metric,
    pub(super) against: Against,
    /// At most this: as a ratio, or in the metric's unit where nothing is set against it.
    pub(super) limit: f64,
    /// The part of the limit that allows for noise: 0.03 in "at most 1.03 times the best peer".
    pub(super) band: f64,
}

/// The figure's baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Against {
    /// The figure of this subject.
    Subject(String),
    /// The peer with the smallest median wall time in this case.
    BestPeer,
    /// The one of these subjects with the smallest median: a peer's ways.
    BestOf(Vec<String>),
    /// The one of these subjects whose second runs (named by [`name_again`]) have the smallest median: its first
    /// runs are the baseline, so that the luck that chose it is not in the figure. Its noise is its own.
    BestOfSecondRuns(Vec<String>),
    /// Nothing: the limit is absolute.
    Nothing,
}

/// Not more than `limit` times the other's figure.
pub(super) fn at_most(limit: f64, metric: Metric, subject: &str, against: &str) -> Target {
    let against = Against::Subject(against.to_owned());
    Target { subject: subject.to_owned(), metric, against, limit, band: 0.0 }
}

/// How a target came out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TargetVerdict {
    /// The subject it was set against, by name.
    pub(super) baseline: Option<String>,
    pub(super) value: f64,
    pub(super) ratio: Option<f64>,
    pub(super) met: bool,
    /// Part of the limit that was granted to noise. None: the limit is absolute.
    pub(super) noise: Option<f64>,
}

/// The middle one, or the mean of the two in the middle.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The median over the rounds.
pub(super) fn value(outcome: &Outcome, metric: Metric) -> Option<f64> {
    median(outcome.samples.iter().filter_map(|sample| sample.get(&metric).copied()))
}

/// The least and the most of several rounds.
pub(super) fn range(outcome: &Outcome, metric: Metric) -> Option<[f64; 2]> {
    let values: Vec<f64> = outcome.samples.iter().filter_map(|s| s.get(&metric).copied()).collect();
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    (values.len() > 1).then_some([least, most])
}

/// The median of the ratios of each round. None where the baseline is 0, or either was not
/// measured.
pub(super) fn ratio(outcome: &Outcome, baseline: &Outcome, metric: Metric) -> Option<f64> {
    median(ratios(outcome, baseline, metric)?)
}

fn ratios(outcome: &Outcome, baseline: &Outcome, metric: Metric) -> Option<Vec<f64>> {
    let pairs = outcome.samples.iter().zip(&baseline.samples);
    pairs
        .map(|(own, other)| {
            let (own, other) = (own.get(&metric)?, other.get(&metric)?);
            (*other > 0.0).then_some(own / other)
        })
        .collect()
}

/// The outcome of the subject `name`, if it came to the end.
pub(super) fn finished<'a>(outcomes: &'a [Outcome], name: &str) -> Option<&'a Outcome> {
    outcomes.iter().find(|outcome| outcome.subject == name && outcome.failure.is_none())
}

/// How far from 1 the ratio of the second run of `again` in each round to its first may be: the
/// noise of a ratio. The same thing is measured twice, so it is the far end of the interval that
/// holds the median of such ratios 95 times in 100 (McGill, Tukey and Larsen's notch: 1.57 times
/// the distance between the quartiles, divided by the root of the number of rounds).
pub(super) fn spread(outcomes: &[Outcome], again: &str, metric: Metric) -> f64 {
    let first = finished(outcomes, again);
    let second = finished(outcomes, &name_again(again));
    let ratios = first.zip(second).and_then(|(first, second)| ratios(second, first, metric));
    ratios.map_or(0.0, |ratios| noise(&ratios))
}

fn noise(ratios: &[f64]) -> f64 {
    let Some(middle) = median(ratios.iter().copied()) else { return 0.0 };
    let half = |keep: &dyn Fn(f64) -> bool| {
        median(ratios.iter().copied().filter(|ratio| keep(*ratio))).unwrap_or(middle)
    };
    let quartiles = half(&|ratio| ratio >= middle) - half(&|ratio| ratio <= middle);
    (middle - 1.0).abs() + 1.57 * quartiles / (ratios.len() as f64).sqrt()
}

/// Judges a target: met within the larger of its band and `spread`. None if a subject it names did
/// not come to the end.
pub(super) fn judge(target: &Target, outcomes: &[Outcome], spread: f64) -> Option<TargetVerdict> {
    let own = finished(outcomes, &target.subject)?;
    let value = value(own, target.metric)?;
    let (baseline, spread) = match &target.against {
        Against::Nothing => {
            let met = value <= target.limit;
            return Some(TargetVerdict { baseline: None, value, ratio: None, met, noise: None });
        }
        Against::Subject(name) => (finished(outcomes, name)?, spread),
        Against::BestPeer => (best_peer(outcomes)?, spread),
        Against::BestOf(names) => (best_of(outcomes, names, target.metric)?, spread),
        Against::BestOfSecondRuns(names) => {
            let best = best_of_second_runs(outcomes, names, target.metric)?;
            (best, self::spread(outcomes, &best.subject, target.metric))
        }
    };
    let noise = target.band.max(spread);
    let limit = target.limit / (1.0 + target.band) * (1.0 + noise);
    let ratio = ratio(own, baseline, target.metric)?;
    let baseline = Some(baseline.subject.clone());
    let met = ratio <= limit;
    Some(TargetVerdict { baseline, value, ratio: Some(ratio), met, noise: Some(noise) })
}

fn best_of_second_runs<'a>(
    outcomes: &'a [Outcome],
    names: &[String],
    metric: Metric,
) -> Option<&'a Outcome> {
    let second = |name: &String| value(finished(outcomes, &name_again(name))?, metric);
    let best = names
        .iter()
        .filter_map(|name| Some((second(name)?, name)))
        .min_by(|(a, _), (b, _)| a.total_cmp(b));
    finished(outcomes, best?.1)
}

fn best_peer(outcomes: &[Outcome]) -> Option<&Outcome> {
    let peers = outcomes.iter().filter(|outcome| outcome.role == Role::Peer);
    least(peers.filter(|outcome| outcome.failure.is_none()), WALL)
}

fn best_of<'a>(outcomes: &'a [Outcome], names: &[String], metric: Metric) -> Option<&'a Outcome> {
    least(names.iter().filter_map(|name| finished(outcomes, name)), metric)
}

fn least<'a>(outcomes: impl Iterator<Item = &'a Outcome>, metric: Metric) -> Option<&'a Outcome> {
    outcomes
        .filter_map(|outcome| Some((value(outcome, metric)?, outcome)))
        .min_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, outcome)| outcome)
}

#[cfg(test)]
mod tests {
    use super::super::metric::{CPU, PEAK_MEMORY, Sample};
    use super::*;

    fn outcome(subject: &str, role: Role, walls: &[f64]) -> Outcome {
        let samples = walls.iter().map(|&wall| Sample::from([(WALL, wall), (CPU, 0.0)])).collect();
        Outcome { subject: subject.into(), role, samples, failure: None }
    }

    fn target(against: Against, limit: f64, band: f64) -> Target {
        Target { subject: "own".into(), metric: WALL, against, limit, band }
    }

    #[test]
    fn medians() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_range_is_of_several_rounds() {
        assert_eq!(range(&outcome("own", Role::Own, &[3.0, 1.0, 2.0]), WALL), Some([1.0, 3.0]));
        assert_eq!(range(&outcome("own", Role::Own, &[3.0]), WALL), None);
        assert_eq!(range(&outcome("own", Role::Own, &[3.0, 1.0]), PEAK_MEMORY), None);
    }

    #[test]
    fn a_ratio_is_the_median_of_rounds_and_not_the_ratio_of_medians() {
        let own = outcome("own", Role::Own, &[1.0, 4.0, 9.0]);
        let peer = outcome("peer", Role::Peer, &[1.0, 8.0, 3.0]);
        assert_eq!(ratio(&own, &peer, WALL), Some(1.0));
        assert_eq!(value(&own, WALL), Some(4.0));
        assert_eq!(ratio(&own, &peer, CPU), None, "nothing can be set against 0");
    }

    #[test]
    fn the_best_peer_is_neither_ours_nor_a_yardstick_nor_one_that_failed() {
        let mut failed = outcome("failed", Role::Peer, &[0.1]);
        failed.failure = Some("no".into());
        let outcomes = [
            outcome("own", Role::Own, &[1.0]),
            outcome("bare", Role::Yardstick, &[0.5]),
            failed,
            outcome("slow", Role::Peer, &[3.0]),
            outcome("quick", Role::Peer, &[2.0]),
        ];
        let verdict = judge(&target(Against::BestPeer, 1.03, 0.03), &outcomes, 0.0).unwrap();
        assert_eq!(verdict.baseline.as_deref(), Some("quick"));
        assert_eq!(verdict.ratio, Some(0.5));
        assert!(verdict.met);
    }

    #[test]
    fn the_best_way_of_a_peer_is_the_one_with_the_smallest_median() {
        let outcomes = [
            outcome("own", Role::Own, &[1.0]),
            outcome("a", Role::Peer, &[4.0]),
            outcome("a, b", Role::Peer, &[2.0]),
            outcome("other", Role::Peer, &[0.5]),
        ];
        let names = ["a", "a, b", "absent"].map(str::to_owned).to_vec();
        let verdict = judge(&target(Against::BestOf(names), 0.4, 0.0), &outcomes, 0.0).unwrap();
        assert_eq!(verdict.baseline.as_deref(), Some("a, b"));
        assert!(!verdict.met);
    }

    #[test]
    fn the_best_mechanism_is_chosen_by_its_second_runs_and_compared_by_its_first() {
        let runs = [
            ("own", vec![2.0, 2.0, 2.0]),
            ("a", vec![1.0, 1.0, 1.0]),
            ("a (again)", vec![3.0, 3.0, 3.0]),
            ("b", vec![2.0, 1.9, 2.1]),
            ("b (again)", vec![1.9, 2.0, 2.0]),
            ("alone", vec![0.1, 0.1, 0.1]),
        ];
        let outcomes: Vec<Outcome> =
            runs.iter().map(|(name, walls)| outcome(name, Role::Own, walls)).collect();
        let names = ["a", "b", "alone"].map(str::to_owned).to_vec();
        let against = Against::BestOfSecondRuns(names);
        let verdict = judge(&target(against, 1.03, 0.03), &outcomes, 9.0).unwrap();
        assert_eq!(verdict.baseline.as_deref(), Some("b"));
        assert_eq!(verdict.ratio, Some(1.0));
        let expected = spread(&outcomes, "b", WALL);
        assert_eq!(verdict.noise, Some(expected.max(0.03)), "its own and not the case's");
    }

    #[test]
    fn a_target_is_met_within_the_larger_of_band_and_spread() {
        let against = || Against::Subject("peer".into());
        for (own, limit, band, spread, met) in [
            (1.02, 1.03, 0.03, 0.0, true),
            (1.02, 1.03, 0.03, 0.05, true),
            (1.04, 1.03, 0.03, 0.0, false),
            (1.04, 1.03, 0.03, 0.05, true),
            (1.06, 1.03, 0.03, 0.05, false),
            (1.01, 1.0, 0.0, 0.0, false),
            (1.01, 1.0, 0.0, 0.02, true),
        ] {
            let outcomes = [outcome("own", Role::Own, &[own]), outcome("peer", Role::Peer, &[1.0])];
            let verdict = judge(&target(against(), limit, band), &outcomes, spread).unwrap();
            assert_eq!(verdict.met, met, "{own} at most {limit} ± {band}, noise {spread}");
        }
    }

    #[test]
    fn an_absolute_limit_has_no_noise() {
        let outcomes = [outcome("own", Role::Own, &[2.0])];
        let judged = |limit| judge(&target(Against::Nothing, limit, 0.0), &outcomes, 9.0).unwrap();
        assert!(judged(2.0).met && !judged(1.9).met);
    }

    #[test]
    fn noise_is_the_second_run_against_the_first() {
        let outcomes = [
            outcome("cp", Role::Peer, &[1.0, 1.0, 1.0]),
            outcome("cp (again)", Role::Yardstick, &[0.9, 1.1, 0.95]),
        ];
        // The median is 0.95, the quartiles are 0.925 and 1.025.
        let expected = 0.05 + 1.57 * 0.1 / 3f64.sqrt();
        assert!((spread(&outcomes, "cp", WALL) - expected).abs() < 1e-9);
        assert_eq!(noise(&[1.0; 7]), 0.0);
        assert_eq!(spread(&outcomes, "xcp", WALL), 0.0);
    }

    #[test]
    fn a_target_on_a_subject_that_failed_is_not_judged() {
        let mut own = outcome("own", Role::Own, &[1.0]);
        own.failure = Some("no".into());
        assert_eq!(judge(&target(Against::Nothing, 1.0, 0.0), &[own], 0.0), None);
    }
}
