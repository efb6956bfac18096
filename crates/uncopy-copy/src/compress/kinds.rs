//! Learns from samples which kinds of files compression pays for, and decides how much of the next
//! file of a kind is sampled.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::guess::{Kind, Look};
use super::sample::SMALL_BYTES;
use uncopy_core::{CompressionExpectation, ExpectedBy};

/// Number of samples in agreement from which a kind is known.
const KNOWN_FROM: u8 = 8;

/// Number of files of a known kind of which one is sampled as if nothing were known.
const CHECKED_ONE_IN: u8 = 64;

/// Maximum number of kinds with a name of their own: names are the choice of whoever made the files.
const MAX_KINDS: usize = 256;

/// Knowledge of kinds of files, which the files of a job share.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    histories: Mutex<HashMap<Kind, KindHistory>>,
}

/// Amount that is compressed to see whether compression pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SampleExtent {
    Nothing,
    /// A few small pieces, which decide only where each of them agrees with the expectation.
    Small,
    Full,
}

/// Decision about the sample of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SamplePlan {
    pub(super) extent: SampleExtent,
    pub(super) expected: Option<CompressionExpectation>,
    /// Kind to which the result of a full sample is added.
    learner: Option<Kind>,
}

/// Results of the latest full samples of files of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KindHistory {
    /// Whether compression paid, the latest in the lowest bit.
    results: u8,
    /// Number of results, up to [`KNOWN_FROM`].
    count: u8,
    /// Files since the last full sample.
    unchecked: u8,
}

impl Kinds {
    /// Decides how much of a file of `size` bytes is sampled.
    pub(super) fn plan(&self, look: &Look, size: u64) -> SamplePlan {
        let mut histories = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = histories.len() >= MAX_KINDS;
        let kind = match histories.contains_key(&look.kind) {
            false if is_full => look.kind.without_name(),
            _ => look.kind,
        };
        let history = histories.entry(kind).or_insert_with(|| KindHistory::new(look.expected));
        history.plan(kind, look.expected, size)
    }

    /// Adds the result of the sample that was planned.
    pub(super) fn learn(&self, plan: &SamplePlan, pays: bool) {
        let Some(kind) = plan.learner else { return };
        let mut histories = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(history) = histories.get_mut(&kind) {
            history.add(pays);
        }
    }
}

impl KindHistory {
    /// Begins as if samples had confirmed the expectation.
    fn new(expected: Option<CompressionExpectation>) -> KindHistory {
        let results = if expected.is_some_and(|expected| expected.shrinks) { u8::MAX } else { 0 };
        let count = if expected.is_some() { KNOWN_FROM } else { 0 };
        KindHistory { results, count, unchecked: 0 }
    }

    /// Whether compression pays for files of this kind. `None`: samples disagree, or there are too few.
    fn verdict(self) -> Option<bool> {
        match (self.count, self.results) {
            (KNOWN_FROM, u8::MAX) => Some(true),
            (KNOWN_FROM, 0) => Some(false),
            _ => None,
        }
    }

    fn plan(&mut self, kind: Kind, given: Option<CompressionExpectation>, size: u64) -> SamplePlan {
        let learnt = |shrinks| CompressionExpectation { shrinks, by: ExpectedBy::EarlierFiles };
        let expected = self.verdict().map(|shrinks| {
            given.filter(|given| given.shrinks == shrinks).unwrap_or(learnt(shrinks))
        });
        let extent = match expected {
            None => SampleExtent::Full,
            // Only a format that is known beforehand is believed unseen.
            Some(expected) if !expected.shrinks && expected.by != ExpectedBy::EarlierFiles => {
                SampleExtent::Nothing
            }
            // A small sample would be the whole file, and its size says more than its kind.
            Some(_) if size <= SMALL_BYTES => {
                return SamplePlan { extent: SampleExtent::Full, expected: None, learner: None };
            }
            Some(_) => SampleExtent::Small,
        };
        self.unchecked += 1;
        if extent == SampleExtent::Full || self.unchecked >= CHECKED_ONE_IN {
            self.unchecked = 0;
            let learner = Some(kind).filter(|_| size > SMALL_BYTES || expected.is_some());
            return SamplePlan { extent: SampleExtent::Full, expected, learner };
        }
        SamplePlan { extent, expected, learner: None }
    }

    fn add(&mut self, pays: bool) {
        self.results = self.results << 1 | u8::from(pays);
        self.count = (self.count + 1).min(KNOWN_FROM);
    }
}

#[cfg(test)]
mod tests {
    use super::super::guess::{look, tests::noise};
    use super::*;
    use SampleExtent::{Full, Nothing, Small};
    use std::ffi::OsStr;

    const SIZE: u64 = 1 << 20;

