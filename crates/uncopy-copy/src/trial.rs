//! Races mechanisms on a large file: the cheapest one differs between processors, kernels and the sources' pages, so
//! each candidate moves some megabytes, and the best moves the rest.

use std::time::Duration;

use super::options::{Allow, Prefer};
use super::plan::{self, CopyFacts, PARALLEL_TRIAL_MIN_BYTES};
use super::speed::{self, MIN_MEASUREMENTS};
use uncopy_core::{Mechanism, Refusal, RefusalReason};

/// Minimum size: below it the trial would cost more than it can gain.
const MIN_BYTES: u64 = 64 << 20;

/// Bytes of one probe.
const PROBE_BYTES: u64 = 2 << 20;

/// Bytes of one probe by two threads: each probe starts the second thread again, which takes as long as
/// moving some megabytes.
const PARALLEL_PROBE_BYTES: u64 = 32 << 20;

/// Price of two threads, as a factor of their time: they occupy a second processor.
const PARALLEL_PRICE: f64 = 1.2;

/// Race between mechanisms that all work here.
#[derive(Debug)]
pub(crate) struct Trial {
    /// In the order of the plan: each must be clearly cheaper than the best before it.
    entrants: Vec<Entrant>,
    cost: TrialCost,
}

/// Cost that a trial compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrialCost {
    WallTime,
    /// Processor time of the thread that moves the bytes.
    CpuTime,
}

#[derive(Debug)]
struct Entrant {
    way: TrialCandidate,
    /// Seconds for a byte, one number for each probe.
    costs: Vec<f64>,
}

/// Candidate: a mechanism, with one thread or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrialCandidate {
    pub(crate) mechanism: Mechanism,
    /// Whether two threads move the bytes.
    pub(crate) parallel: bool,
}

impl TrialCandidate {
    pub(crate) fn probe_bytes(self) -> u64 {
        if self.parallel { PARALLEL_PROBE_BYTES } else { PROBE_BYTES }
    }

    fn price(self) -> f64 {
        if self.parallel { PARALLEL_PRICE } else { 1.0 }
    }
}

impl Entrant {
    fn new(mechanism: Mechanism, parallel: bool) -> Entrant {
        Entrant { way: TrialCandidate { mechanism, parallel }, costs: Vec::new() }
    }

    /// Whether it is clearly cheaper than `other`, probe by probe.
    fn beats(&self, other: &Entrant) -> bool {
        let pairs = self.costs.iter().zip(&other.costs);
        let price = self.way.price() / other.way.price();
        let shares: Vec<f64> = pairs.map(|(own, other)| price * own / other.max(1e-18)).collect();
        speed::is_clearly_cheaper(&shares)
    }

    /// Returns the bytes per second of the median probe, rounded to 100 MB/s, so that similar files of a job share
    /// one reason.
    fn speed(&self) -> u64 {
        const UNIT: u64 = 100_000_000;
        let cost = speed::median(&self.costs).unwrap_or(f64::INFINITY).max(1e-12);
        (1.0 / cost / UNIT as f64).round() as u64 * UNIT
    }
}

impl Trial {
    /// Makes a trial between `candidates`, in the order of the plan, if this copy is worth one. Where a second
    /// thread is available, mechanisms that gain from it also run with two; `has_thread` is called only if it
    /// matters.
    pub(crate) fn new(
        facts: &CopyFacts,
        candidates: &[Mechanism],
        has_thread: impl Fn() -> bool,
    ) -> Option<Trial> {
        let is_from = |min| facts.size.is_some_and(|size| size >= min);
        let worth_it = facts.allow == Allow::Any && is_from(MIN_BYTES) && candidates.len() > 1;
        let parallel = candidates.iter().copied().filter(|mechanism| {
            is_from(PARALLEL_TRIAL_MIN_BYTES)
                && plan::gains_by_ranges(facts, *mechanism, PARALLEL_PROBE_BYTES)
                && has_thread()
        });
        let serial = candidates.iter().map(|mechanism| Entrant::new(*mechanism, false));
        let entrants = serial.chain(parallel.map(|mechanism| Entrant::new(mechanism, true)));
        let cost = match facts.prefer {
            Prefer::WallTime => TrialCost::WallTime,
            Prefer::CpuTime => TrialCost::CpuTime,
        };
        worth_it.then(|| Trial { entrants: entrants.collect(), cost })
    }

