//! Trees that are compressed on their way, and that come back.

use std::fs;
use std::path::{Path, PathBuf};

use testbed::{
    Case, Compared, Fault, Intercept, Place, Program, Scratch, assert_same_tree, patterned,
};

use crate::faults::trees::reported_tree;
use crate::faults::{FEW, Scene, cannot_tidy, check_truth, ends_for_want_of_memory, uncopy};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_tree_is_compressed,
        [] a_tree_is_decompressed,
    ]
}

/// A file that gets smaller, with two names, and one that does not.
const FILES: [&str; 3] = ["a/text", "a/tiny", "again"];

struct Trees {
    from: Scratch,
    to: Scratch,
}

impl Trees {
    fn new() -> Trees {
        let trees = Trees { from: Place::Disk.scratch(), to: Place::Disk.scratch() };
        let plain = trees.plain();
        fs::create_dir_all(plain.join("a")).unwrap();
        let lines = (0..9000).map(|line| format!("line {line} of a text\n"));
        fs::write(plain.join("a/text"), lines.collect::<String>()).unwrap();
        fs::write(plain.join("a/tiny"), patterned(0, 20)).unwrap();
        fs::hard_link(plain.join("a/text"), plain.join("again")).unwrap();
        trees
    }

    fn plain(&self) -> PathBuf {
        self.from.join("plain")
    }

    fn destination(&self) -> PathBuf {
        self.to.join("destination")
    }

    /// Every call of a copy fails; `check` looks at what is in the destination.
    fn each(&self, source: &Path, flag: &str, look: &dyn Fn(bool, &Fault)) {
        let program = copy(&["--json", "--jobs=1", "-p", flag], source, &self.destination());
        let reset = || {
            for name in self.to.strangers(&[]) {
                remove(&self.to.join(name));
            }
        };
        let check = |intercept: &Intercept, fault: &Fault| {
            let run = &intercept.run;
            let succeeded = run.status.success();
            look(succeeded, fault);
            if succeeded {
                for receipt in run.receipts().iter().filter(|r| r.value()["event"] == "copied") {
                    check_truth(receipt, intercept, fault);
                }
            }
            let mut strangers = self.to.strangers(&["destination"]);
            if let Some(tree) = reported_tree(run) {
                // A new tree whose destination takes no more is kept, with its journal.
                strangers.retain(|name| !name.ends_with(".journal") && *name != tree);
            }
            let listing = fault.call().name() == "getdents64" && !succeeded;
            let excused =
                cannot_tidy(fault) || ends_for_want_of_memory(intercept, fault) || listing;
            assert!(strangers.is_empty() || excused, "{fault}: {strangers:?}: {run:?}");
        };
        Scene { reset: &reset, check: &check, most: FEW, ..Scene::new(program) }.each();
    }
}

fn copy(flags: &[&str], source: &Path, destination: &Path) -> Program {
    uncopy().args(["cp", "-r", "-T"]).args(flags).arg(source).arg(destination)
}

fn remove(path: &Path) {
    if path.is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
}

/// Whatever is in `found` is whole, and after a success all of it is there.
fn assert_whole(plain: &Path, found: &Path, succeeded: bool, fault: &Fault) {
    for name in FILES {
        match fs::read(found.join(name)) {
            Ok(bytes) => {
                let is_whole = bytes == fs::read(plain.join(name)).unwrap();
                assert!(is_whole, "{fault}: half of {name}");
            }
            Err(_) => assert!(!succeeded, "{fault}: no {name}"),
        }
    }
}

fn a_tree_is_compressed() {
    let trees = Trees::new();
    let back = trees.from.join("back");
    let look = |succeeded: bool, fault: &Fault| {
        if !trees.destination().exists() {
            return assert!(!succeeded, "{fault}: no tree");
        }
        // Whatever has its name there can be read.
        let run = copy(&["--decompress"], &trees.destination(), &back).run();
        assert!(run.status.success(), "{fault}: {run:?}");
        assert_whole(&trees.plain(), &back, succeeded, fault);
        remove(&back);
    };
    trees.each(&trees.plain(), "--compress=zstd", &look);
    // Without a fault it compresses.
    if trees.destination().exists() {
        remove(&trees.destination());
    }
    let run = copy(&["--compress=zstd"], &trees.plain(), &trees.destination()).run();
    assert!(run.status.success() && trees.destination().join("a/text.zst").exists(), "{run:?}");
}

fn a_tree_is_decompressed() {
    let trees = Trees::new();
    let compressed = trees.from.join("compressed");
    let run = copy(&["-p", "--compress=zstd"], &trees.plain(), &compressed).run();
    assert!(run.status.success() && compressed.join("a/text.zst").exists(), "{run:?}");
    let look = |succeeded: bool, fault: &Fault| {
        assert_whole(&trees.plain(), &trees.destination(), succeeded, fault);
    };
    trees.each(&compressed, "--decompress", &look);
    let compared = Compared { modes: true, times: true, ..Compared::default() };
    let run = copy(&["-p", "--decompress"], &compressed, &trees.from.join("back")).run();
    assert!(run.status.success(), "{run:?}");
    assert_same_tree(&trees.plain(), &trees.from.join("back"), compared);
}
