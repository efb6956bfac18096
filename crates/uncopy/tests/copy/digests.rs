//! Digests of copies, and comparisons, as a caller of the library sees them.

use std::sync::Mutex;

use testbed::{Case, copied};
use uncopy::copy::compare::{
    CompareFinding, CompareObserver, CompareOptions, CompareProgress, Difference, FindingKind,
    check_manifest, compare, digest_beneath, manifest_line,
};
use uncopy::copy::{Contradiction, Control, CopyOptions, Digest, Level, Transform, copy_file};
use uncopy::{DigestedFrom, Mechanism};

use crate::copy::{EVERYWHERE, Pair, only};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_receipt_has_the_digest_and_its_origin,
        [] what_is_transformed_has_no_digest,
        [] a_comparison_reports_each_difference,
        [] a_comparison_can_be_stopped,
    ]
}

const LENGTH: u64 = 300_000;

fn a_receipt_has_the_digest_and_its_origin() {
    for algorithm in [Digest::Blake3, Digest::Sha256, Digest::Xxh3] {
        for mechanism in EVERYWHERE {
            let pair = Pair::new(LENGTH);
            let options = only(mechanism).digest(algorithm);
            let receipt = copied(copy_file(&pair.source, &pair.destination, &options).unwrap());
            let found = receipt.source_digest.unwrap();
            let expected = digest_beneath(pair.scratch.path(), "source", algorithm).unwrap();
            assert_eq!((found.algorithm, found.value), (algorithm.name(), expected));
            let streamed = mechanism == Mechanism::ReadWrite;
            let from = if streamed { DigestedFrom::Streamed } else { DigestedFrom::ReadFromCopy };
            assert_eq!(found.from, from, "{mechanism}");
            assert!(found.duration <= receipt.duration);
            pair.assert_copied();
        }
    }
    let pair = Pair::new(LENGTH);
    let without = copy_file(&pair.source, &pair.destination, &CopyOptions::new()).unwrap();
    assert_eq!(copied(without).source_digest, None);
}

fn what_is_transformed_has_no_digest() {
    for transform in [Transform::Compress(Level::default()), Transform::Decompress] {
        let options = CopyOptions::new().digest(Digest::Xxh3).transform(transform);
        let found = options.check();
        let expected = match cfg!(feature = "compress") {
            true => Contradiction::DigestOfTransformed,
            false => Contradiction::NoCompressionHere,
        };
        assert_eq!(found, Err(expected));
    }
}

/// Collects findings, and stops after so many reports of progress.
struct Collector {
    found: Mutex<Vec<(String, Option<Difference>)>>,
    most: Mutex<usize>,
}

impl Collector {
    fn new(most: usize) -> Collector {
        Collector { found: Mutex::default(), most: Mutex::new(most) }
    }
}

impl CompareObserver for Collector {
    fn progress(&self, _: CompareProgress) -> Control {
        let mut most = self.most.lock().unwrap();
        *most = most.saturating_sub(1);
        if *most == 0 { Control::Stop } else { Control::Continue }
    }

    fn found(&self, finding: &CompareFinding) {
        let difference = match finding.kind {
            FindingKind::Differs(difference) => Some(difference),
            _ => None,
        };
        let name = finding.name.to_string_lossy().into_owned();
        self.found.lock().unwrap().push((name, difference));
    }
}

fn a_comparison_reports_each_difference() {
    let pair = Pair::new(LENGTH);
    for side in ["a", "b"] {
        std::fs::create_dir(pair.scratch.join(side)).unwrap();
        std::fs::write(pair.scratch.join(side).join("file"), side).unwrap();
    }
    let collector = Collector::new(usize::MAX);
    let options = CompareOptions::new().strict(true);
    let (a, b) = (pair.scratch.join("a"), pair.scratch.join("b"));
    let summary = compare(&a, &b, &options, &collector).unwrap();
    assert!(summary.differs() && !summary.is_same());
    assert_eq!((summary.entries, summary.different, summary.unreadable), (2, 1, 0));
    let expected = [("file".to_owned(), Some(Difference::Content))];
    assert_eq!(*collector.found.lock().unwrap(), expected);
    assert!(compare(&a, &a, &options, &()).unwrap().is_same());
    let sums = pair.scratch.join("sums");
    for (side, same) in [("a", true), ("b", false)] {
        let value = digest_beneath(pair.scratch.join(side), "file", Digest::Sha256).unwrap();
        std::fs::write(&sums, manifest_line(Digest::Sha256, &value, "file".as_ref())).unwrap();
        assert_eq!(check_manifest(&sums, &a, &options, &()).unwrap().is_same(), same, "{side}");
    }
    for name in ["none", "..", "/etc/passwd", "../a/file"] {
        assert!(digest_beneath(&a, name, Digest::Xxh3).is_err(), "{name}");
    }
}

fn a_comparison_can_be_stopped() {
    let pair = Pair::new(2 << 20);
    std::fs::copy(&pair.source, &pair.destination).unwrap();
    for most in [1, 3] {
        let options = CompareOptions::new();
        let stopped = compare(&pair.source, &pair.destination, &options, &Collector::new(most));
        assert!(stopped.unwrap_err().is_cancelled());
    }
}
