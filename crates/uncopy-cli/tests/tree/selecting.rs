//! Selection of what is copied, left alone and deleted.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use testbed::witness::Strace;
use testbed::{CallPattern, Case, Compared, Need, Program, SystemCall, assert_same_tree};
use uncopy::Errno;

use crate::tree::{Trees, cp, events, file_in, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] patterns_select,
        [] an_include_that_comes_first_leaves_the_rest_out,
        [] a_pattern_without_sense_is_misuse,
        [] only_what_is_older_is_updated,
        [] what_exists_is_ignored,
        [] a_mirror_loses_what_the_source_lost,
        [] what_is_left_out_is_not_deleted,
        [] an_empty_source_empties_nothing_unasked,
        [] no_more_is_deleted_than_allowed,
        [] nothing_is_deleted_where_the_source_cannot_be_listed,
        [] nothing_is_deleted_for_a_source_that_was_removed,
        [Need::Tool("strace")] a_dry_run_changes_nothing_and_reports_everything,
    ]
}

fn paths(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            found.insert(path.strip_prefix(root).unwrap().display().to_string());
            if path.symlink_metadata().unwrap().is_dir() {
                waiting.push(path);
            }
        }
    }
    found
}

fn set(paths: &[&str]) -> BTreeSet<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

fn sources() -> Trees {
    let trees = Trees::new();
    for name in ["a.c", "a.o", "sub/b.c", "sub/b.o", "sub/keep.o", "target/x", "sub/target/y"] {
        trees.file(name, name);
    }
    trees
}

fn patterns_select() {
    let trees = sources();
    trees.copy(cp().args(["--exclude", "*.o", "--include", "keep.o", "--exclude=/target/"]));
    let expected = ["a.c", "sub", "sub/b.c", "sub/keep.o", "sub/target", "sub/target/y"];
    assert_eq!(paths(&trees.destination()), set(&expected));
}

fn an_include_that_comes_first_leaves_the_rest_out() {
    let trees = sources();
    let run = trees.copy(cp().args(["--include=*.c", "--exclude=target/"]));
    assert_eq!(paths(&trees.destination()), set(&["a.c", "sub", "sub/b.c"]));
    assert_eq!(number(&summary(&run), "files"), 2);
}

fn a_pattern_without_sense_is_misuse() {
    let trees = sources();
    let run = trees.run(cp().arg("--exclude=[a"));
    assert!(run.failed(2).contains("[a"), "{}", run.stderr);
    assert!(!trees.destination().exists());
}

