//! Trees that are deeper or wider than descriptors and paths reach.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, mkdirat, openat};
use testbed::{Case, Program, by_extent};

use crate::tree::{Trees, cp, number, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] three_thousand_levels,
        [] three_thousand_levels_with_few_descriptors,
        [] more_directories_than_descriptors,
        [] a_wide_directory,
    ]
}

/// Names of six bytes: at 700 levels a path is longer than the kernel takes (`PATH_MAX`).
fn levels() -> usize {
    by_extent([800, 3000, 3000])
}

fn open(directory: &OwnedFd, name: &str, flags: OFlags) -> OwnedFd {
    openat(directory, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o600)).unwrap()
}

fn root(path: &std::path::Path) -> OwnedFd {
    std::fs::File::open(path).unwrap().into()
}

/// `level/level/…`, with a file in each tenth one.
fn dig(path: &std::path::Path, levels: usize) {
    let mut at = root(path);
    for level in 0..levels {
        mkdirat(&at, "level", Mode::from_raw_mode(0o755)).unwrap();
        at = open(&at, "level", OFlags::DIRECTORY);
        if level % 10 == 0 {
            let file = open(&at, "file", OFlags::CREATE | OFlags::WRONLY);
            rustix::io::write(&file, format!("{level}").as_bytes()).unwrap();
        }
    }
}

#[track_caller]
fn assert_dug(path: &std::path::Path, levels: usize) {
    let mut at = root(path);
    for level in 0..levels {
        at = open(&at, "level", OFlags::DIRECTORY);
        if level % 10 == 0 {
            let file = open(&at, "file", OFlags::RDONLY);
            let mut bytes = [0; 16];
            let n = rustix::io::read(&file, &mut bytes).unwrap();
            assert_eq!(bytes[..n], *format!("{level}").as_bytes());
        }
    }
    let names = rustix::fs::Dir::read_from(&at).unwrap();
    let more =
        names.filter(|name| !name.as_ref().unwrap().file_name().to_bytes().starts_with(b"."));
    assert_eq!(more.count(), 0);
}

fn with_descriptors(program: Program, most: u32) -> Program {
    program.through(["sh", "-c", &format!("ulimit -n {most}; exec \"$0\" \"$@\"")])
}

fn deep(program: Program) {
    let (trees, levels) = (Trees::new(), levels());
    dig(&trees.source(), levels);
    let run = trees.copy(program);
    assert_dug(&trees.destination(), levels);
    assert_eq!(number(&summary(&run), "directories"), levels as u64 + 1);
    assert_eq!(number(&summary(&run), "files"), levels as u64 / 10);
    for path in [trees.source(), trees.destination()] {
        // Removes a tree for which tempfile's own removal takes long or fails.
        testbed::run_tool("rm", [OsStr::new("-rf"), path.as_os_str()]);
    }
}

fn three_thousand_levels() {
    deep(cp().args(["-p", "--jobs=3"]));
}

fn three_thousand_levels_with_few_descriptors() {
    deep(with_descriptors(cp(), 40));
}

fn more_directories_than_descriptors() {
    let trees = Trees::new();
    for number in 0..200 {
        trees.file(&format!("{number}/a/b/c/file"), "x");
    }
    let run = trees.copy(with_descriptors(cp().arg("--jobs=4"), 40));
    testbed::assert_same_tree(&trees.source(), &trees.destination(), Default::default());
    assert_eq!(number(&summary(&run), "failed"), 0);
}

fn a_wide_directory() {
    let trees = Trees::new();
    for number in 0..by_extent([1000, 5000, 5000]) {
        std::fs::create_dir(trees.source().join(format!("directory {number}"))).unwrap();
        std::fs::write(trees.source().join(format!("file {number}")), "x").unwrap();
    }
    trees.copy(cp());
    testbed::assert_same_tree(&trees.source(), &trees.destination(), Default::default());
}
