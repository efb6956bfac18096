//! Entries that cannot be copied: reported, counted, and the end of the job only on request.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use testbed::witness::Strace;
use testbed::{Case, Need, Place, Program};

use crate::tree::{Trees, cp, events, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Root] what_may_not_be_read_is_reported_and_the_rest_copied,
        [Need::Root] abort_leaves_nothing,
        [] flags_of_trees_need_recursive,
        [] what_makes_no_sense_with_trees_is_refused,
        [Need::Tool("strace")] each_call_fails_once,
        [Need::Tool("strace")] each_call_fails_once_while_merging,
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
    for flag in ["--links=skip", "--specials", "--retries=1", "--jobs=2", "--progress"] {
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

const ERRNOS: [&str; 6] = ["EIO", "ENOSPC", "EINTR", "EACCES", "ENOSYS", "EPERM"];

/// Whatever call fails: there is a whole copy or a message, and never half a file or a leftover.
fn each_fails_once(existing: bool) {
    let trees = Trees::new();
    trees.file("a/small", "small");
    trees.file("a/large", vec![5; 100_000]);
    fs::hard_link(trees.source().join("a/small"), trees.source().join("b")).unwrap();
    std::os::unix::fs::symlink("b", trees.source().join("c")).unwrap();
    let program = cp().args(["--jobs=1", "-pT"]).arg(trees.source()).arg(trees.destination());
    let reset = || {
        let _ = fs::remove_dir_all(trees.destination());
        if existing {
            crate::tree::file_in(&trees.destination(), "a/small", "old");
            crate::tree::file_in(&trees.destination(), "a/large", "old");
        }
    };
    reset();
    let (run, trace) = Strace::new(&program).run();
    assert!(run.status.success(), "{}", run.stderr);
    let of_the_copy: Vec<_> = {
        let touches = |call: &testbed::witness::Call| {
            call.name != "execve"
                && (call.mentions(trees.from.path()) || call.mentions(trees.to.path()))
        };
        trace.calls.iter().filter(|call| touches(call) && call.name != "close").collect()
    };
    assert!(of_the_copy.len() > 30, "{of_the_copy:#?}");
    let (step, of_each) = testbed::by_extent([(7, 1), (1, 2), (1, 2)]);
    for (index, call) in of_the_copy.into_iter().enumerate().step_by(step) {
        // Two for each call, others for the next.
        for errno in [ERRNOS[index % 3], ERRNOS[3 + index % 3]].into_iter().take(of_each) {
            reset();
            let fault = format!("{}:error={errno}:when={}", call.name, call.nth);
            let run = Strace::new(&program).inject(&fault).outcome();
            let context = format!("{errno} from {} number {}: {run:?}", call.name, call.nth);
            if run.status.code() == Some(127) {
                // The dynamic loader met it.
                continue;
            }
            check(&trees, existing, &run, &call.name, &context);
        }
    }
}

fn check(trees: &Trees, existing: bool, run: &testbed::Run, call: &str, context: &str) {
    for name in ["a/small", "a/large", "b"] {
        let new = fs::read(trees.source().join(name)).unwrap();
        match fs::read(trees.destination().join(name)) {
            Ok(found) if found == new => {}
            Ok(found) => {
                assert!(existing && found == b"old", "half of {name}: {context}");
                assert!(!run.status.success(), "{name} is the old one: {context}");
            }
            Err(_) => assert!(!run.status.success(), "no {name}: {context}"),
        }
    }
    if !run.status.success() {
        assert!(!run.stderr.is_empty(), "without a word: {context}");
    }
    // An entry stays if the very call that would remove it failed.
    let strangers = trees.to.strangers(&["destination"]);
    let removing = matches!(call, "unlinkat" | "getdents64");
    // And a tree whose destination takes no more is kept, and reported by its name.
    let is_reported = !existing && strangers.iter().any(|name| run.stderr.contains(name));
    assert!(strangers.is_empty() || removing || is_reported, "{strangers:?}: {context}");
    for stranger in strangers {
        let path = trees.to.join(stranger);
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.unwrap();
    }
}

fn each_call_fails_once() {
    each_fails_once(false);
}

fn each_call_fails_once_while_merging() {
    each_fails_once(true);
}
