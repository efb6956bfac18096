//! Progress, and the wish to stop.

use std::panic::{AssertUnwindSafe, catch_unwind};

use testbed::Case;
use uncopy::Mechanism;
use uncopy::copy::{Control, CopyOptions, Phase, Progress, Verify, copy_file_observed};

use crate::copy::{EVERYWHERE, Pair, only};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] progress_goes_forward_to_the_end,
        [] a_long_copy_is_reported_in_pieces,
        [] flushing_and_verifying_are_reported,
        [] stopped_at_each_point,
        [] stopped_at_each_point_of_a_durable_verified_copy,
        [] stopped_while_a_stream_is_read,
        [] an_observer_that_panics_leaves_nothing,
    ]
}

const LENGTH: u64 = (20 << 20) + 77;

/// Copies the pair and returns all progress reports.
fn reported_points(pair: &Pair, options: &CopyOptions) -> Vec<Progress> {
    let mut points = Vec::new();
    let mut observer = |point: Progress| {
        points.push(point);
        Control::Continue
    };
    copy_file_observed(&pair.source, &pair.destination, options, &mut observer).unwrap();
    points
}

fn ways() -> Vec<CopyOptions> {
    let forced = EVERYWHERE.into_iter().map(only);
    std::iter::once(CopyOptions::default()).chain(forced).collect()
}

fn progress_goes_forward_to_the_end() {
    for options in ways() {
        let pair = Pair::new(LENGTH);
        let points = reported_points(&pair, &options);
        assert!(points.iter().all(|point| point.phase == Phase::Copying), "{points:?}");
        assert!(points.iter().all(|point| point.total_bytes == LENGTH), "{points:?}");
        assert!(points.is_sorted_by_key(|point| point.done_bytes), "{points:?}");
        assert_eq!(points.last().unwrap().done_bytes, LENGTH, "{points:?}");
        pair.assert_copied();
    }
}

/// One call of the kernel could copy all of it unasked. A piece is never much larger than one
/// whose duration is known.
fn a_long_copy_is_reported_in_pieces() {
    for mechanism in EVERYWHERE {
        let pair = Pair::new(128 << 20);
        let points = reported_points(&pair, &only(mechanism));
        let (mut last, mut most) = (0, 16 << 20);
        for point in &points {
            let piece = point.done_bytes - std::mem::replace(&mut last, point.done_bytes);
            assert!(piece <= most, "{mechanism}: a piece leaps to {piece} bytes: {points:?}");
            most = most.max(2 * piece);
        }
        assert!(points.len() >= 4, "{mechanism}: {points:?}");
    }
}

fn durable_and_verified() -> CopyOptions {
    let mut options = CopyOptions::default();
    options.durable = true;
    options.verify = Some(Verify::default());
    options
}

fn flushing_and_verifying_are_reported() {
    let pair = Pair::new(LENGTH);
    let points = reported_points(&pair, &durable_and_verified());
    let phases: Vec<Phase> = points.iter().map(|point| point.phase).collect();
    for phase in [Phase::Copying, Phase::Flushing, Phase::Verifying] {
        assert!(phases.contains(&phase), "{phases:?}");
    }
    let verifying: Vec<&Progress> =
        points.iter().filter(|point| point.phase == Phase::Verifying).collect();
    assert!(verifying.len() >= 2, "both files are read again without a word: {points:?}");
    assert!(verifying.is_sorted_by_key(|point| point.done_bytes), "{verifying:?}");
    let last = verifying.last().unwrap();
    assert!(last.done_bytes <= last.total_bytes, "{last:?}");
}

/// Stops at the first point, the second, and so on until a copy runs through.
fn stopped_at_each(options: &CopyOptions, old: bool) -> usize {
    let pair = Pair::new(LENGTH);
    let mut stop_at = 0;
    loop {
        let _ = std::fs::remove_file(&pair.destination);
        let kept = old.then(|| pair.old_destination());
        let mut left = stop_at;
        let mut observer = |_: Progress| {
            left -= 1;
            if left < 0 { Control::Stop } else { Control::Continue }
        };
        let result = copy_file_observed(&pair.source, &pair.destination, options, &mut observer);
        let Err(error) = result else {
            pair.assert_copied();
            return usize::try_from(stop_at).unwrap();
        };
        assert!(error.is_cancelled(), "{error}");
        assert!(left == -1 || options.verify.is_some(), "asked again after it said stop");
        pair.assert_kept(kept);
        stop_at += 1;
    }
}

fn stopped_at_each_point() {
    for options in ways() {
        for old in [false, true] {
            // One reflink copies all, where there are any; nothing can stop it midway.
            let least = if options == CopyOptions::default() { 1 } else { 2 };
            assert!(stopped_at_each(&options, old) >= least);
        }
    }
}

fn stopped_at_each_point_of_a_durable_verified_copy() {
    assert!(stopped_at_each(&durable_and_verified(), true) >= 4);
    let mut direct = durable_and_verified();
    direct.require = uncopy::copy::Require::NoUserCopy;
    assert!(stopped_at_each(&direct, false) >= 4);
}

fn stopped_while_a_stream_is_read() {
    let pair = Pair::new(0);
    let mut observer = |_: Progress| Control::Stop;
    let options = CopyOptions::default();
    let old = pair.old_destination();
    let error = copy_file_observed("/proc/version", &pair.destination, &options, &mut observer);
    assert!(error.unwrap_err().is_cancelled());
    pair.assert_kept(Some(old));
}

fn an_observer_that_panics_leaves_nothing() {
    for mechanism in [Mechanism::CopyFileRange, Mechanism::ReadWrite] {
        let pair = Pair::new(LENGTH);
        let old = pair.old_destination();
        let copy = AssertUnwindSafe(|| {
            let mut observer = |_: Progress| -> Control { std::panic::resume_unwind(Box::new(1)) };
            let options = only(mechanism);
            let _ = copy_file_observed(&pair.source, &pair.destination, &options, &mut observer);
        });
        assert!(catch_unwind(copy).is_err());
        pair.assert_kept(Some(old));
    }
}
