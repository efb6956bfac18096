//! Whole trees.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use testbed::{
    CallPattern, Case, Compared, Content, Fault, Intercept, Place, Program, Receipt, Run, Scratch,
    SystemCall, assert_same_tree,
};

use crate::faults::{FEW, Scene, cannot_tidy, check_truth, ends_for_want_of_memory, uncopy};

pub(crate) fn cases() -> Vec<Case> {
    let plain = testbed::cases![[] to_a_new_place, [] merged_into_another];
    let mut cases = testbed::on_each_filesystem(plain, &[]);
    cases.extend(testbed::cases![
        [] by_several_workers,
        [] with_a_journal,
        [] mirrored_and_audited,
        [] with_links_followed,
        [] a_large_file_with_a_journal,
        [] a_resumed_run,
    ]);
    cases
}

struct Tree {
    from: Scratch,
    to: Scratch,
}

pub(super) const FILES: [&str; 4] = ["a/small", "a/large", "a/b/sparse", "linked"];
const LARGE: &str = "a/b/larger";
const OLD: &[u8] = b"old";

/// Puts old files where two of the copies go.
pub(super) fn put_old(destination: &Path) {
    fs::create_dir_all(destination.join("a")).unwrap();
    fs::write(destination.join("a/small"), OLD).unwrap();
    fs::write(destination.join("a/large"), OLD).unwrap();
}

/// Under each name is the whole new file; or, after a failure, the old one if there was one, or nothing.
pub(super) fn assert_whole_or_old(
    source: &Path,
    destination: &Path,
    has_old: bool,
    run: &Run,
    fault: &Fault,
) {
    for name in FILES {
        let new = fs::read(source.join(name)).unwrap();
        match fs::read(destination.join(name)) {
            Ok(found) if found == new => {}
            Ok(found) => {
                assert!(has_old && found == OLD, "{fault}: half of {name}: {run:?}");
                assert!(!run.status.success(), "{fault}: the old {name}: {run:?}");
            }
            Err(_) => assert!(!run.status.success(), "{fault}: no {name}: {run:?}"),
        }
    }
}

impl Tree {
    /// Makes a tree with a few entries of every kind.
    fn new() -> Tree {
        let tree = Tree { from: Place::Disk.scratch(), to: Place::Disk.scratch() };
        let source = tree.source();
        fs::create_dir_all(source.join("a/b")).unwrap();
        fs::create_dir(source.join("empty")).unwrap();
        fs::write(source.join("a/small"), "small").unwrap();
        fs::write(source.join("a/large"), vec![5; 200_003]).unwrap();
        drop(Content::sparse(300_000, &[(0, 4096), (200_000, 10)]).write(&source.join(FILES[2])));
        fs::hard_link(source.join("a/small"), source.join("linked")).unwrap();
        symlink("a/small", source.join("link")).unwrap();
        let mode = Mode::from_raw_mode(0o640);
        rustix::fs::mknodat(CWD, source.join("fifo"), FileType::Fifo, mode, 0).unwrap();
        for path in [source.join("a/large"), source.join("a/small"), source.join("a")] {
            let _ = rustix::fs::setxattr(path, "user.a", b"b", XattrFlags::empty());
        }
        tree
    }

    /// And a file that is large enough to be gone on with in its middle. Most of it is a hole.
    fn with_a_large_file(mebibytes: u64) -> Tree {
        let tree = Tree::new();
        let data = [(0, 1 << 20), (20 << 20, 1 << 20), (33 << 20, 1 << 20)];
        drop(Content::sparse((mebibytes << 20) + 1, &data).write(&tree.source().join(LARGE)));
        tree
    }

    fn source(&self) -> PathBuf {
        self.from.join("source")
    }

    fn destination(&self) -> PathBuf {
        self.to.join("destination")
    }

    fn program(&self, flags: &[&str]) -> Program {
        let program = uncopy().args(["cp", "-r", "--json", "--specials", "-T"]).args(flags);
        program.arg(self.source()).arg(self.destination())
    }

