//! Small files that nobody has changed for some seconds are read before they are looked at, and looked
//! at once: what changes meanwhile is noticed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use testbed::witness::{Call, Strace};
use testbed::{Case, Compared, Need, Place, Program, assert_same_tree};

use crate::{Trees, cp};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::At(Place::Ext4), Need::Tool("strace")] old_files_are_looked_at_once,
        [Need::At(Place::Ext4), Need::Tool("strace")] young_files_are_looked_at_twice,
        [Need::At(Place::Ext4), Need::Tool("strace")] what_changes_after_the_read_is_read_again,
        [Need::At(Place::Ext4)] one_that_is_larger_than_the_last,
    ]
}

const FILES: usize = 40;
const OLD: [u8; 4096] = [b'o'; 4096];

fn name(number: usize) -> String {
    format!("{number:02}")
}

fn trees() -> Trees {
    let trees = Trees::at(Place::Ext4, Place::Ext4);
    for number in 0..FILES {
        trees.file(&name(number), OLD);
    }
    trees
}

/// Until what was made before counts as old.
fn grow_old() {
    sleep(Duration::from_secs(6));
}

fn program(trees: &Trees) -> Program {
    // No records: who wants to hear of each file has them copied one by one.
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy"));
    program.args(["cp", "-r", "--jobs=1"]).arg(trees.source()).arg(trees.destination())
}

/// How often regular files of the source were looked at, and read.
fn looks_and_reads(trees: &Trees) -> (usize, usize) {
    let (run, trace) = Strace::new(&program(trees)).run();
    assert!(run.status.success(), "{}", run.stderr);
    let source = trees.source();
    let is_file = |call: &&&Call| {
        let of_source = call.arguments.contains(source.to_str().unwrap());
        of_source && call.arguments.contains("S_IFREG")
    };
    let looks = trace.named(&["statx"]).iter().filter(is_file).count();
    let is_read = |call: &&&Call| call.arguments.contains(source.to_str().unwrap());
    (looks, trace.named(&["pread64"]).iter().filter(is_read).count())
}

fn old_files_are_looked_at_once() {
    let trees = trees();
    grow_old();
    // The first one tells what the next are likely to be.
    assert_eq!(looks_and_reads(&trees), (FILES + 1, FILES));
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
}

fn young_files_are_looked_at_twice() {
    let trees = trees();
    grow_old();
    loop {
        let begin = Instant::now();
        for number in 0..FILES {
            let path = trees.source().join(name(number));
            let permissions = fs::metadata(&path).unwrap().permissions();
            fs::set_permissions(&path, permissions).unwrap();
        }
        let calls = looks_and_reads(&trees);
        // On a machine that is busy they may have grown old meanwhile.
        if begin.elapsed() < Duration::from_secs(3) {
            assert_eq!(calls, (2 * FILES, FILES));
            return;
        }
        fs::remove_dir_all(trees.destination()).unwrap();
    }
}

/// What somebody does to a file between two calls of the program.
type Change = fn(&Path);

const CHANGES: [Change; 4] = [
    |path| drop(File::options().write(true).open(path).unwrap().set_len(100)),
    |path| fs::write(path, [b'n'; 4096]).unwrap(),
    |path| fs::write(path, [b'n'; 9000]).unwrap(),
    |path| {
        let before = SystemTime::now() - Duration::from_secs(1000);
        fs::write(path, [b'n'; 4096]).unwrap();
        File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
    },
];

/// The regular file of the source that a process has open.
fn open_source(process: i32, source: &Path) -> PathBuf {
    let links = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    links
        .map(|link| fs::read_link(link.unwrap().path()).unwrap())
        .find(|path| path.parent() == Some(source) && path.is_file())
        .expect("it is copying a file")
}

fn what_changes_after_the_read_is_read_again() {
    for change in CHANGES {
        let trees = trees();
        grow_old();
        // Two or three are the dynamic linker's.
        let stopped = Strace::new(&program(&trees)).stop_after("pread64", 20);
        let changed = open_source(stopped.process_id(), &trees.source());
        change(&changed);
        let (run, _) = stopped.resume();
        assert!(run.status.success(), "{}", run.stderr);
        assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    }
}

/// A part of it is read in vain.
fn one_that_is_larger_than_the_last() {
    let trees = trees();
    for (name, bytes) in [("a", 16 << 10), ("b", (16 << 10) + 1), ("c", 70_000), ("d", 1 << 20)] {
        trees.file(name, vec![b'x'; bytes]);
    }
    trees.file("empty", "");
    grow_old();
    let run = program(&trees).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    let again = trees.to.join("again");
    let run = cp().args(["-T"]).arg(trees.source()).arg(&again).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_same_tree(&trees.source(), &again, Compared::default());
}
