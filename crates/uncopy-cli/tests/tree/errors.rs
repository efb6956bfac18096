//! Entries that cannot be copied: reported, counted, and the end of the job only on request.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use testbed::{Case, Need, Place, Program};

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Root] what_may_not_be_read_is_reported_and_the_rest_copied,
        [Need::Root] abort_leaves_nothing,
        [] flags_of_trees_need_recursive,
        [] what_makes_no_sense_with_trees_is_refused,
    ]
}

const NOBODY: u32 = 65534;

/// `uncopy cp -r --json` as a user without privileges, from a place that everybody can reach.
pub(crate) fn cp_as_nobody() -> Program {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    let program = COPY.get_or_init(|| {
        let copy = Place::Tmpfs.path().join("uncopy-tree");
        testbed::run_tool("cp", [env!("CARGO_BIN_EXE_uncopy").as_ref(), copy.as_os_str()]);
        copy
    });
    Program::new(program).args(["cp", "-r", "--json"]).as_user(NOBODY)
}

fn unreadable() -> Trees {
    let trees = Trees::at(Place::Tmpfs, Place::Tmpfs);
    trees.file("a/fine", "x");
    trees.file("a/secret", "x");
    trees.file("closed/file", "x");
    for name in ["a/secret", "closed"] {
        let path = trees.source().join(name);
        fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
    }
    fs::set_permissions(trees.to.path(), Permissions::from_mode(0o777)).unwrap();
    trees
}

fn what_may_not_be_read_is_reported_and_the_rest_copied() {
    let trees = unreadable();
    let run = trees.run(cp_as_nobody());
    assert!(run.failed(1).contains("a/secret"), "{}", run.stderr);
    assert_eq!(number(&summary(&run), "failed"), 2, "{}", run.stdout);
    let failed = events(&run, "failed");
    assert!(failed.iter().all(|event| event.value()["errno_name"] == "EACCES"), "{}", run.stdout);
    assert_eq!(fs::read(trees.destination().join("a/fine")).unwrap(), b"x");
    assert!(!trees.destination().join("a/secret").exists());
    trees.assert_no_strangers();
}

fn abort_leaves_nothing() {
    let trees = unreadable();
    let run = trees.run(cp_as_nobody().arg("--on-error=abort"));
    run.failed(1);
    // Another worker may have met the other one at the same moment.
    let reports = ["a/secret:", "closed:"].map(|name| run.stderr.matches(name).count());
    assert!(reports.contains(&1) && reports.iter().all(|times| *times <= 1), "{}", run.stderr);
    assert!(!trees.destination().exists());
    trees.assert_no_strangers();
}

fn flags_of_trees_need_recursive() {
    let trees = Trees::new();
    let plain = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp");
    for flag in ["--specials", "--retries=1", "--jobs=2", "--progress"] {
        trees.run(plain.clone().arg(flag)).failed(2);
    }
    assert!(trees.run(plain).failed(1).contains("a directory"));
}

fn what_makes_no_sense_with_trees_is_refused() {
    let trees = Trees::new();
    for flag in ["--in-place", "--copy-contents", "--jobs=0", "--links=some"] {
        trees.run(cp().arg(flag)).failed(2);
        assert!(!trees.destination().exists());
    }
}
