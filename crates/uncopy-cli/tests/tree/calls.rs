//! What a small file costs in system calls, counted by `strace -c`.

use std::collections::BTreeMap;
use std::path::Path;

use testbed::{Case, Need, Place, Program};

use crate::Trees;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("strace")] a_small_file_takes_fewer_calls_than_cp,
        [Need::Tool("strace")] metadata_takes_the_calls_that_change_something,
    ]
}

const FILES: u64 = 500;

/// How often each call was made, in all threads, by `strace -c`.
pub(crate) fn counted(
    trees: &Trees,
    program: &str,
    flags: &[&str],
    destination: &str,
) -> BTreeMap<String, u64> {
    let table = trees.to.join("table");
    let run = Program::new(Path::new(program))
        .args(flags)
        .arg(trees.source())
        .arg(trees.to.join(destination))
        .through(["strace", "-f", "-c", "-U", "name,calls", "-o", table.to_str().unwrap(), "--"])
        .run();
    assert!(run.status.success(), "{}", run.stderr);
    let text = std::fs::read_to_string(table).unwrap();
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?;
            Some((name.to_owned(), words.next()?.parse().ok()?))
        })
        // In builds with debug assertions the standard library looks at each descriptor that it
        // closes.
        .filter(|(name, _)| name != "total" && !(cfg!(debug_assertions) && name == "fcntl"))
        .collect()
}

pub(crate) fn small_files(trees: Trees) -> Trees {
    for number in 0..FILES {
        trees.file(&format!("{}/{number}", number / 50), vec![7; 4096]);
    }
    trees
}

/// Calls for each file: of each kind to the nearest whole number, so that what a process does once,
/// or when its threads wait for one another, does not count.
pub(crate) fn each(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().map(|count| (count + FILES / 2) / FILES).sum()
}

fn a_small_file_takes_fewer_calls_than_cp() {
    let trees = small_files(Trees::new());
    let own = counted(&trees, env!("CARGO_BIN_EXE_uncopy"), &["cp", "-r", "--jobs=1"], "own");
    let cp = counted(&trees, "cp", &["-r"], "cp");
    // openat, statx, openat, pread, write, statx, and two closes; one ioctl instead of pread and write
    // where blocks are shared, as cp does too, which does not look whether the source has changed. When
    // the files are some seconds old the second statx is spared (`early`).
    let (shares, most) = match Place::Disk.has_reflinks() {
        true => (1, 7),
        false => (0, 8),
    };
    assert!(each(&own) <= most, "{own:?}");
    assert!(each(&own) < each(&cp) + shares, "{own:?}\n{cp:?}");
    // Several workers need a few more to hand each other work.
    let parallel = counted(&trees, env!("CARGO_BIN_EXE_uncopy"), &["cp", "-r", "--jobs=4"], "four");
    assert!(each(&parallel) < each(&cp) + shares, "{parallel:?}\n{cp:?}");
}

fn metadata_takes_the_calls_that_change_something() {
    let trees = small_files(Trees::new());
    let own = counted(&trees, env!("CARGO_BIN_EXE_uncopy"), &["cp", "-rp", "--jobs=1"], "own");
    let cp = counted(&trees, "cp", &["-a"], "cp");
    // The times alone: files are made with their mode, and the owner is right.
    assert!(each(&own) <= 9, "{own:?}");
    assert!(each(&own) < each(&cp), "{own:?}\n{cp:?}");
    let changed: u64 = ["fchmod", "fchown", "fsetxattr", "fremovexattr"]
        .iter()
        .map(|name| own.get(*name).copied().unwrap_or(0))
        .sum();
    assert!(changed < FILES / 10, "{own:?}");
}
