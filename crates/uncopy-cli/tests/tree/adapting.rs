//! A way that turns out slower on a job is given up, and the receipts say so.

use std::time::Duration;
use testbed::{
    CallPattern, Case, Compared, Content, Fault, Need, Place, SystemCall, assert_same_tree,
};

use crate::tree::{Trees, cp, events, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::At(Place::Ext4)] a_slow_way_is_given_up_on_ext4,
        [Need::At(Place::Xfs)] a_slow_way_is_given_up_on_xfs,
        [Need::At(Place::Btrfs)] a_slow_way_is_given_up_on_btrfs,
        [] a_way_that_was_asked_for_is_kept,
    ]
}

const FILES: usize = 70;
const BYTES: u64 = 4 << 20;

fn filled(from: Place, to: Place) -> Trees {
    let trees = Trees::at(from, to);
    for number in 0..FILES {
        Content::dense(BYTES).write(&trees.source().join(number.to_string()));
    }
    trees
}

/// Each call takes 5 ms longer than the kernel needs.
fn slow() -> Fault {
    CallPattern::of(&[SystemCall::SPLICE]).delayed(Duration::from_millis(5))
}

/// Splice goes first where nothing can be shared: within ext4, and from one filesystem to another.
fn is_given_up(from: Place, to: Place) {
    let trees = filled(from, to);
    let program = cp().arg("--jobs=1").arg(trees.source()).arg(trees.destination());
    let run = program.run_with([slow()]).run;
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    let whole = summary(&run);
    let total = FILES as u64 * BYTES;
    let by = |name: &str| whole.by(name);
    assert!(by("splice") > 0 && by("splice") < total / 2, "{}", whole.value());
    let refusals = whole.value()["refusals"].to_string();
    assert!(refusals.contains("slower on this job"), "{refusals}");
    // The receipt of the last file names the way that it did not go, and the one that it went.
    let last = events(&run, "copied").into_iter().rfind(|event| event.bytes() == BYTES).unwrap();
    let why = last.refusal("splice").unwrap().reason;
    let went = last.mechanisms().join(" ");
    assert!(why.contains("slower on this job"), "{why}");
    assert!(["copy_file_range", "read_write"].contains(&went.as_str()), "{went}");
}

fn a_slow_way_is_given_up_on_ext4() {
    is_given_up(Place::Ext4, Place::Ext4);
}

fn a_slow_way_is_given_up_on_xfs() {
    is_given_up(Place::Disk, Place::Xfs);
}

fn a_slow_way_is_given_up_on_btrfs() {
    is_given_up(Place::Disk, Place::Btrfs);
}

fn a_way_that_was_asked_for_is_kept() {
    let trees = filled(Place::Disk, Place::Disk);
    let program = cp().args(["--jobs=1", "--method=splice"]);
    let program = program.arg(trees.source()).arg(trees.destination());
    let slow = CallPattern::of(&[SystemCall::SPLICE]).delayed(Duration::from_millis(1));
    let run = program.run_with([slow]).run;
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(summary(&run).by("splice"), FILES as u64 * BYTES);
}
