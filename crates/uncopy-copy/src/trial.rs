//! Which way is quickest differs between processors and kernels: on a large file the candidates
//! move a few megabytes each, and the best goes on.

use std::time::Duration;

use super::options::{Allow, Prefer};
use super::plan::{self, CopyFacts};
use uncopy_core::{Mechanism, Refusal, RefusalReason};

/// Below this size the trial would cost more than it can gain.
const MIN_BYTES: u64 = 64 << 20;

/// Below this size nothing is found out about two threads: their probes are longer.
const PARALLEL_MIN_BYTES: u64 = 512 << 20;

/// What one probe moves.
const PROBE_BYTES: u64 = 2 << 20;

/// What one probe by two threads moves: the second is made anew for each, which takes as long as it
/// takes to move some megabytes.
const BY_TWO_PROBE_BYTES: u64 = 32 << 20;

/// Probes of each candidate; the quickest counts, because disturbances only ever slow one down.
const ROUNDS: usize = 3;

/// A way that touches the bytes less wins if it reaches this share of the best rate.
const CLOSE_ENOUGH: f64 = 0.98;

/// Two threads win if they are so much quicker than one: they take another processor.
const BY_TWO_CLEARLY: f64 = 1.2;

/// A race between mechanisms that all work here.
#[derive(Debug)]
pub(crate) struct Trial {
    entrants: Vec<Entrant>,
}

#[derive(Debug)]
struct Entrant {
    way: TrialCandidate,
    probes: usize,
    /// Bytes per second of the quickest probe.
    best_rate: f64,
}

/// How a probe is to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrialCandidate {
    pub(crate) mechanism: Mechanism,
    /// By two threads.
    pub(crate) parallel: bool,
}

impl TrialCandidate {
    pub(crate) fn probe_bytes(self) -> u64 {
        if self.parallel { BY_TWO_PROBE_BYTES } else { PROBE_BYTES }
    }
}

impl Entrant {
    fn new(mechanism: Mechanism, parallel: bool) -> Entrant {
        Entrant { way: TrialCandidate { mechanism, parallel }, probes: 0, best_rate: 0.0 }
    }

    /// The rate that counts.
    fn score(&self) -> f64 {
        if self.way.parallel { self.best_rate / BY_TWO_CLEARLY } else { self.best_rate }
    }
}

impl Trial {
    /// A trial between `candidates`, the least touching first, if this copy is worth one. Where
    /// another thread is to be had, which `has_thread` is asked only if it matters, those that it helps
    /// also try it with two.
    pub(crate) fn new(
        facts: &CopyFacts,
        candidates: &[Mechanism],
        has_thread: impl Fn() -> bool,
    ) -> Option<Trial> {
        let is_from = |least| facts.size.is_some_and(|size| size >= least);
        let worth_it = facts.allow == Allow::Any
            && facts.prefer == Prefer::WallTime
            && is_from(MIN_BYTES)
            && candidates.len() > 1;
        let parallel = candidates.iter().copied().filter(|mechanism| {
            is_from(PARALLEL_MIN_BYTES)
                && plan::gains_by_ranges(facts, *mechanism, BY_TWO_PROBE_BYTES)
                && has_thread()
        });
        let by_one = candidates.iter().map(|mechanism| Entrant::new(*mechanism, false));
        let entrants = by_one.chain(parallel.map(|mechanism| Entrant::new(mechanism, true)));
        worth_it.then(|| Trial { entrants: entrants.collect() })
    }

    /// Whose turn it is; `None`: all have had their probes.
    pub(crate) fn turn(&self) -> Option<TrialCandidate> {
        self.entrants.iter().filter(|e| e.probes < ROUNDS).min_by_key(|e| e.probes).map(|e| e.way)
    }

    /// What the probe of the one whose turn it is said. The tail of an extent is too short to tell
    /// anything and does not count; extents too short for two threads take them out of the race, which
    /// would not end otherwise.
    pub(crate) fn record(&mut self, way: TrialCandidate, bytes: u64, took: Duration) {
        if bytes < way.probe_bytes() / 2 {
            self.entrants.retain(|e| e.way != way || !way.parallel);
        } else if let Some(entrant) = self.entrants.iter_mut().find(|e| e.way == way) {
            entrant.probes += 1;
            entrant.best_rate = entrant.best_rate.max(bytes as f64 / took.as_secs_f64().max(1e-9));
        }
    }

