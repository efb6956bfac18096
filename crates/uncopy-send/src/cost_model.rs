//! A model of what sends of a size cost, copied and lent, measured from time to time. Pure.
//!
//! The size from which lending pays depends on the processor, the device, the allocator's sizes, and most
//! of all on whether the bytes are in a cache, which a program cannot find out. So it is measured: samples
//! of copied and of lent sends in turn, by the processor time that the thread spends on them.

use std::time::Duration;

/// Number of sends of a size before the first trial; a trial would not pay for fewer.
const FIRST_REST: u32 = 256;
/// Minimum number of sends in a sample: all lent, or all copied.
const SAMPLE_SENDS: u32 = 16;
/// Number of samples of each kind in a trial.
const ROUNDS: usize = 5;
/// Factor of a trial's sends after which it is repeated; the interval doubles each time.
const REST_OF_SENDS: u32 = 64;
const LONGEST_REST: u32 = 1 << 18;
/// Relative difference below which both kinds count as equal.
const AS_GOOD: f64 = 0.02;
/// Number of invalid samples after which a trial is given up.
const MAX_INVALID_SAMPLES: u32 = 16;

/// Size classes are quarters of a power of two, between these powers.
const SMALLEST_LOG: u32 = 10;
const LARGEST_LOG: u32 = 20;
const CLASSES: usize = ((LARGEST_LOG - SMALLEST_LOG) * 4 + 1) as usize;

/// A class of sizes that cost about the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeClass(u8);

impl SizeClass {
    pub(crate) fn of(bytes: usize) -> SizeClass {
        let bytes = bytes.clamp(1 << SMALLEST_LOG, 1 << LARGEST_LOG);
        let log = bytes.ilog2();
        let quarter = (bytes >> (log - 2)) & 3;
        SizeClass(((log - SMALLEST_LOG) * 4) as u8 + quarter as u8)
    }
}

/// The costs of sends on one path, by size class.
#[derive(Debug, Default)]
pub(crate) struct CostModel {
    /// Empty until the first question.
    classes: Vec<SizeClassState>,
}

/// The state of one size class.
#[derive(Debug, Clone, Copy)]
struct SizeClassState {
    lending_pays: Option<bool>,
    /// Number of sends until the next trial.
    left: u32,
    /// Interval between the last trial and the next.
    rest: u32,
    trial: Option<Trial>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Trial {
    /// Whether the current sample is of lent sends.
    lends: bool,
    sends: u32,
    spent: Duration,
    /// Cost of one copied send, from the sample before.
    copied: f64,
    /// Costs of lending relative to copying, one for each pair of samples.
    ratios: [f64; ROUNDS],
    round: usize,
    invalidated: u32,
    total: u32,
}

/// An answer of the cost model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CostChoice {
    pub(crate) lend: bool,
    /// Whether the cost of the send is measured.
    pub(crate) is_sampled: bool,
}

impl CostModel {
    /// Decides whether to lend the next send of this class; `presumed` is used until a trial was made.
    pub(crate) fn choose(&mut self, class: SizeClass, presumed: bool) -> CostChoice {
        if self.classes.is_empty() {
            let unknown = SizeClassState {
                lending_pays: None,
                left: FIRST_REST,
                rest: FIRST_REST,
                trial: None,
            };
            self.classes = vec![unknown; CLASSES];
        }
        let known = &mut self.classes[usize::from(class.0)];
        if known.left > 0 {
            known.left -= 1;
            return CostChoice { lend: known.lending_pays.unwrap_or(presumed), is_sampled: false };
        }
        let trial = known.trial.get_or_insert_default();
        trial.sends += 1;
        trial.total += 1;
        CostChoice { lend: trial.lends, is_sampled: true }
    }

    /// Adds processor time spent on measured sends of this class.
    pub(crate) fn add_cost(&mut self, class: SizeClass, time: Duration) {
        if let Some(trial) = self.trial(class) {
            trial.spent += time;
        }
    }

    /// Returns whether the current sample has enough sends.
    pub(crate) fn is_sample_complete(&self, class: SizeClass) -> bool {
        let known = self.classes.get(usize::from(class.0));
        known.and_then(|known| known.trial).is_some_and(|trial| trial.sends >= SAMPLE_SENDS)
    }

    /// Evaluates the current sample and begins the next.
    pub(crate) fn finish_sample(&mut self, class: SizeClass) {
        let Some(trial) = self.trial(class) else { return };
        let cost = trial.spent.as_nanos() as f64 / f64::from(trial.sends.max(1));
        if trial.lends {
            trial.ratios[trial.round] = cost / trial.copied.max(1.0);
            trial.round += 1;
        } else {
            trial.copied = cost;
        }
        (trial.lends, trial.sends, trial.spent) = (!trial.lends, 0, Duration::ZERO);
        if trial.round == ROUNDS {
            let mut ratios = trial.ratios;
            ratios.sort_by(f64::total_cmp);
            self.decide(class, Some(ratios[ROUNDS / 2]));
        }
    }

    /// Restarts the current sample: other sends were measured with it.
    pub(crate) fn invalidate_sample(&mut self, class: SizeClass) {
        let Some(trial) = self.trial(class) else { return };
        (trial.sends, trial.spent) = (0, Duration::ZERO);
        trial.invalidated += 1;
        if trial.invalidated > MAX_INVALID_SAMPLES {
            self.decide(class, None);
        }
    }

    fn trial(&mut self, class: SizeClass) -> Option<&mut Trial> {
        self.classes.get_mut(usize::from(class.0))?.trial.as_mut()
    }

