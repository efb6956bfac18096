//! Learns the speeds of mechanisms in one job from file to file, and switches to another mechanism
//! where one turns out slower.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::speed::{self, MIN_MEASUREMENTS};
use uncopy_core::{Mechanism, Refusal, RefusalReason};
use uncopy_os::capabilities::Filesystem;

/// Speeds that the copies of a job learn from each other; they share one through
/// [`CopyContext::history`](super::CopyContext::history).
///
/// When files between two filesystems have been copied for a while, now and then one of about the
/// same size is copied by another mechanism. A mechanism that is slower by a clear margin is given
/// up, as the receipts of later files say; it is tried again now and then, and used again when it
/// is quicker. Only mechanisms that the plan would use next anyway are compared, and only where the
/// shortest wall time is preferred and any mechanism allowed.
#[derive(Debug, Default)]
pub struct History {
    classes: Mutex<HashMap<FileClass, ClassHistory>>,
}

/// Files whose copies are compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileClass {
    source: Filesystem,
    destination: Filesystem,
    durable: bool,
    /// Size class within a factor of four: the fixed cost of a file weighs about the same.
    magnitude: u32,
}

impl FileClass {
    pub(crate) fn new(
        filesystems: (Filesystem, Filesystem),
        durable: bool,
        size: u64,
    ) -> FileClass {
        let (source, destination) = filesystems;
        FileClass { source, destination, durable, magnitude: size.max(1).ilog2() / 2 }
    }
}

/// Mechanism advised for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Advice {
    pub(crate) mechanism: Mechanism,
    /// Refusals of mechanisms that the plan prefers or that touch the bytes less.
    pub(crate) refusals: Vec<Refusal>,
}

impl History {
    /// Advises a mechanism for the next file among the given candidates, the preferred one first.
    /// `None` means the preferred one.
    pub(crate) fn advise(&self, class: FileClass, candidates: &[Mechanism]) -> Option<Advice> {
        let mut classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        classes.entry(class).or_default().advise(candidates)
    }

    /// Records how long a file took by one mechanism alone. `refused`: mechanisms that did not work for it.
    pub(crate) fn record(
        &self,
        class: FileClass,
        mechanism: Mechanism,
        refused: impl Iterator<Item = Mechanism>,
        bytes: u64,
        took: Duration,
    ) {
        let mut classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        // No advice was requested, because there was no choice.
        if let Some(known) = classes.get_mut(&class) {
            refused.for_each(|mechanism| known.rule_out(mechanism));
            known.record(mechanism, bytes, took);
        }
    }
}

/// Bytes to copy before mechanisms are compared; earlier, comparing costs more than it can gain.
const MIN_BYTES: u64 = 64 << 20;
const MIN_FILES: u64 = 16;

/// Interval in files between two probes of another mechanism, until each is known.
const PROBE_EVERY: u64 = 4;

/// Interval in files between later probes; conditions change.
const PROBE_AGAIN_EVERY: u64 = 64;

/// Number of recent files that count; older ones are forgotten.
const RECENT: usize = 9;

#[derive(Debug, Default)]
struct ClassHistory {
    files: u64,
    bytes: u64,
    /// Mechanism that the plan prefers, of those that work.
    preferred: Option<Mechanism>,
    /// Mechanism chosen instead of the preferred one.
    chosen: Option<Advice>,
    records: Vec<MechanismRecord>,
}

#[derive(Debug)]
struct MechanismRecord {
    mechanism: Mechanism,
    /// Bytes per second of the last files.
    rates: VecDeque<f64>,
    /// Files that it was tried with.
    probes: u64,
    /// It does not work between these filesystems.
    ruled_out: bool,
}

impl MechanismRecord {
    fn is_known(&self) -> bool {
        self.rates.len() >= MIN_MEASUREMENTS
    }

    fn median(&self) -> f64 {
        let rates: Vec<f64> = self.rates.iter().copied().collect();
        speed::median(&rates).unwrap_or(0.0)
    }

    /// Whether its recent files were clearly quicker than the median file of `other`.
    fn is_clearly_quicker(&self, other: &MechanismRecord) -> bool {
        let usual = other.median();
        let shares: Vec<f64> = self.rates.iter().map(|rate| usual / rate).collect();
        other.is_known() && speed::is_clearly_cheaper(&shares)
    }
}