    /// Takes a mechanism out that does not work here.
    pub(crate) fn retire(&mut self, mechanism: Mechanism) {
        self.entrants.retain(|e| e.way.mechanism != mechanism);
    }

    /// The winner, and why those that touch the bytes less did not win.
    pub(crate) fn verdict(&self) -> Option<(Mechanism, Vec<Refusal>)> {
        let best = self.entrants.iter().map(Entrant::score).fold(0.0, f64::max);
        let winner = self
            .entrants
            .iter()
            .filter(|e| e.score() >= best * CLOSE_ENOUGH)
            .min_by_key(|e| e.way.mechanism)?;
        let refusals = self
            .entrants
            .iter()
            .filter(|e| e.way.mechanism < winner.way.mechanism)
            .map(|e| Refusal {
                mechanism: e.way.mechanism,
                reason: RefusalReason::SlowerInTrial {
                    speed: rounded(e.best_rate),
                    best_speed: rounded(winner.best_rate),
                    best: winner.way.mechanism,
                    parallel: winner.way.parallel,
                },
                errno: None,
            })
            .collect();
        Some((winner.way.mechanism, refusals))
    }
}

/// Rounds to 100 MB/s, so that files of a job that were alike have one reason.
fn rounded(bytes_per_second: f64) -> u64 {
    const UNIT: u64 = 100_000_000;
    (bytes_per_second / UNIT as f64).round() as u64 * UNIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mechanism::{CopyFileRange, ReadWrite, Splice};

    fn trial() -> Trial {
        let by_one = [CopyFileRange, Splice, ReadWrite].map(|mechanism| (mechanism, false));
        let all = by_one.into_iter().chain([(ReadWrite, true)]);
        Trial {
            entrants: all.map(|(mechanism, parallel)| Entrant::new(mechanism, parallel)).collect(),
        }
    }

    /// With what 2 MiB take, by one thread and by two.
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
        run(&mut trial, |way, _| if way.mechanism == ReadWrite { 100 } else { 101 });
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
    fn who_does_not_work_leaves_the_race() {
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
        for _ in 0..=3 * ROUNDS {
            let Some(way) = trial.turn() else { break };
            let bytes = way.probe_bytes().min(8 << 20);
            trial.record(way, bytes, Duration::from_micros(if way == parallel { 1 } else { 100 }));
        }
        assert_eq!(trial.turn(), None);
        assert_eq!(trial.verdict().unwrap().0, CopyFileRange);
    }

    #[test]
    fn two_threads_win_if_they_are_clearly_quicker() {
        for (by_one, parallel, winner) in
            [(200, 190, Splice), (200, 170, Splice), (200, 150, ReadWrite), (90, 90, ReadWrite)]
        {
            let mut trial = trial();
            run(&mut trial, |way, _| match (way.mechanism, way.parallel) {
                (ReadWrite, true) => parallel,
                (ReadWrite, false) => by_one,
                (Splice, _) => 195,
                _ => 300,
            });
            assert_eq!(trial.verdict().unwrap().0, winner, "{by_one} {parallel}");
        }
        let mut trial = trial();
        run(&mut trial, |way, _| if way.parallel { 100 } else { 200 });
        let expected =
            "slower in a trial on this file: 10.5 against 21.0 GB/s by read_write with two threads";
        assert_eq!(trial.verdict().unwrap().1[0].reason.to_string(), expected);
    }

    #[test]
    fn two_threads_are_tried_on_large_files_where_there_is_another() {
        use uncopy_os::capabilities::Filesystem;
        let ways = [Splice, ReadWrite];
        for (size, has_thread, destination, entrants) in [
            (PARALLEL_MIN_BYTES, true, Filesystem::EXT4, 3),
            (PARALLEL_MIN_BYTES - 1, true, Filesystem::EXT4, 2),
            (PARALLEL_MIN_BYTES, false, Filesystem::EXT4, 2),
            (PARALLEL_MIN_BYTES, true, Filesystem::BTRFS, 2),
            (MIN_BYTES - 1, true, Filesystem::EXT4, 0),
        ] {
            let facts = CopyFacts { destination, ..CopyFacts::ordinary(size) };
            let found = Trial::new(&facts, &ways, || {
                assert!(size >= PARALLEL_MIN_BYTES, "asked in vain, which takes system calls");
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
