//! Which way is quickest differs between processors and kernels: on a large file the candidates
//! move a few megabytes each, and the best goes on.

use std::time::Duration;

use super::options::{Allow, Prefer};
use super::plan::Facts;
use crate::receipt::{Mechanism, Refusal};

/// Below this size the trial would cost more than it can gain.
const MIN_BYTES: u64 = 64 << 20;

/// What one probe moves.
pub(crate) const PROBE_BYTES: u64 = 2 << 20;

/// Probes of each candidate; the quickest counts, because disturbances only ever slow one down.
const ROUNDS: usize = 3;

/// A way that touches the bytes less wins if it reaches this share of the best rate.
const CLOSE_ENOUGH: f64 = 0.98;

/// A race between mechanisms that all work here.
#[derive(Debug)]
pub(crate) struct Trial {
    entrants: Vec<Entrant>,
}

#[derive(Debug)]
struct Entrant {
    mechanism: Mechanism,
    probes: usize,
    /// Bytes per second of the quickest probe.
    best_rate: f64,
}

impl Trial {
    /// A trial between `candidates`, the least touching first, if this copy is worth one.
    pub(crate) fn new(facts: &Facts, candidates: &[Mechanism]) -> Option<Trial> {
        let worth_it = facts.allow == Allow::Any
            && facts.prefer == Prefer::WallTime
            && facts.size.is_some_and(|size| size >= MIN_BYTES)
            && candidates.len() > 1;
        worth_it.then(|| Trial {
            entrants: candidates
                .iter()
                .map(|m| Entrant { mechanism: *m, probes: 0, best_rate: 0.0 })
                .collect(),
        })
    }

    /// Whose turn it is; `None`: all have had their probes.
    pub(crate) fn turn(&self) -> Option<Mechanism> {
        self.entrants
            .iter()
            .filter(|e| e.probes < ROUNDS)
            .min_by_key(|e| e.probes)
            .map(|e| e.mechanism)
    }

    /// One probe's result. The tail of an extent is too short to tell anything and does not count.
    pub(crate) fn record(&mut self, mechanism: Mechanism, bytes: u64, took: Duration) {
        let entrant = self.entrants.iter_mut().find(|e| e.mechanism == mechanism);
        if let Some(entrant) = entrant.filter(|_| bytes >= PROBE_BYTES / 2) {
            entrant.probes += 1;
            entrant.best_rate = entrant.best_rate.max(bytes as f64 / took.as_secs_f64().max(1e-9));
        }
    }

    /// Takes a mechanism out that does not work here.
    pub(crate) fn retire(&mut self, mechanism: Mechanism) {
        self.entrants.retain(|e| e.mechanism != mechanism);
    }

    /// The winner, and why those that touch the bytes less did not win.
    pub(crate) fn verdict(&self) -> Option<(Mechanism, Vec<Refusal>)> {
        let best = self.entrants.iter().map(|e| e.best_rate).fold(0.0, f64::max);
        let winner = self
            .entrants
            .iter()
            .filter(|e| e.best_rate >= best * CLOSE_ENOUGH)
            .min_by_key(|e| e.mechanism)?;
        let refusals = self
            .entrants
            .iter()
            .filter(|e| e.mechanism < winner.mechanism)
            .map(|e| Refusal {
                mechanism: e.mechanism,
                reason: format!(
                    "slower in a trial on this file: {:.1} against {:.1} GB/s by {}",
                    e.best_rate / 1e9,
                    winner.best_rate / 1e9,
                    winner.mechanism,
                ),
                errno: None,
            })
            .collect();
        Some((winner.mechanism, refusals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mechanism::{CopyFileRange, ReadWrite, Splice};

    fn trial() -> Trial {
        let entrants = [CopyFileRange, Splice, ReadWrite].map(|mechanism| Entrant {
            mechanism,
            probes: 0,
            best_rate: 0.0,
        });
        Trial { entrants: entrants.into() }
    }

    fn run(trial: &mut Trial, micros: impl Fn(Mechanism, usize) -> u64) {
        for round in 0.. {
            let Some(mechanism) = trial.turn() else { return };
            let took = Duration::from_micros(micros(mechanism, round));
            trial.record(mechanism, PROBE_BYTES, took);
        }
    }

    #[test]
    fn the_quickest_wins_and_the_others_say_by_how_much() {
        let mut trial = trial();
        run(&mut trial, |m, _| if m == ReadWrite { 200 } else { 400 });
        let (winner, refusals) = trial.verdict().unwrap();
        assert_eq!(winner, ReadWrite);
        assert_eq!(refusals.len(), 2);
        let expected = "slower in a trial on this file: 5.2 against 10.5 GB/s by read_write";
        assert_eq!(refusals[0].reason, expected);
    }

    #[test]
    fn a_way_that_touches_less_wins_a_close_race() {
        let mut trial = trial();
        run(&mut trial, |m, _| if m == ReadWrite { 100 } else { 101 });
        assert_eq!(trial.verdict().unwrap().0, CopyFileRange);
    }

    #[test]
    fn one_disturbed_probe_does_not_lose_the_race() {
        let mut trial = trial();
        run(&mut trial, |m, round| match (m, round) {
            (CopyFileRange, 0..3) => 50_000,
            (CopyFileRange, _) => 100,
            _ => 150,
        });
        assert_eq!(trial.verdict().unwrap().0, CopyFileRange);
    }

    #[test]
    fn who_does_not_work_leaves_the_race() {
        let mut trial = trial();
        trial.record(CopyFileRange, 10, Duration::from_micros(1));
        assert_eq!(trial.turn(), Some(CopyFileRange), "a tail is no probe");
        trial.retire(CopyFileRange);
        run(&mut trial, |_, _| 100);
        assert_eq!(trial.verdict().unwrap(), (Splice, vec![]));
    }
}