fn set_modified(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

fn only_what_is_older_is_updated() {
    let trees = Trees::new();
    for (name, source, destination) in [("older", 20, 10), ("same", 10, 10), ("newer", 10, 20)] {
        set_modified(&trees.file(name, "new"), source);
        set_modified(&file_in(&trees.destination(), name, "old"), destination);
    }
    trees.file("missing", "new");
    let run = trees.copy(cp().args(["-u", "-T"]));
    let read = |name: &str| fs::read_to_string(trees.destination().join(name)).unwrap();
    let found = ["older", "same", "newer", "missing"].map(read);
    assert_eq!(found, ["new", "old", "old", "new"]);
    assert_eq!(number(&summary(&run), "skipped"), 2);
}

fn what_exists_is_ignored() {
    let trees = Trees::new();
    trees.file("a", "new");
    trees.file("b", "new");
    file_in(&trees.destination(), "a", "old");
    trees.copy(cp().args(["--ignore-existing", "-T"]));
    assert_eq!(fs::read(trees.destination().join("a")).unwrap(), b"old");
    assert_eq!(fs::read(trees.destination().join("b")).unwrap(), b"new");
}

/// A source, and a destination that has more.
fn mirrors() -> Trees {
    let trees = sources();
    for name in ["a.c", "old.c", "sub/old.o", "gone/deep/down/file", "gone/other"] {
        file_in(&trees.destination(), name, "old");
    }
    symlink("/etc", trees.destination().join("link")).unwrap();
    trees
}

fn a_mirror_loses_what_the_source_lost() {
    let trees = mirrors();
    let mode = Permissions::from_mode(0o500);
    fs::set_permissions(trees.destination().join("gone/deep"), mode).unwrap();
    let kept = file_in(trees.to.path(), "outside/kept", "kept");
    symlink("../outside", trees.destination().join("out")).unwrap();
    let run = cp().args(["-T", "--delete"]).arg(trees.source()).arg(trees.destination()).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    assert!(kept.exists());
    // old.c, sub/old.o, two links, gone with four in it.
    assert_eq!(number(&summary(&run), "deleted"), 9, "{}", run.stdout);
    assert_eq!(events(&run, "deleted").len(), 5, "{}", run.stdout);
    let again = cp().args(["-T", "--delete"]).arg(trees.source()).arg(trees.destination()).run();
    assert_eq!(number(&summary(&again), "deleted"), 0);
}

fn what_is_left_out_is_not_deleted() {
    let trees = mirrors();
    let run = trees.copy(cp().args(["-T", "--delete", "--exclude=*.o", "--exclude=other"]));
    let left = paths(&trees.destination());
    for (name, stays) in [
        ("sub/old.o", true),
        ("gone/other", true),
        ("gone/deep/down/file", true),
        ("old.c", false),
        ("link", false),
    ] {
        assert_eq!(left.contains(name), stays, "{name}: {}", run.stdout);
    }
}

fn an_empty_source_empties_nothing_unasked() {
    let trees = Trees::new();
    file_in(&trees.destination(), "a/file", "old");
    let mirror = || cp().args(["-T", "--delete"]).arg(trees.source()).arg(trees.destination());
    let run = mirror().run();
    assert!(run.failed(1).contains("--delete-empty-source"), "{}", run.stderr);
    assert!(trees.destination().join("a/file").exists());
    let run = mirror().arg("--delete-empty-source").run();
    assert!(run.status.success(), "{}", run.stderr);
    assert!(paths(&trees.destination()).is_empty());
}

fn no_more_is_deleted_than_allowed() {
    let trees = mirrors();
    let before = paths(&trees.destination());
    let mirror = |most: &str| {
        let flags = ["-T", "--delete", "--max-delete", most];
        cp().args(flags).arg(trees.source()).arg(trees.destination()).run()
    };
    let run = mirror("0");
    assert!(run.failed(1).contains("--max-delete is reached; raise it"), "{}", run.stderr);
    // The first entry stands for all; programs read of each.
    assert_eq!(run.stderr.lines().filter(|line| line.contains("cannot delete")).count(), 1);
    let failed = run.receipts().iter().filter(|event| event.value()["event"] == "failed").count();
    let more = format!("{} more entries were not deleted", failed - 1);
    assert!(failed > 2 && run.stderr.contains(&more), "{failed}: {}", run.stderr);
    assert!(paths(&trees.destination()).is_superset(&before));
    let run = mirror("3");
    run.failed(1);
    assert!(number(&summary(&run), "deleted") <= 3, "{}", run.stdout);
    assert!(trees.destination().join("gone/other").exists(), "a directory goes whole or not");
    assert!(mirror("100").status.success());
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}

fn nothing_is_deleted_where_the_source_cannot_be_listed() {
    let trees = mirrors();
    let program = cp().args(["-T", "--delete", "--jobs=1"]);
    let program = program.arg(trees.source()).arg(trees.destination());
    let listing = CallPattern::of(&[SystemCall::GETDENTS64]).on(trees.source()).nth(1);
    let run = program.run_with([listing.fails(Errno::EIO)]).run;
    run.failed(1);
    let left = paths(&trees.destination());
    assert!(left.contains("old.c") && left.contains("gone/other"), "{left:?}");
    assert_eq!(number(&summary(&run), "deleted"), 0);
}

fn a_dry_run_changes_nothing_and_reports_everything() {
    let trees = mirrors();
    fs::hard_link(trees.source().join("a.c"), trees.source().join("sub/linked")).unwrap();
    trees.file("large", vec![1; 3 << 20]);
    let flags = ["-T", "--delete", "--jobs=1"];
    let dry = cp().args(flags).arg("--dry-run").arg(trees.source()).arg(trees.destination());
    let before = paths(&trees.destination());
    let (run, trace) = Strace::new(&dry).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(paths(&trees.destination()), before);
    let changing = ["mkdirat", "linkat", "renameat2", "unlinkat", "fchmod", "utimensat"];
    assert!(trace.named(&changing).is_empty(), "{:#?}", trace.named(&changing));
    let planned = |action: &str| {
        let would = events(&run, "would").into_iter();
        would.filter(|event| event.value()["action"] == action).collect::<Vec<_>>()
    };
    assert_eq!(planned("replace").len(), 1, "{}", run.stdout);
    assert_eq!(planned("link").len(), 1, "{}", run.stdout);
    assert_eq!(planned("delete").len(), 4, "{}", run.stdout);
    let large = planned("make")
        .into_iter()
        .find(|event| event.value()["source"].as_str().unwrap().ends_with("large"));
    assert!(large.unwrap().value()["mechanism"].is_string(), "{}", run.stdout);

    // The real run does what the dry run reported.
    let real = cp().args(flags).arg(trees.source()).arg(trees.destination()).run();
    assert!(real.status.success(), "{}", real.stderr);
    for key in ["files", "directories", "hard_links", "deleted", "symlinks"] {
        let numbers = [&run, &real].map(|run| number(&summary(run), key));
        // Existing directories are not reported.
        assert!(numbers[0] == numbers[1] || key == "directories", "{key}: {numbers:?}");
    }
    // To a destination that is not there, in words.
    let silent = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["cp", "-r", "--dry-run"]);
    let run = silent.arg(trees.source()).arg(trees.to.join("new")).run();
    assert!(run.stdout.contains("would make the directory"), "{}", run.stdout);
    assert!(!trees.to.join("new").exists());
}

/// A directory that is removed while it is copied has lost everything at once.
fn nothing_is_deleted_for_a_source_that_was_removed() {
    let trees = Trees::apart();
    for number in 0..10 {
        trees.file(&format!("d/{number}"), "x");
    }
    file_in(&trees.destination(), "d/precious", "x");
    let program = cp().args(["-T", "--delete", "--jobs=1"]);
    let program = program.arg(trees.source()).arg(trees.destination());
    let stopped = program.stop_after(SystemCall::WRITE, 3);
    fs::remove_dir_all(trees.source().join("d")).unwrap();
    let run = stopped.resume().run;
    assert!(run.failed(1).contains("was removed meanwhile"), "{}", run.stderr);
    assert!(trees.destination().join("d/precious").exists());
}
