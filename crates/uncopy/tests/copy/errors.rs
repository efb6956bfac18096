//! Errors that a caller can distinguish, each with operation, subject and next step.

use std::fs::File;
use std::os::unix::fs::FileExt;

use testbed::Case;
use uncopy::copy::{
    Cache, Control, Existing, IfChanged, Outcome, Progress, RETRIES, Skip, Sparse, copy_file,
    copy_file_observed,
};
use uncopy::{Cost, Errno, Error, Mechanism, Reason};

use crate::copy::{EVERYWHERE, Pair, only};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] predicates_and_next_steps,
        [] contradictions_come_before_the_files,
        [] a_source_that_changes_once,
        [] a_source_that_changes_always,
        [] existing_files_are_kept,
        [] receipts_add_up,
        [] copies_in_many_threads,
    ]
}

const LENGTH: u64 = 3 << 20;

fn complete(error: &Error) -> String {
    let text = error.to_string();
    let start = format!("cannot {} {}: ", error.operation(), error.subject().display());
    assert!(text.starts_with(&start), "{text}");
    let step = error.next_step().unwrap_or_else(|| panic!("no next step: {text}"));
    assert!(text.ends_with(step.text()), "{text}");
    text
}

fn predicates_and_next_steps() {
    let pair = Pair::new(LENGTH);
    let defaults = uncopy::copy::CopyOptions::default();
    let missing = pair.scratch.join("missing");
    let error = copy_file(&missing, &pair.destination, &defaults).unwrap_err();
    assert!(error.is_not_found() && error.subject() == missing, "{}", complete(&error));
    let error = copy_file(&pair.source, missing.join("below"), &defaults).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::ENOENT), "{}", complete(&error));
    let below_a_file = pair.source.join("below");
    let error = copy_file(&pair.source, &below_a_file, &defaults).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::ENOTDIR), "{}", complete(&error));
    let error = copy_file(&pair.source, &pair.source, &defaults).unwrap_err();
    assert!(error.is_same_file() && error.errno().is_none(), "{}", complete(&error));
    let error = copy_file(pair.scratch.path(), &pair.destination, &defaults).unwrap_err();
    assert!(matches!(error.reason(), Reason::NotRegular { .. }), "{}", complete(&error));
    let error = copy_file("/proc/version", &pair.destination, &only(Mechanism::Direct));
    let error = error.unwrap_err();
    assert!(error.is_no_mechanism(), "{}", complete(&error));
    let Reason::NoMechanism { refusals } = error.reason() else { panic!("{error}") };
    let mut refused: Vec<Mechanism> = refusals.iter().map(|refusal| refusal.mechanism).collect();
    refused.sort_unstable();
    let mut expected = Mechanism::LINUX.to_vec();
    // Nothing asked for reads past the page cache.
    expected.retain(|mechanism| *mechanism != Mechanism::DirectRing);
    assert_eq!(refused, expected, "each with its reason");
    for refusal in refusals {
        assert!(
            !refusal.reason.to_string().is_empty()
                && error.to_string().contains(&refusal.to_string())
        );
    }
    for error in [
        error.is_not_found(),
        error.is_same_file(),
        error.is_source_changed(),
        error.is_verification_failed(),
        error.is_cancelled(),
    ] {
        assert!(!error, "one kind at a time");
    }
    pair.assert_kept(None);
}

/// Neither file is there, and that is not what the error is about.
fn contradictions_come_before_the_files() {
    let scratch = testbed::Place::Disk.scratch();
    let mut direct = only(Mechanism::Direct);
    direct.cache = Cache::Keep;
    let mut sparse = only(Mechanism::Sendfile);
    sparse.sparse = Sparse::Always;
    let mut in_place = uncopy::copy::CopyOptions::default();
    in_place.in_place = true;
    in_place.if_changed = IfChanged::Retry;
    for options in [direct, sparse, in_place] {
        let found = options.check().unwrap_err();
        let destination = scratch.join("missing/destination");
        let error = copy_file(scratch.join("missing"), &destination, &options).unwrap_err();
        assert_eq!(error.subject(), destination);
        let Reason::Options(reason) = error.reason() else { panic!("{error}") };
        assert_eq!(*reason, found);
    }
}

