//! Jobs that take their time: limited, and tried again.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use testbed::witness::Strace;
use testbed::{
    CallPattern, Case, Compared, Content, Intercept, Need, Place, SystemCall, assert_same_tree,
    wait_for,
};
use uncopy::Errno;

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("strace")] a_limited_copy_moves_small_pieces_and_stays_zero_copy,
        [Need::At(Place::Btrfs)] shared_blocks_are_not_counted,
        [] an_interrupt_is_heard_between_pieces_far_apart,
        [] errors_that_pass_are_tried_again,
        [] errors_that_stay_are_not,
    ]
}

fn a_limited_copy_moves_small_pieces_and_stays_zero_copy() {
    let trees = Trees::apart();
    for number in 0..20 {
        trees.file(&format!("small/{number}"), vec![number; 30_000]);
    }
    Content::dense(3_000_001).write(&trees.source().join("large"));
    let program = cp().args(["--max-bandwidth=10M", "--jobs=2"]);
    let program = program.arg(trees.source()).arg(trees.destination());
    let (run, trace) = Strace::new(&program).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    // 20 ms of the rate, in whole pages.
    let most = 200_000 / 4096 * 4096;
    let moving = ["splice", "copy_file_range", "sendfile", "write", "pwrite64"];
    for call in trace.named(&moving).iter().filter(|call| call.mentions(trees.to.path())) {
        assert!(call.value().is_none_or(|bytes| bytes <= most), "{call:?}");
    }
    let large = events(&run, "copied").into_iter().find(|event| event.bytes() == 3_000_001);
    let large = large.unwrap();
    assert!(large.at("user_copied") < large.bytes(), "{}", large.value());
}

/// At a byte a second this would take a month.
fn shared_blocks_are_not_counted() {
    let trees = Trees::at(Place::Btrfs, Place::Btrfs);
    Content::dense(3_000_001).write(&trees.source().join("large"));
    for number in 0..20 {
        Content::dense(30_000).write(&trees.source().join(number.to_string()));
    }
    let run = trees.copy(cp().arg("--max-bandwidth=1"));
    assert_eq!(summary(&run).at("shared"), 3_600_001);
}

/// At a byte a second the second piece comes after more than an hour.
fn an_interrupt_is_heard_between_pieces_far_apart() {
    for bytes in [10_000, 1_000_000] {
        let trees = Trees::apart();
        Content::dense(bytes).write(&trees.source().join("file"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_uncopy"))
            .args(["cp", "-r", "--max-bandwidth=1"])
            .arg(trees.source())
            .arg(trees.destination())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("a file that is being copied", || {
            let strangers = trees.to.strangers(&["destination"]);
            let files = strangers.iter().map(|name| trees.to.join(name).join("file"));
            files.into_iter().any(|file| file.metadata().is_ok_and(|found| found.len() > 0))
        });
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        wait_for("end", || child.try_wait().unwrap().is_some());
        assert!(trees.to.strangers(&[]).is_empty(), "{:?}", trees.to.strangers(&[]));
    }
}

fn errors_that_pass_are_tried_again() {
    let trees = Trees::apart();
    trees.file("file", "x");
    let program = cp().arg("--jobs=1").arg(trees.source()).arg(trees.destination());
    // The first two times that it is opened.
    let opening = CallPattern::of(&[SystemCall::OPENAT]).on(trees.source().join("file"));
    let fault = opening.between(1, 2).fails(Errno::ESTALE);
    let run = program.run_with([fault.clone()]).run;
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    std::fs::remove_dir_all(trees.destination()).unwrap();
    let none = cp().args(["--jobs=1", "--retries=0"]).arg(trees.source()).arg(trees.destination());
    let run = none.run_with([fault]).run;
    assert!(run.failed(1).contains("ESTALE"), "{}", run.stderr);
}

fn errors_that_stay_are_not() {
    let trees = Trees::apart();
    trees.file("file", vec![1; 100_000]);
    // Else the journal of what is left would be written in the same way.
    let program =
        cp().args(["--jobs=1", "--method=read-write", "--retries=100", "--on-error=skip"]);
    let program = program.arg(trees.source()).arg(trees.destination());
    let full = CallPattern::of(&[SystemCall::PWRITE64]).fails(Errno::ENOSPC);
    let Intercept { run, hits, .. } = program.run_with([full]);
    assert!(run.failed(1).contains("ENOSPC"), "{}", run.stderr);
    // The record of the new tree cannot be written either, and the tree is built without one.
    assert_eq!(hits, 2);
    assert_eq!(number(&summary(&run), "failed"), 1);
}