impl ClassHistory {
    fn advise(&mut self, candidates: &[Mechanism]) -> Option<Advice> {
        for mechanism in candidates {
            if !self.records.iter().any(|record| record.mechanism == *mechanism) {
                let (mechanism, rates) = (*mechanism, VecDeque::new());
                self.records.push(MechanismRecord {
                    mechanism,
                    rates,
                    probes: 0,
                    ruled_out: false,
                });
            }
        }
        let works = |m: &Mechanism| !self.records.iter().any(|w| w.mechanism == *m && w.ruled_out);
        let candidates: Vec<Mechanism> = candidates.iter().copied().filter(works).collect();
        let candidates = candidates.as_slice();
        let preferred = *candidates.first()?;
        self.preferred = Some(preferred);
        let chosen = self.chosen.clone().filter(|c| candidates.contains(&c.mechanism));
        if self.files < MIN_FILES || self.bytes < MIN_BYTES {
            return chosen;
        }
        let at_work = chosen.as_ref().map_or(preferred, |chosen| chosen.mechanism);
        match self.probe(at_work, candidates) {
            Some(mechanism) => {
                let compared = |_| Some(RefusalReason::Compared);
                Some(Advice { mechanism, refusals: refusals(mechanism, candidates, compared) })
            }
            None => chosen,
        }
    }

    /// Returns the mechanism to probe with this file, if it is a probe.
    fn probe(&mut self, at_work: Mechanism, candidates: &[Mechanism]) -> Option<Mechanism> {
        let others = self
            .records
            .iter_mut()
            .filter(|record| record.mechanism != at_work)
            .filter(|record| candidates.contains(&record.mechanism));
        let least_known = others.min_by_key(|record| record.probes)?;
        let every = if least_known.probes < MIN_MEASUREMENTS as u64 {
            PROBE_EVERY
        } else {
            PROBE_AGAIN_EVERY
        };
        if !self.files.is_multiple_of(every) {
            return None;
        }
        least_known.probes += 1;
        Some(least_known.mechanism)
    }

    fn rule_out(&mut self, mechanism: Mechanism) {
        if let Some(record) = self.records.iter_mut().find(|record| record.mechanism == mechanism) {
            record.ruled_out = true;
            record.rates.clear();
        }
        self.preferred = self.preferred.filter(|preferred| *preferred != mechanism);
        self.chosen = self.chosen.take().filter(|chosen| chosen.mechanism != mechanism);
    }

    fn record(&mut self, mechanism: Mechanism, bytes: u64, took: Duration) {
        self.files += 1;
        self.bytes += bytes;
        let Some(record) = self.records.iter_mut().find(|record| record.mechanism == mechanism)
        else {
            return;
        };
        record.rates.push_back(bytes as f64 / took.as_secs_f64().max(1e-9));
        if record.rates.len() > RECENT {
            record.rates.pop_front();
        }
        self.judge();
    }

    /// Switches to another mechanism if it is clearly quicker than the current one.
    fn judge(&mut self) {
        let Some(preferred) = self.preferred else { return };
        let at_work = self.chosen.as_ref().map_or(preferred, |chosen| chosen.mechanism);
        let Some(now) = self.records.iter().find(|record| record.mechanism == at_work) else {
            return;
        };
        let records = &self.records;
        let best = records
            .iter()
            .filter(|record| record.is_clearly_quicker(now))
            .max_by(|a, b| a.median().total_cmp(&b.median()));
        let Some(best) = best else { return };
        if best.mechanism == preferred {
            self.chosen = None;
            return;
        }
        let candidates: Vec<Mechanism> = records.iter().map(|record| record.mechanism).collect();
        let slower = |mechanism| {
            let record = records
                .iter()
                .find(|record| record.mechanism == mechanism && record.is_known())
                .filter(|record| rounded(record.median()) < rounded(best.median()))?;
            Some(RefusalReason::SlowerOnJob {
                speed: rounded(record.median()),
                best_speed: rounded(best.median()),
                best: best.mechanism,
            })
        };
        self.chosen = Some(Advice {
            mechanism: best.mechanism,
            refusals: refusals(best.mechanism, &candidates, slower),
        });
    }
}

/// Returns refusals of the other candidates: those that the plan prefers to `used`, and those that
/// touch the bytes less.
fn refusals(
    used: Mechanism,
    candidates: &[Mechanism],
    reason: impl Fn(Mechanism) -> Option<RefusalReason>,
) -> Vec<Refusal> {
    let place = |mechanism| candidates.iter().position(|m| *m == mechanism);
    candidates
        .iter()
        .filter(|m| **m != used && (place(**m) < place(used) || **m < used))
        .filter_map(|m| Some(Refusal { mechanism: *m, reason: reason(*m)?, errno: None }))
        .collect()
}