/// Copies, and writes to the source when a part of it was read: in the first `times` attempts.
fn while_changing(
    pair: &Pair,
    if_changed: IfChanged,
    mechanism: Mechanism,
    times: u32,
) -> uncopy::Result<Outcome> {
    let mut options = only(mechanism);
    options.if_changed = if_changed;
    let source = File::options().write(true).open(&pair.source).unwrap();
    let (mut changes, mut last) = (0, u64::MAX);
    let mut observer = |point: Progress| {
        // A store before the first byte is read may be flushed; then it does not count as a change.
        let has_begun = last == 0 && point.done_bytes > 0;
        last = point.done_bytes;
        if has_begun && changes < times {
            changes += 1;
            source.write_all_at(&testbed::seeded(u64::from(changes), 0, 4096), 0).unwrap();
        }
        Control::Continue
    };
    copy_file_observed(&pair.source, &pair.destination, &options, &mut observer)
}

fn a_source_that_changes_once() {
    for mechanism in EVERYWHERE {
        let pair = Pair::new(LENGTH);
        let old = pair.old_destination();
        let error = while_changing(&pair, IfChanged::Fail, mechanism, 1).unwrap_err();
        assert!(error.is_source_changed(), "{}", complete(&error));
        assert_eq!(error.subject(), pair.source);
        pair.assert_kept(Some(old));

        let retried = while_changing(&pair, IfChanged::Retry, mechanism, 1).unwrap();
        let receipt = testbed::copied(retried);
        assert_eq!((receipt.retries, receipt.source_changed), (1, false));
        pair.assert_copied();

        let accepted = while_changing(&pair, IfChanged::Accept, mechanism, 1).unwrap();
        let receipt = testbed::copied(accepted);
        assert_eq!((receipt.retries, receipt.source_changed), (0, true));
    }
}

fn a_source_that_changes_always() {
    let pair = Pair::new(LENGTH);
    let old = pair.old_destination();
    let way = Mechanism::CopyFileRange;
    let retried = while_changing(&pair, IfChanged::Retry, way, RETRIES).unwrap();
    assert_eq!(testbed::copied(retried).retries, RETRIES);
    pair.assert_copied();
    std::fs::write(&pair.destination, old).unwrap();
    let error = while_changing(&pair, IfChanged::Retry, way, RETRIES + 1).unwrap_err();
    assert!(error.is_source_changed());
    pair.assert_kept(Some(old));
}

fn existing_files_are_kept() {
    let pair = Pair::new(LENGTH);
    let old = pair.old_destination();
    let mut options = uncopy::copy::CopyOptions::default();
    options.existing = Existing::Keep;
    let outcome = copy_file(&pair.source, &pair.destination, &options).unwrap();
    assert_eq!(outcome, Outcome::Skipped { reason: Skip::Exists, renamed: None });
    assert!(outcome.is_skipped() && outcome.receipt().is_none());
    assert_eq!((outcome.renamed(), outcome.clone().into_receipt()), (None, None));
    pair.assert_kept(Some(old));
}

fn receipts_add_up() {
    for mechanism in EVERYWHERE {
        let pair = Pair::new(LENGTH);
        let outcome = copy_file(&pair.source, &pair.destination, &only(mechanism)).unwrap();
        assert!(!outcome.is_skipped() && outcome.receipt().is_some());
        let receipt = testbed::copied(outcome);
        assert_eq!(receipt.bytes, LENGTH);
        assert_eq!(receipt.bytes_by(mechanism), LENGTH);
        let sum: u64 = Cost::ALL.into_iter().map(|cost| receipt.bytes_at(cost)).sum();
        assert_eq!(sum, LENGTH, "{receipt:?}");
        let copied = receipt.bytes_at(Cost::KernelCopied) + receipt.bytes_at(Cost::UserCopied);
        assert!(copied == 0 || !receipt.is_zero_copy(), "{receipt:?}");
        let used = receipt.portions[0].mechanism;
        assert!(receipt.refusals.iter().all(|refusal| refusal.mechanism != used), "{receipt:?}");
    }
}

/// Nothing is shared between copies that is not meant to be.
fn copies_in_many_threads() {
    let pair = Pair::new(LENGTH);
    let one_name = pair.scratch.join("one-name");
    std::thread::scope(|scope| {
        for number in 0..16 {
            let mechanism = EVERYWHERE[number % EVERYWHERE.len()];
            let (pair, one_name) = (&pair, &one_name);
            scope.spawn(move || {
                let own = pair.scratch.join(format!("own-{number}"));
                copy_file(&pair.source, &own, &only(mechanism)).unwrap();
                testbed::assert_same(&pair.source, &own);
                std::fs::remove_file(own).unwrap();
                copy_file(&pair.source, one_name, &only(mechanism)).unwrap();
            });
        }
    });
    testbed::assert_same(&pair.source, &one_name);
    assert_eq!(pair.scratch.strangers(&["source", "one-name"]), Vec::<String>::new());
}