    /// Ends the trial, with a result or without.
    fn decide(&mut self, class: SizeClass, ratio: Option<f64>) {
        let known = &mut self.classes[usize::from(class.0)];
        let Some(trial) = known.trial.take() else { return };
        match ratio {
            Some(ratio) if ratio < 1.0 - AS_GOOD => known.lending_pays = Some(true),
            Some(ratio) if ratio > 1.0 + AS_GOOD => known.lending_pays = Some(false),
            _ => {}
        }
        let min_rest = trial.total.saturating_mul(REST_OF_SENDS);
        known.rest = known.rest.saturating_mul(2).max(min_rest).min(LONGEST_REST);
        known.left = known.rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes `sends` sends that cost as given; returns the number that were lent.
    fn run(
        cost_model: &mut CostModel,
        class: SizeClass,
        sends: u32,
        cost: impl Fn(bool) -> u64,
    ) -> u32 {
        let mut lent = 0;
        for _ in 0..sends {
            let CostChoice { lend, is_sampled } = cost_model.choose(class, true);
            lent += u32::from(lend);
            if is_sampled {
                cost_model.add_cost(class, Duration::from_nanos(cost(lend)));
                if cost_model.is_sample_complete(class) {
                    cost_model.finish_sample(class);
                }
            }
        }
        lent
    }

    const TRIAL: u32 = 2 * ROUNDS as u32 * SAMPLE_SENDS;
    const SECOND_REST: u32 = TRIAL * REST_OF_SENDS;

    #[test]
    fn size_classes_are_quarters_of_a_power_of_two() {
        for (bytes, class) in [
            (0, 0),
            (1024, 0),
            (1279, 0),
            (1280, 1),
            (2047, 3),
            (2048, 4),
            (64_000, 23),
            (65_536, 24),
            (1 << 20, 40),
            (usize::MAX, 40),
        ] {
            assert_eq!(SizeClass::of(bytes), SizeClass(class), "{bytes}");
        }
        assert_eq!(CLASSES, 41);
    }

    #[test]
    fn the_cheaper_kind_is_chosen() {
        for (copied, lent, pays) in
            [(1000, 700, true), (1000, 970, true), (1000, 1030, false), (1000, 3000, false)]
        {
            let mut cost_model = CostModel::default();
            let class = SizeClass::of(40_000);
            let cost = |lend| if lend { lent } else { copied };
            assert_eq!(run(&mut cost_model, class, FIRST_REST, cost), FIRST_REST, "as presumed");
            assert_eq!(run(&mut cost_model, class, TRIAL, cost), TRIAL / 2);
            let sends = run(&mut cost_model, class, SECOND_REST, cost);
            assert_eq!(sends, if pays { SECOND_REST } else { 0 }, "{copied} {lent}");
        }
    }

    #[test]
    fn an_equal_cost_changes_nothing() {
        let mut cost_model = CostModel::default();
        let class = SizeClass::of(40_000);
        let cost = |lend| if lend { 1010 } else { 1000 };
        run(&mut cost_model, class, FIRST_REST + TRIAL, cost);
        assert_eq!(run(&mut cost_model, class, SECOND_REST, cost), SECOND_REST, "as presumed");
    }

    #[test]
    fn a_changed_cost_is_noticed() {
        let mut cost_model = CostModel::default();
        let class = SizeClass::of(40_000);
        run(&mut cost_model, class, FIRST_REST + TRIAL, |lend| if lend { 2000 } else { 1000 });
        let changed = |lend| if lend { 500 } else { 1000 };
        assert_eq!(run(&mut cost_model, class, SECOND_REST, changed), 0);
        assert_eq!(run(&mut cost_model, class, TRIAL, changed), TRIAL / 2);
        assert_eq!(run(&mut cost_model, class, 1000, changed), 1000);
    }

    #[test]
    fn trials_cost_little() {
        let mut cost_model = CostModel::default();
        let class = SizeClass::of(40_000);
        let lent = run(&mut cost_model, class, 1_000_000, |lend| if lend { 1500 } else { 1000 });
        assert!(lent - FIRST_REST < 1000, "{lent}");
    }

    #[test]
    fn a_few_delayed_sends_do_not_decide() {
        let mut cost_model = CostModel::default();
        let class = SizeClass::of(40_000);
        let count = std::cell::Cell::new(0);
        run(&mut cost_model, class, FIRST_REST + TRIAL, |lend| {
            count.set(count.get() + 1);
            if (20..60).contains(&count.get()) {
                1_000_000
            } else if lend {
                700
            } else {
                1000
            }
        });
        assert_eq!(run(&mut cost_model, class, 100, |_| 0), 100);
    }

    #[test]
    fn a_trial_whose_samples_are_always_invalid_is_given_up() {
        let mut cost_model = CostModel::default();
        let class = SizeClass::of(40_000);
        run(&mut cost_model, class, FIRST_REST, |_| 0);
        for _ in 0..=MAX_INVALID_SAMPLES {
            assert!(cost_model.choose(class, true).is_sampled);
            cost_model.invalidate_sample(class);
        }
        assert_eq!(cost_model.choose(class, true), CostChoice { lend: true, is_sampled: false });
        assert_eq!(cost_model.choose(class, false), CostChoice { lend: false, is_sampled: false });
    }

    #[test]
    fn size_classes_have_separate_costs() {
        let mut cost_model = CostModel::default();
        let (large, larger) = (SizeClass::of(40_000), SizeClass::of(64_000));
        run(&mut cost_model, large, FIRST_REST + TRIAL, |lend| if lend { 2000 } else { 1000 });
        run(&mut cost_model, larger, FIRST_REST + TRIAL, |lend| if lend { 500 } else { 1000 });
        assert_eq!(run(&mut cost_model, large, 100, |_| 0), 0);
        assert_eq!(run(&mut cost_model, larger, 100, |_| 0), 100);
    }
}
