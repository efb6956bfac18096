//! Kills: a tree that was not there appears whole or not at all.

use std::fs;

use testbed::{Case, Compared, SystemCall, assert_same_tree};

use crate::tree::{Trees, cp};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_kill_leaves_what_the_next_run_removes,
        [] a_begun_tree_goes_when_the_destination_was_made_otherwise,
    ]
}

fn filled() -> Trees {
    let trees = Trees::apart();
    for number in 0..50 {
        trees.file(&format!("{}/{number}", number / 10), vec![number; 5000]);
    }
    trees
}

fn a_kill_leaves_what_the_next_run_removes() {
    let trees = filled();
    let program = cp().arg("--jobs=1").arg(trees.source()).arg(trees.destination());
    program.stop_after(SystemCall::WRITE, 20).kill();
    assert!(!trees.destination().exists());
    let left = trees.to.strangers(&[]);
    assert_eq!(left.len(), 2, "the tree, and what shows whose it is: {left:?}");
    for end in [".tree", ".record"] {
        assert!(left.iter().any(|name| name.starts_with(".uncopy-") && name.ends_with(end)));
    }
    trees.copy(cp());
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());

    // One whose lock is held is another run's.
    fs::remove_dir_all(trees.destination()).unwrap();
    let stopped = program.stop_after(SystemCall::WRITE, 20);
    let other = trees.run(cp());
    assert!(other.status.success(), "{}", other.stderr);
    let run = stopped.resume().run;
    assert!(run.failed(1).contains("EEXIST"), "{}", run.stderr);
    trees.assert_no_strangers();
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}

/// Its journal was removed, and it stayed for ever: nothing proved any more whose it was.
fn a_begun_tree_goes_when_the_destination_was_made_otherwise() {
    let trees = filled();
    let resuming = cp().args(["--resume", "--jobs=1"]).arg(trees.source()).arg(trees.destination());
    resuming.stop_after(SystemCall::WRITE, 40).kill();
    assert!(!trees.destination().exists());
    assert!(trees.run(cp()).status.success());
    assert!(trees.to.strangers(&[]).iter().any(|name| name.ends_with(".tree")));
    let run = resuming.arg("-T").run();
    assert!(run.status.success(), "{}", run.stderr);
    assert!(!run.stderr.contains("not known whether it is needed"), "{}", run.stderr);
    trees.assert_no_strangers();
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}
