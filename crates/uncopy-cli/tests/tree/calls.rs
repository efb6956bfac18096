//! System calls per small file, counted in traces.

use std::collections::BTreeMap;
use std::path::Path;

use testbed::{Case, Need, Place, Program};

use crate::tree::Trees;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("strace")] a_small_file_takes_fewer_calls_than_cp,
        [Need::Tool("strace")] metadata_takes_the_calls_that_change_something,
    ]
}

const FILES: u64 = 500;

/// How often each call was made, in all threads. `strace -c` leaves out calls that it has no name for,
/// which before its release 6.6 is `cachestat(2)`.
pub(crate) fn counted(
    trees: &Trees,
    program: &str,
    flags: &[&str],
    destination: &str,
) -> BTreeMap<String, u64> {
    let trace = trees.to.join("trace");
    let run = Program::new(Path::new(program))
        .args(flags)
        .arg(trees.source())
        .arg(trees.to.join(destination))
        .through(["strace", "-f", "-o", trace.to_str().unwrap(), "--"])
        .run();
    assert!(run.status.success(), "{}", run.stderr);
    let text = std::fs::read(trace).unwrap();
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&text).lines() {
        // `1234  openat(AT_FDCWD, …`; what ends a call that others came between has no such name.
        let call = line.split_whitespace().nth(1).and_then(|call| call.split_once('('));
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let Some((name, _)) = call.filter(|(name, _)| name.chars().all(is_name)) else { continue };
        // In builds with debug assertions the standard library looks at each descriptor that it closes. Looking at a
        // clock is a call only where the kernel lends none that can be read without (`vdso(7)`).
        if !(cfg!(debug_assertions) && name == "fcntl" || name == "clock_gettime") {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}

pub(crate) fn small_files(trees: Trees) -> Trees {
    for number in 0..FILES {
        trees.file(&format!("{}/{number}", number / 50), vec![7; 4096]);
    }
    trees
}

/// Calls for each file: of each kind to the nearest whole number, so that what a process does once,
/// or when its threads wait for one another, does not count. One `cachestat(2)` counts: which files need a
/// second one depends on how much of them the kernel has written to disk meanwhile.
pub(crate) fn each(counts: &BTreeMap<String, u64>) -> u64 {
    let each = |(name, count): (&String, &u64)| match name.as_str() {
        // The second name is that of a strace before 6.6.
        "cachestat" | "syscall_0x1c3" => (FILES.min(*count) + FILES / 2) / FILES,
        _ => (count + FILES / 2) / FILES,
    };
    counts.iter().map(each).sum()
}

fn a_small_file_takes_fewer_calls_than_cp() {
    let trees = small_files(Trees::new());
    let own = counted(&trees, env!("CARGO_BIN_EXE_uncopy"), &["cp", "-r", "--jobs=1"], "own");
    let cp = counted(&trees, "cp", &["-r"], "cp");
    // openat, statx, openat, cachestat, pread, write, statx, and two closes; one ioctl instead of
    // cachestat, pread and write where blocks are shared, as cp does too, which does not look whether the
    // source has changed. When the files are some seconds old the second statx is spared (`early`). Of
    // files without dirty pages there is a second cachestat.
    let (shares, most) = match Place::Disk.has_reflinks() {
        true => (1, 7),
        false => (0, 9),
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
    // The times, and a look at the source's access control list: files are made with their mode, and the
    // owner is right.
    let most = if Place::Disk.has_reflinks() { 10 } else { 11 };
    assert!(each(&own) <= most, "{own:?}");
    assert!(each(&own) < each(&cp), "{own:?}\n{cp:?}");
    let changed: u64 = ["fchmod", "fchown", "fsetxattr", "fremovexattr"]
        .iter()
        .map(|name| own.get(*name).copied().unwrap_or(0))
        .sum();
    assert!(changed < FILES / 10, "{own:?}");
}
