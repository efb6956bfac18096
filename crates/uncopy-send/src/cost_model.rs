//! What sends of a size cost, copied and lent, tried now and then. Pure.
//!
//! Where lending begins to pay depends on the processor, the device, the allocator's sizes, and most
//! of all on whether the bytes are in a cache, which nobody tells. So it is measured: some sends one
//! way, as many the other, in turn, by the processor time that the thread spends on them.

use std::time::Duration;

/// Sends of a size before the first trial: who sends less has nothing to gain.
const FIRST_REST: u32 = 256;
/// Sends of one way in a row, at least.
const SAMPLE_SENDS: u32 = 16;
/// Bursts of each way.
const ROUNDS: usize = 5;
/// A trial comes again after this many times its sends, then twice as many, and so on.
const REST_OF_SENDS: u32 = 64;
const LONGEST_REST: u32 = 1 << 18;
/// What is within this of the price of the other way is as good.
const AS_GOOD: f64 = 0.02;
/// Bursts that other sends may spoil before a trial is given up.
const MAX_INVALID_SAMPLES: u32 = 16;

/// Sizes are told apart by quarters of a power of two, between these powers.
const SMALLEST_LOG: u32 = 10;
const LARGEST_LOG: u32 = 20;
const CLASSES: usize = ((LARGEST_LOG - SMALLEST_LOG) * 4 + 1) as usize;

/// Sizes that cost alike.
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

/// What is known of the prices on one path.
#[derive(Debug, Default)]
pub(crate) struct CostModel {
    /// Empty until something is asked.
    classes: Vec<SizeClassState>,
}

/// Of one class.
#[derive(Debug, Clone, Copy)]
struct SizeClassState {
    lending_pays: Option<bool>,
    /// Sends until the next trial, and before that one.
    left: u32,
    rest: u32,
    trial: Option<Trial>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Trial {
    /// The burst is of lent sends.
    lends: bool,
    sends: u32,
    spent: Duration,
    /// Of one send of the burst before, which was copied.
    copied: f64,
    /// CostModel of lending in prices of copying.
    ratios: [f64; ROUNDS],
    round: usize,
    invalidated: u32,
    total: u32,
}

/// How to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CostChoice {
    pub(crate) lend: bool,
    /// What it costs is to be told.
    pub(crate) is_sampled: bool,
}

impl CostModel {
    /// Whether to lend the next send of this class; `presumed`: as long as nothing is known.
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

    /// So much was spent on timed sends of this class.
    pub(crate) fn add_cost(&mut self, class: SizeClass, time: Duration) {
        if let Some(trial) = self.trial(class) {
            trial.spent += time;
        }
    }

    /// Enough was sent one way.
    pub(crate) fn is_sample_complete(&self, class: SizeClass) -> bool {
        let known = self.classes.get(usize::from(class.0));
        known.and_then(|known| known.trial).is_some_and(|trial| trial.sends >= SAMPLE_SENDS)
    }

    /// Takes the price of a burst that is over.
    pub(crate) fn finish_sample(&mut self, class: SizeClass) {
        let Some(trial) = self.trial(class) else { return };
        let price = trial.spent.as_nanos() as f64 / f64::from(trial.sends.max(1));
        if trial.lends {
            trial.ratios[trial.round] = price / trial.copied.max(1.0);
            trial.round += 1;
        } else {
            trial.copied = price;
        }
        (trial.lends, trial.sends, trial.spent) = (!trial.lends, 0, Duration::ZERO);
        if trial.round == ROUNDS {
            let mut ratios = trial.ratios;
            ratios.sort_by(f64::total_cmp);
            self.decide(class, Some(ratios[ROUNDS / 2]));
        }
    }

    /// Something else was sent with a burst: it begins again.
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

    /// The trial is over, with a result or none.
    fn decide(&mut self, class: SizeClass, ratio: Option<f64>) {
        let known = &mut self.classes[usize::from(class.0)];
        let Some(trial) = known.trial.take() else { return };
        match ratio {
            Some(ratio) if ratio < 1.0 - AS_GOOD => known.lending_pays = Some(true),
            Some(ratio) if ratio > 1.0 + AS_GOOD => known.lending_pays = Some(false),
            _ => {}
        }
        let least = trial.total.saturating_mul(REST_OF_SENDS);
        known.rest = known.rest.saturating_mul(2).max(least).min(LONGEST_REST);
        known.left = known.rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends so many of a class of which copies and lent sends cost this; how many were lent.
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
    fn sizes_are_told_apart_by_quarters_of_a_power_of_two() {
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
    fn the_cheaper_way_is_taken() {
        for (copied, lent, pays) in
            [(1000, 700, true), (1000, 970, true), (1000, 1030, false), (1000, 3000, false)]
        {
            let mut cost_model = CostModel::default();
            let class = SizeClass::of(40_000);
            let price = |lend| if lend { lent } else { copied };
            assert_eq!(run(&mut cost_model, class, FIRST_REST, price), FIRST_REST, "as presumed");
            assert_eq!(run(&mut cost_model, class, TRIAL, price), TRIAL / 2);
            let sends = run(&mut cost_model, class, SECOND_REST, price);
            assert_eq!(sends, if pays { SECOND_REST } else { 0 }, "{copied} {lent}");
        }
    }

    #[test]
    fn what_is_as_good_stays() {
        let mut cost_model = CostModel::default();
        let class = SizeClass::of(40_000);
        let price = |lend| if lend { 1010 } else { 1000 };
        run(&mut cost_model, class, FIRST_REST + TRIAL, price);
        assert_eq!(run(&mut cost_model, class, SECOND_REST, price), SECOND_REST, "as presumed");
    }

    #[test]
    fn a_price_that_changes_is_noticed() {
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
    fn one_burst_that_was_held_up_decides_nothing() {
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
    fn a_trial_that_is_spoilt_each_time_is_given_up() {
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
    fn classes_have_prices_of_their_own() {
        let mut cost_model = CostModel::default();
        let (large, larger) = (SizeClass::of(40_000), SizeClass::of(64_000));
        run(&mut cost_model, large, FIRST_REST + TRIAL, |lend| if lend { 2000 } else { 1000 });
        run(&mut cost_model, larger, FIRST_REST + TRIAL, |lend| if lend { 500 } else { 1000 });
        assert_eq!(run(&mut cost_model, large, 100, |_| 0), 0);
        assert_eq!(run(&mut cost_model, larger, 100, |_| 0), 100);
    }
}