/// Rounds to 1 MB/s, the unit of the refusal's reason.
fn rounded(bytes_per_second: f64) -> u64 {
    const UNIT: u64 = 1_000_000;
    (bytes_per_second / UNIT as f64).round() as u64 * UNIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mechanism::{CopyFileRange, ReadWrite, Splice};

    const BYTES: u64 = 8 << 20;
    const ORDER: [Mechanism; 3] = [Splice, CopyFileRange, ReadWrite];

    /// Records files one after the other; `micros` gives the duration of a file by a mechanism.
    /// Returns the number of files for each mechanism, and the last advice.
    fn copy(
        class: &mut ClassHistory,
        files: usize,
        micros: impl Fn(Mechanism, usize) -> u64,
    ) -> (HashMap<Mechanism, usize>, Option<Advice>) {
        let mut went = HashMap::new();
        for file in 0..files {
            let advice = class.advise(&ORDER);
            let mechanism = advice.map_or(ORDER[0], |advice| advice.mechanism);
            class.record(mechanism, BYTES, Duration::from_micros(micros(mechanism, file)));
            *went.entry(mechanism).or_default() += 1;
        }
        // Between two probes.
        class.files += 1;
        (went, class.advise(&ORDER))
    }

    #[test]
    fn a_way_that_is_slower_on_this_job_is_given_up() {
        type Row = (&'static str, fn(Mechanism, usize) -> u64, Option<Mechanism>);
        let rows: [Row; 7] = [
            ("alike", |_, _| 1000, None),
            ("the preferred is quicker", |m, _| if m == Splice { 1000 } else { 3000 }, None),
            ("slower, not clearly", |m, _| if m == Splice { 1040 } else { 1000 }, None),
            ("slower", |m, _| if m == Splice { 1060 } else { 1000 }, Some(CopyFileRange)),
            (
                "the best of two",
                |m, _| match m {
                    Splice => 9000,
                    CopyFileRange => 3000,
                    _ => 1000,
                },
                Some(ReadWrite),
            ),
            // Every third file is disturbed, by whichever mechanism it is copied.
            ("noise", |_, file| if file % 3 == 0 { 9000 } else { 1000 }, None),
            // The mechanism becomes slow after the comparison.
            (
                "later",
                |m, file| match m {
                    Splice if file <= 100 => 1000,
                    Splice => 5000,
                    CopyFileRange => 1000,
                    _ => 1500,
                },
                Some(CopyFileRange),
            ),
        ];
        for (name, micros, expected) in rows {
            let (_, advice) = copy(&mut ClassHistory::default(), 400, micros);
            assert_eq!(advice.map(|advice| advice.mechanism), expected, "{name}");
        }
    }

    #[test]
    fn comparing_costs_few_files() {
        let (went, _) =
            copy(&mut ClassHistory::default(), 1000, |m, _| if m == Splice { 10 } else { 99 });
        let others: usize = went.iter().filter(|(m, _)| **m != Splice).map(|(_, n)| n).sum();
        assert!((6..25).contains(&others), "{went:?}");
        // A short job compares nothing.
        let (went, advice) = copy(&mut ClassHistory::default(), 14, |_, _| 1000);
        assert_eq!((went, advice), (HashMap::from([(Splice, 14)]), None));
    }

    #[test]
    fn a_way_that_becomes_quicker_comes_back() {
        let mut class = ClassHistory::default();
        let (_, advice) = copy(&mut class, 100, |m, _| if m == Splice { 5000 } else { 1000 });
        assert_eq!(advice.map(|advice| advice.mechanism), Some(CopyFileRange));
        let (_, advice) = copy(&mut class, 3000, |m, _| if m == Splice { 500 } else { 1000 });
        assert_eq!(advice, None);
    }

    #[test]
    fn the_change_and_its_reason_are_reported() {
        let (_, advice) = copy(&mut ClassHistory::default(), 100, |m, _| match m {
            Splice => 8000,
            CopyFileRange => 4000,
            _ => 1000,
        });
        let advice = advice.unwrap();
        let reported: Vec<String> = advice.refusals.iter().map(ToString::to_string).collect();
        assert_eq!(
            reported,
            [
                "splice: slower on this job: 1.049 against 8.389 GB/s by read_write",
                "copy_file_range: slower on this job: 2.097 against 8.389 GB/s by read_write",
            ]
        );
    }

    #[test]
    fn a_way_that_does_not_work_is_not_tried_again() {
        let mut class = ClassHistory::default();
        // The plan prefers what works between no two of these files.
        for _ in 0..200 {
            let advice = class.advise(&[CopyFileRange, Splice, ReadWrite]);
            let wanted = advice.map_or(CopyFileRange, |advice| advice.mechanism);
            if wanted == CopyFileRange {
                class.rule_out(CopyFileRange);
            }
            let went = if wanted == ReadWrite { ReadWrite } else { Splice };
            let micros = if went == Splice { 5000 } else { 1000 };
            class.record(went, BYTES, Duration::from_micros(micros));
        }
        class.files += 1;
        let advice = class.advise(&[CopyFileRange, Splice, ReadWrite]).unwrap();
        assert_eq!(advice.mechanism, ReadWrite);
        assert_eq!(advice.refusals.len(), 1, "{:?}", advice.refusals);
        assert!(class.records[0].ruled_out && class.records[0].probes == 0);
    }

    #[test]
    fn only_ways_that_may_be_taken_are_advised() {
        let mut class = ClassHistory::default();
        let (_, advice) = copy(&mut class, 100, |m, _| if m == Splice { 5000 } else { 1000 });
        assert_eq!(advice.map(|advice| advice.mechanism), Some(CopyFileRange));
        assert_eq!(class.advise(&[Splice]), None);
        assert_eq!(class.advise(&[]), None);
    }
}
