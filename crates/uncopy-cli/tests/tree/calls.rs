//! What a small file costs in system calls, counted by `strace -c`.

use std::collections::BTreeMap;
use std::path::Path;

use testbed::{Case, Need, Place, Program};

use crate::Trees;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("strace")] a_small_file_takes_fewer_calls_than_cp,
        [Need::Tool("strace")] metadata_takes_the_calls_that_change_something,
        [Need::Tool("strace"), Need::At(Place::Btrfs)] a_shared_file_takes_few_calls,
        [Need::Tool("strace"), Need::Tool("chattr"), Need::At(Place::Btrfs)] shared_files_have_one_worker,
    ]
}

const FILES: u64 = 500;

/// How often each call was made, in all threads, by `strace -c`.
fn counted(
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

fn small_files() -> Trees {
    let trees = Trees::new();
    for number in 0..FILES {
        trees.file(&format!("{}/{number}", number / 50), vec![7; 4096]);
    }
    trees
}

/// Calls for each file: of each kind to the nearest whole number, so that what a process does once,
/// or when its threads wait for one another, does not count.
fn each(counts: &BTreeMap<String, u64>) -> u64 {
    each_of(counts, FILES)
}

fn each_of(counts: &BTreeMap<String, u64>, files: u64) -> u64 {
    counts.values().map(|count| (count + files / 2) / files).sum()
}

fn of(counts: &BTreeMap<String, u64>, names: &[&str]) -> u64 {
    names.iter().map(|name| counts.get(*name).copied().unwrap_or(0)).sum()
}

fn a_small_file_takes_fewer_calls_than_cp() {
    let trees = small_files();
    let own = counted(&trees, env!("CARGO_BIN_EXE_uncopy"), &["cp", "-r", "--jobs=1"], "own");
    let cp = counted(&trees, "cp", &["-r"], "cp");
    // openat, statx, openat, pread, write, statx, and two closes; one ioctl instead of pread and write
    // where blocks are shared, as cp does too, which does not look whether the source has changed.
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
    let trees = small_files();
    let own = counted(&trees, env!("CARGO_BIN_EXE_uncopy"), &["cp", "-rp", "--jobs=1"], "own");
    let cp = counted(&trees, "cp", &["-a"], "cp");
    // The times alone: files are made with their mode, and the owner is right.
    assert!(each(&own) <= 9, "{own:?}");
    assert!(each(&own) < each(&cp), "{own:?}\n{cp:?}");
    assert!(of(&own, &CHANGES) < FILES / 10, "{own:?}");
}

const CHANGES: [&str; 4] = ["fchmod", "fchown", "fsetxattr", "fremovexattr"];

const SHARED_FILES: u64 = 130;

/// Too large to go the way of small files, or to be searched for holes that other blocks hide.
fn shared_files() -> Trees {
    let trees = Trees::at(Place::Btrfs, Place::Btrfs);
    plant(&trees);
    trees
}

fn plant(trees: &Trees) {
    for number in 0..SHARED_FILES {
        trees.file(&format!("{number}"), vec![7; (1 << 20) + 4096]);
    }
    // Else the first ones wait until they are written.
    rustix::fs::syncfs(std::fs::File::open(trees.source()).unwrap()).unwrap();
}

fn a_shared_file_takes_few_calls() {
    let trees = shared_files();
    let program = env!("CARGO_BIN_EXE_uncopy");
    // openat, statx, openat, ioctl, statx (how long the clone became), two closes; and with -p the times.
    for (flag, most) in [("-r", 7), ("-rp", 8)] {
        let own = counted(&trees, program, &["cp", flag], flag);
        assert!(each_of(&own, SHARED_FILES) <= most, "{own:?}");
        assert!(of(&own, &CHANGES) < SHARED_FILES / 10, "{own:?}");
    }
    let cp = counted(&trees, "cp", &["-a"], "cp");
    assert!(each_of(&cp, SHARED_FILES) > 8, "{cp:?}");
    // Into a directory that is there: one more to look for the name, and one to give it.
    std::fs::create_dir(trees.to.join("there")).unwrap();
    let own = counted(&trees, program, &["cp", "-rpT"], "there");
    assert!(each_of(&own, SHARED_FILES) <= 10, "{own:?}");
    assert!(of(&own, &CHANGES) < SHARED_FILES / 10, "{own:?}");
}

fn shared_files_have_one_worker() {
    let trees = shared_files();
    let threads = |trees: &Trees, flags: &[&str], destination| {
        let counts = counted(trees, env!("CARGO_BIN_EXE_uncopy"), flags, destination);
        of(&counts, &["clone", "clone3"])
    };
    // A file that takes long by chance has another worker started.
    let alone = |time| threads(&trees, &["cp", "-r"], &format!("shared-{time}")) == 0;
    assert!((0..5).any(alone));
    assert!(threads(&trees, &["cp", "-r", "--jobs=2"], "wanted") > 0);
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(threads(&trees, &["cp", "-r", "--method=read-write"], "copied") > 0);
        // Files without checksums are not shared with those that have them, which the first one shows.
        let plain = Trees::at(Place::Btrfs, Place::Btrfs);
        testbed::run_tool("chattr", ["+C".as_ref(), plain.source().as_os_str()]);
        plant(&plain);
        assert!(threads(&plain, &["cp", "-r"], "plain") > 0);
    }
}