    pub(crate) fn cost(&self) -> TrialCost {
        self.cost
    }

    /// Returns the candidate of the next probe. `None`: all have had their probes.
    pub(crate) fn turn(&self) -> Option<TrialCandidate> {
        let waiting = self.entrants.iter().filter(|e| e.costs.len() < MIN_MEASUREMENTS);
        waiting.min_by_key(|e| e.costs.len()).map(|e| e.way)
    }

    /// Records a probe of the current candidate. The tail of an extent is too short to count; extents
    /// too short for two threads remove those candidates, since the race would not end otherwise.
    pub(crate) fn record(&mut self, way: TrialCandidate, bytes: u64, took: Duration) {
        if bytes < way.probe_bytes() / 2 {
            self.entrants.retain(|e| e.way != way || !way.parallel);
        } else if let Some(entrant) = self.entrants.iter_mut().find(|e| e.way == way) {
            entrant.costs.push(took.as_secs_f64() / bytes as f64);
        }
    }

    /// Removes a mechanism that does not work here.
    pub(crate) fn retire(&mut self, mechanism: Mechanism) {
        self.entrants.retain(|e| e.way.mechanism != mechanism);
    }

    /// Returns the winner, with refusals of the mechanisms that touch the bytes less and were slower.
    pub(crate) fn verdict(&self) -> Option<(Mechanism, Vec<Refusal>)> {
        let mut entrants = self.entrants.iter();
        let first = entrants.next()?;
        let winner =
            entrants.fold(first, |best, entrant| if entrant.beats(best) { entrant } else { best });
        let (best, best_speed) = (winner.way.mechanism, winner.speed());
        let refusal = |entrant: &Entrant| {
            let speed = entrant.speed();
            let parallel = winner.way.parallel;
            let reason = match self.cost {
                TrialCost::WallTime => {
                    RefusalReason::SlowerInTrial { speed, best_speed, best, parallel }
                }
                TrialCost::CpuTime => RefusalReason::CostlierInTrial { best },
            };
            let mechanism = entrant.way.mechanism;
            (mechanism < best && speed < best_speed).then_some(Refusal {
                mechanism,
                reason,
                errno: None,
            })
        };
        Some((best, self.entrants.iter().filter_map(refusal).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mechanism::{CopyFileRange, ReadWrite, Splice};

    fn trial() -> Trial {
        let serial = [CopyFileRange, Splice, ReadWrite].map(|mechanism| (mechanism, false));
        let all = serial.into_iter().chain([(ReadWrite, true)]);
        Trial {
            entrants: all.map(|(mechanism, parallel)| Entrant::new(mechanism, parallel)).collect(),
            cost: TrialCost::WallTime,
        }
    }

    /// Runs a trial, given the time for 2 MiB by one thread and by two.
    fn run(trial: &mut Trial, micros: impl Fn(TrialCandidate, usize) -> u64) {
        for round in 0.. {
            let Some(way) = trial.turn() else { return };
            let took = micros(way, round) * way.probe_bytes() / PROBE_BYTES;
            trial.record(way, way.probe_bytes(), Duration::from_micros(took));
        }
    }

    #[test]
    fn the_quickest_wins_and_the_others_say_by_how_much() {
        let mut trial = trial();
        run(&mut trial, |way, _| if way.mechanism == ReadWrite { 200 } else { 400 });
        let (winner, refusals) = trial.verdict().unwrap();
        assert_eq!(winner, ReadWrite);
        assert_eq!(refusals.len(), 2);
        let expected = "slower in a trial on this file: 5.2 against 10.5 GB/s by read_write";
        assert_eq!(refusals[0].reason.to_string(), expected);
    }

    #[test]
    fn a_way_that_touches_less_wins_a_close_race() {
        let mut trial = trial();
        run(&mut trial, |way, _| if way.mechanism == ReadWrite { 100 } else { 104 });
        assert_eq!(trial.verdict().unwrap().0, CopyFileRange);
    }

    #[test]
    fn one_disturbed_probe_does_not_lose_the_race() {
        let mut trial = trial();
        run(&mut trial, |way, round| match (way.mechanism, round) {
            (CopyFileRange, 0..4) => 50_000,
            (CopyFileRange, _) => 100,
            _ => 150,
        });
        assert_eq!(trial.verdict().unwrap().0, CopyFileRange);
    }

    #[test]
    fn a_mechanism_that_fails_leaves_the_race() {
        let mut trial = trial();
        let first = TrialCandidate { mechanism: CopyFileRange, parallel: false };
        trial.record(first, 10, Duration::from_micros(1));
        assert_eq!(trial.turn(), Some(first), "a tail is no probe");
        trial.retire(CopyFileRange);
        run(&mut trial, |_, _| 100);
        assert_eq!(trial.verdict().unwrap(), (Splice, vec![]));
    }

    #[test]
    fn two_threads_leave_the_race_where_there_is_no_room_for_them() {
        let mut trial = trial();
        let parallel = TrialCandidate { mechanism: ReadWrite, parallel: true };
        for _ in 0..=3 * MIN_MEASUREMENTS {
            let Some(way) = trial.turn() else { break };
            let bytes = way.probe_bytes().min(8 << 20);
            trial.record(way, bytes, Duration::from_micros(if way == parallel { 1 } else { 100 }));
        }
        assert_eq!(trial.turn(), None);
        assert_eq!(trial.verdict().unwrap().0, CopyFileRange);
    }

    #[test]
    fn two_threads_win_if_they_are_clearly_quicker() {
        for (serial, parallel, winner) in
            [(200, 190, Splice), (200, 170, Splice), (200, 150, ReadWrite), (90, 90, ReadWrite)]
        {
            let mut trial = trial();
            run(&mut trial, |way, _| match (way.mechanism, way.parallel) {
                (ReadWrite, true) => parallel,
                (ReadWrite, false) => serial,
                (Splice, _) => 195,
                _ => 300,
            });
            assert_eq!(trial.verdict().unwrap().0, winner, "{serial} {parallel}");
        }
        let mut trial = trial();
        run(&mut trial, |way, _| if way.parallel { 100 } else { 200 });
        let expected =
            "slower in a trial on this file: 10.5 against 21.0 GB/s by read_write with two threads";
        assert_eq!(trial.verdict().unwrap().1[0].reason.to_string(), expected);
    }

    #[test]
    fn two_threads_are_tried_on_large_files_if_available() {
        use uncopy_os::capabilities::Filesystem;
        let ways = [Splice, ReadWrite];
        for (size, has_thread, destination, entrants) in [
            (PARALLEL_TRIAL_MIN_BYTES, true, Filesystem::EXT4, 3),
            (PARALLEL_TRIAL_MIN_BYTES - 1, true, Filesystem::EXT4, 2),
            (PARALLEL_TRIAL_MIN_BYTES, false, Filesystem::EXT4, 2),
            (PARALLEL_TRIAL_MIN_BYTES, true, Filesystem::BTRFS, 2),
            (MIN_BYTES - 1, true, Filesystem::EXT4, 0),
        ] {
            let facts = CopyFacts { destination, ..CopyFacts::ordinary(size) };
            let found = Trial::new(&facts, &ways, || {
                assert!(
                    size >= PARALLEL_TRIAL_MIN_BYTES,
                    "called in vain, which costs system calls"
                );
                has_thread
            });
            assert_eq!(
                found.map_or(0, |trial| trial.entrants.len()),
                entrants,
                "{size} {entrants}"
            );
        }
    }
}