    fn reset(&self, has_old: bool) {
        for name in self.to.strangers(&[]) {
            let path = self.to.join(name);
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
        if has_old {
            put_old(&self.destination());
        }
    }

    fn each(&self, flags: &[&str], has_old: bool) {
        let reset = || self.reset(has_old);
        let check = |intercept: &Intercept, fault: &Fault| {
            self.check(intercept, fault, has_old);
            check_strangers(&self.to, &["destination"], intercept, fault);
        };
        let program = self.program(flags);
        Scene { reset: &reset, check: &check, ..Scene::new(program) }.each();
    }

    fn check(&self, intercept: &Intercept, fault: &Fault, has_old: bool) {
        self.check_files(intercept, fault, has_old);
        let run = &intercept.run;
        if run.status.success() {
            // Where a name cannot be a hard link it is a copy, as its record says.
            if !run.stdout.contains("\"not_linked\"") {
                assert_same_tree(&self.source(), &self.destination(), Compared::default());
            }
        }
    }

    /// Checks that hold for every way to treat links.
    fn check_files(&self, intercept: &Intercept, fault: &Fault, has_old: bool) {
        let run = &intercept.run;
        assert_whole_or_old(&self.source(), &self.destination(), has_old, run, fault);
        if run.status.success() {
            for receipt in run.receipts() {
                if receipt.value()["event"] == "copied" {
                    check_truth(&receipt, intercept, fault);
                }
            }
        } else if !ends_for_want_of_memory(intercept, fault) && !run.stderr.is_empty() {
            assert!(run.stderr.contains("cannot "), "{fault}: {}", run.stderr);
        }
        self.check_counts(intercept, fault);
    }

    /// The summary counts what happened.
    fn check_counts(&self, intercept: &Intercept, fault: &Fault) {
        let run = &intercept.run;
        let receipts = if run.stdout.ends_with('\n') { run.receipts() } else { return };
        let Some(summary) = receipts.iter().find(|r| r.value()["event"] == "summary") else {
            assert!(!run.status.success(), "{fault}: no summary: {run:?}");
            return;
        };
        if fault.call().name() == "write" && run.stderr.contains("standard output") {
            // The record of something that was done is what could not be written.
            assert!(!run.status.success(), "{fault}: {run:?}");
            return;
        }
        let copied = receipts.iter().filter(|r| r.value()["event"] == "copied").count() as u64;
        let discarded = receipts.iter().filter(|r| r.value()["event"] == "discarded");
        let discarded: u64 = discarded.filter_map(|r| r.value()["files"].as_u64()).sum();
        let failed = receipts.iter().filter(|r| r.value()["event"] == "failed").count();
        if let Some(counted) = summary.value()["failed"].as_u64() {
            assert_eq!(counted, failed as u64, "{fault}: {}", run.stdout);
        }
        if let Some(files) = summary.value()["files"].as_u64() {
            assert_eq!(files, copied - discarded, "{fault}: {}", run.stdout);
        }
    }
}

/// Nothing is left in a directory but these names, of which the first is the destination.
pub(crate) fn check_strangers(
    to: &Scratch,
    expected: &[&str],
    intercept: &Intercept,
    fault: &Fault,
) {
    let mut strangers = to.strangers(expected);
    if let Some(tree) = reported_tree(&intercept.run) {
        // A new tree whose destination takes no more is kept, with its journal.
        assert!(!to.join(expected[0]).exists(), "{fault}: {:?}", intercept.run);
        strangers.retain(|name| !name.ends_with(".journal") && *name != tree);
    }
    let aborted = ends_for_want_of_memory(intercept, fault);
    let listing = fault.call().name() == "getdents64" && !intercept.run.status.success();
    let excused = cannot_tidy(fault) || aborted || listing;
    assert!(strangers.is_empty() || excused, "{fault}: {strangers:?}: {:?}", intercept.run);
}

/// The name of a tree that a run left unfinished, from its message and its records.
pub(crate) fn reported_tree(run: &Run) -> Option<String> {
    let line = run.stdout.lines().find(|line| line.contains("\"event\":\"incomplete\""))?;
    let incomplete = Receipt::new(line);
    let path = PathBuf::from(incomplete.value()["path"].as_str()?);
    assert!(run.stderr.contains(&*path.to_string_lossy()), "{run:?}");
    Some(path.file_name()?.to_string_lossy().into_owned())
}

fn to_a_new_place() {
    Tree::new().each(&["--jobs=1", "-p"], false);
}

fn merged_into_another() {
    Tree::new().each(&["--jobs=1", "--preserve=all"], true);
}

fn by_several_workers() {
    Tree::new().each(&["--jobs=4", "--on-error=abort"], false);
}

/// The next run continues the work that a run with a fault left.
fn with_a_journal() {
    let tree = Tree::new();
    gone_on_with(&tree, &["--jobs=1", "-p", "--resume"], &|| (), usize::MAX);
}

fn a_large_file_with_a_journal() {
    let tree = Tree::with_a_large_file(34);
    gone_on_with(&tree, &["--jobs=1", "-p", "--resume"], &|| (), FEW);
}

/// The run with the fault goes on itself with what another left in the middle of a large file.
fn a_resumed_run() {
    // It is noted before it has a name; from 64 MiB on its chunks are too, and each run hashes them.
    let tree = Tree::with_a_large_file(testbed::by_extent([34, 34, 80]));
    let flags = ["--jobs=1", "-p", "--resume", "--on-error=abort"];
    // The large file is all written, and does not get its name.
    let before = tree.program(&flags);
    let begin = || {
        let kill = CallPattern::of(&[SystemCall::RENAMEAT2]).kills();
        let begun = before.run_with([kill]).run;
        assert!(!begun.status.success(), "{begun:?}");
        let journal = testbed::journal::find(tree.to.path()).expect("it is there after a kill");
        assert_eq!(testbed::journal::parts(&journal).len(), 1, "{begun:?}");
    };
    gone_on_with(&tree, &flags, &begin, FEW);
}

/// Whatever fails in a run after `begin`, the next is a whole one.
fn gone_on_with(tree: &Tree, flags: &[&str], begin: &dyn Fn(), most: usize) {
    let reset = || {
        tree.reset(false);
        begin();
    };
    let program = tree.program(flags);
    let check = |intercept: &Intercept, fault: &Fault| {
        tree.check(intercept, fault, false);
        let again = program.run();
        let succeeded = again.status.success();
        // The journal itself may be what was written in part, which is said, and by its name.
        assert!(succeeded, "{fault}: {again:?} after {:?}", intercept.run);
        let compared = Compared { modes: true, ..Compared::default() };
        assert_same_tree(&tree.source(), &tree.destination(), compared);
        let left = tree.to.strangers(&["destination"]);
        let excused = cannot_tidy(fault) || ends_for_want_of_memory(intercept, fault);
        assert!(left.is_empty() || excused, "{fault}: {left:?} after {:?}", intercept.run);
    };
    let scene = Scene { reset: &reset, check: &check, most, ..Scene::new(program.clone()) };
    scene.each();
}

/// A link is a file then.
fn with_links_followed() {
    let tree = Tree::new();
    let reset = || tree.reset(false);
    let followed = tree.destination().join("link");
    let check = |intercept: &Intercept, fault: &Fault| {
        tree.check_files(intercept, fault, false);
        check_strangers(&tree.to, &["destination"], intercept, fault);
        match followed.symlink_metadata() {
            Ok(metadata) => {
                assert!(metadata.is_file(), "{fault}: the link itself");
                assert_eq!(fs::read(&followed).unwrap(), b"small", "{fault}: half of it");
            }
            Err(_) => assert!(!intercept.run.status.success(), "{fault}: no file for the link"),
        }
    };
    let program = tree.program(&["--jobs=1", "-p", "--links=follow"]);
    Scene { reset: &reset, check: &check, ..Scene::new(program) }.each();
}

fn mirrored_and_audited() {
    let tree = Tree::new();
    let log = tree.to.join("log");
    let reset = || {
        tree.reset(true);
        fs::write(tree.destination().join("strange"), "x").unwrap();
        fs::create_dir_all(tree.destination().join("b/c")).unwrap();
    };
    let check = |intercept: &Intercept, fault: &Fault| {
        tree.check(intercept, fault, true);
        check_strangers(&tree.to, &["destination", "log"], intercept, fault);
        if log.exists() {
            let verified = uncopy().args(["audit", "verify"]).arg(&log).run();
            // Cut off, perhaps; but never a chain that does not hold.
            let cut = !verified.status.success() && !intercept.run.status.success();
            assert!(verified.status.success() || cut, "{fault}: {verified:?}");
        }
    };
    let text = log.to_string_lossy().into_owned();
    let program = tree.program(&["--jobs=1", "--delete", "--audit", &text]);
    Scene { reset: &reset, check: &check, ..Scene::new(program) }.each();
}