    fn gzip() -> Look {
        look(&[&b"\x1f\x8b\x08\0"[..], &noise(4096)].concat(), OsStr::new("a.gz"))
    }

    fn text() -> Look {
        look(b"plain text\n", OsStr::new("a.txt"))
    }

    fn strange() -> Look {
        look(&noise(4096), OsStr::new("a.dat"))
    }

    #[test]
    fn knowledge_decides_how_much_is_sampled() {
        let all = [true; 8];
        let none = [false; 8];
        for (seen, results, expected, extent) in [
            // Known beforehand.
            (gzip(), &[][..], Some((false, ExpectedBy::Magic)), Nothing),
            (text(), &[], Some((true, ExpectedBy::Text)), Small),
            (strange(), &[], None, Full),
            // Samples that agree.
            (gzip(), &[false], Some((false, ExpectedBy::Magic)), Nothing),
            (text(), &[true], Some((true, ExpectedBy::Text)), Small),
            (strange(), &none[1..], None, Full),
            (strange(), &none, Some((false, ExpectedBy::EarlierFiles)), Small),
            (strange(), &all, Some((true, ExpectedBy::EarlierFiles)), Small),
            // One that disagrees, until eight agree again.
            (gzip(), &[true], None, Full),
            (gzip(), &[true, false, false, false, false, false, false, false], None, Full),
            (
                gzip(),
                &[true, false, false, false, false, false, false, false, false],
                Some((false, ExpectedBy::Magic)),
                Nothing,
            ),
            (gzip(), &all, Some((true, ExpectedBy::EarlierFiles)), Small),
            (text(), &[false], None, Full),
            (text(), &none, Some((false, ExpectedBy::EarlierFiles)), Small),
        ] {
            let mut history = KindHistory::new(seen.expected);
            results.iter().for_each(|pays| history.add(*pays));
            let plan = history.plan(seen.kind, seen.expected, SIZE);
            let found = plan.expected.map(|expected| (expected.shrinks, expected.by));
            assert_eq!((found, plan.extent), (expected, extent), "{seen:?} {results:?}");
        }
    }

    #[test]
    fn one_in_64_is_sampled_all_the_same() {
        for (seen, result, usual) in [(gzip(), false, Nothing), (text(), true, Small)] {
            let kinds = Kinds::default();
            for file in 1..=640 {
                let plan = kinds.plan(&seen, SIZE);
                let expected = if file % 64 == 0 { Full } else { usual };
                assert_eq!(plan.extent, expected, "{file}");
                assert_eq!(plan.learner.is_some(), plan.extent == Full);
                kinds.learn(&plan, result);
            }
        }
    }

    #[test]
    fn a_format_that_lies_is_found_out_and_forgiven() {
        let kinds = Kinds::default();
        let extents: Vec<SampleExtent> = (1..=64 + 20)
            .map(|file| {
                let plan = kinds.plan(&gzip(), SIZE);
                // The 64th file lies.
                kinds.learn(&plan, file == 64);
                plan.extent
            })
            .collect();
        assert!(extents[..63].iter().all(|extent| *extent == Nothing));
        assert!(extents[63..64 + 8].iter().all(|extent| *extent == Full));
        assert!(extents[64 + 8..].iter().all(|extent| *extent == Nothing));
    }

    #[test]
    fn names_do_not_fill_the_memory_nor_displace_formats() {
        let kinds = Kinds::default();
        let noise = noise(4096);
        for name in 0..100_000 {
            let seen = look(&noise, OsStr::new(&format!("a.x{name:x}")));
            let plan = kinds.plan(&seen, SIZE);
            kinds.learn(&plan, false);
        }
        let count = || kinds.histories.lock().unwrap().len();
        assert!(count() <= MAX_KINDS + 1, "{}", count());
        assert_eq!(kinds.plan(&gzip(), SIZE).extent, Nothing);
        assert_eq!(kinds.plan(&text(), SIZE).extent, Small);
        assert!(count() <= MAX_KINDS + 3, "{}", count());
        // A name that finds no place shares what is known of files without one.
        let seen = look(&noise, OsStr::new("a.new"));
        assert_eq!(kinds.plan(&seen, SIZE).extent, Small);
    }

    #[test]
    fn a_file_that_a_small_sample_would_cover_teaches_nothing() {
        let kinds = Kinds::default();
        for _ in 0..100 {
            let plan = kinds.plan(&text(), SMALL_BYTES);
            assert_eq!((plan.extent, plan.expected, plan.learner), (Full, None, None));
        }
        assert_eq!(kinds.plan(&text(), SMALL_BYTES + 1).extent, Small);
        assert_eq!(kinds.plan(&gzip(), 100).extent, Nothing);
    }
}
