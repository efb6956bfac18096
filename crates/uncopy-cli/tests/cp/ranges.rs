//! One large file that two threads move, block by block.

use std::collections::BTreeMap;
use std::fs::File;
use std::thread::available_parallelism;

use std::time::Duration;
use testbed::witness::{allocated_bytes, cached_bytes};
use testbed::{
    CallPattern, Case, Content, Filesystem, Intercept, Mount, Need, Place, Program, Receipt,
    Scratch, SystemCall, assert_same, drop_from_cache, seeded,
};

use crate::cp::witnessed::{Pair, WRITES};
use crate::cp::{ACROSS, DIRECT, READ_WRITE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::At(Place::Ext4), Need::At(Place::Xfs), Need::At(Place::Btrfs)] where_it_is_quicker,
        [Need::At(Place::Ext4)] each_thread_writes_blocks,
        [Need::At(Place::Xfs)] holes_and_zeros_stay_out,
        [Need::At(Place::Ext4)] verified_and_durable,
        [Need::At(Place::Ext4), Need::Tool("strace")] only_where_it_may,
        [Need::At(Place::Xfs)] a_source_that_shrinks,
        [Need::At(Place::Ext4)] no_room_for_the_end,
        [Need::At(Place::Ext4)] in_a_tree_by_spare_workers,
    ]
}

const MEBIBYTE: u64 = 1 << 20;

/// Several blocks, and an end that is aligned to nothing.
const LENGTH: u64 = 40 * MEBIBYTE + 12_345;

fn parallel_bytes(receipt: &Receipt) -> u64 {
    receipt.value()["parallel_bytes"].as_u64().unwrap_or(0)
}

/// With one processor there is no other thread.
fn has_two() -> bool {
    available_parallelism().map_or(1, usize::from) > 1
}

#[track_caller]
fn assert_by_two(receipt: &Receipt) {
    let bytes = parallel_bytes(receipt);
    // On a slow machine the first piece ends early, and later ones are too short for two.
    let expected = if has_two() { MEBIBYTE..=receipt.bytes() } else { 0..=0 };
    assert!(expected.contains(&bytes), "{}", receipt.value());
}

/// From another filesystem, cached and to be read.
fn where_it_is_quicker() {
    for (place, gains) in [(Place::Ext4, true), (Place::Xfs, true), (Place::Btrfs, false)] {
        let pair = Pair::new(Place::Disk, place, &Content::dense(LENGTH));
        for is_cached in [true, false] {
            if !is_cached {
                drop_from_cache(&File::open(&pair.source).unwrap());
                assert!(cached_bytes(&pair.source) < LENGTH);
            }
            let receipt = pair.copy(cp_by(READ_WRITE));
            assert_eq!(receipt.by("read_write"), LENGTH, "{}", receipt.value());
            if gains {
                assert_by_two(&receipt);
            } else {
                assert_eq!(parallel_bytes(&receipt), 0, "{}", receipt.value());
            }
            std::fs::remove_file(&pair.destination).unwrap();
        }
        // Mechanisms that hold the destination's lock all the time are left to one thread.
        for method in ACROSS.into_iter().filter(|method| *method != READ_WRITE).chain([DIRECT]) {
            let receipt = pair.copy(cp_by(method));
            assert_eq!(parallel_bytes(&receipt), 0, "{}", receipt.value());
            std::fs::remove_file(&pair.destination).unwrap();
        }
    }
}

fn each_thread_writes_blocks() {
    let pair = Pair::at(Place::Ext4, &Content::dense(LENGTH));
    // Slow enough that a thread which starts late still finds a block, and quick enough for further pieces by two.
    let slow = CallPattern::of(&[SystemCall::PWRITE64]).delayed(Duration::from_millis(1));
    let Intercept { run, log, .. } = pair.command(cp_by(READ_WRITE)).run_with([slow]);
    assert_by_two(&run.receipt());
    pair.assert_copied();
    let mut written: BTreeMap<u32, u64> = BTreeMap::new();
    for call in log.iter().filter(|call| call.call == SystemCall::PWRITE64) {
        *written.entry(call.thread).or_default() += call.arguments[2];
    }
    assert_eq!(written.values().sum::<u64>(), LENGTH, "{written:?}");
    // A thread is there for a piece.
    assert!(!has_two() || written.len() > 1, "{written:?}");
}

/// Runs of zeros and holes, at blocks of both threads and across their ends.
fn holes_and_zeros_stay_out() {
    let data = [(0, 3 * MEBIBYTE + 5000), (7 * MEBIBYTE - 4096, 9 * MEBIBYTE), (LENGTH - 7, 7)];
    let pair = Pair::at(Place::Xfs, &Content::sparse(LENGTH, &data));
    let kept = pair.copy(cp_by(READ_WRITE));
    assert!(kept.at("hole") > 20 * MEBIBYTE, "{}", kept.value());
    assert_by_two(&kept);
    std::fs::remove_file(&pair.destination).unwrap();
    // The same with zeros that are written.
    let written = Pair::empty(Place::Xfs, Place::Xfs);
    std::fs::write(&written.source, std::fs::read(&pair.source).unwrap()).unwrap();
    let found = written.copy(cp().arg("--sparse=always"));
    assert!(found.at("zeros") > 20 * MEBIBYTE, "{}", found.value());
    let bytes = found.by("read_write") + found.at("zeros");
    assert_eq!(bytes, LENGTH, "{}", found.value());
    assert_by_two(&found);
    assert!(allocated_bytes(&written.destination) < 20 * MEBIBYTE);
}

fn verified_and_durable() {
    let pair = Pair::at(Place::Ext4, &Content::dense(LENGTH));
    let receipt = pair.copy(cp_by(READ_WRITE).args(["--verify", "--durable"]));
    assert_eq!(receipt.value()["verified"], true, "{}", receipt.value());
    assert_by_two(&receipt);
}

/// Not with a rate, not to save processor time, not into a file in place, not for a small one.
fn only_where_it_may() {
    let pair = Pair::at(Place::Ext4, &Content::dense(LENGTH));
    for flag in ["--max-bandwidth=2G", "--prefer=cpu", "--in-place"] {
        std::fs::write(&pair.destination, "old").unwrap();
        let (run, trace) = pair.traced(cp_by(READ_WRITE).arg(flag));
        assert_eq!(parallel_bytes(&run.receipt()), 0, "{flag}: {}", run.stdout);
        let writers: std::collections::BTreeSet<i32> =
            trace.named(&WRITES).into_iter().map(|call| call.thread).collect();
        assert_eq!(writers.len(), 1, "{flag}: {writers:?}");
    }
    let small = Pair::at(Place::Ext4, &Content::dense(3 * MEBIBYTE));
    assert_eq!(parallel_bytes(&small.copy(cp_by(READ_WRITE))), 0);
}

/// In the first piece, where both threads are at work.
fn a_source_that_shrinks() {
    for length in [0, 5 * MEBIBYTE + 77] {
        let pair = Pair::at(Place::Xfs, &Content::dense(LENGTH));
        let program = pair.command(cp_by(READ_WRITE).arg("--if-changed=accept"));
        let stopped = program.stop_after(SystemCall::PWRITE64, 1);
        File::options().write(true).open(&pair.source).unwrap().set_len(length).unwrap();
        let run = stopped.resume().run;
        let receipt = run.receipt();
        assert_eq!(receipt.value()["source_changed"], true, "{}", receipt.value());
        let copy = std::fs::metadata(&pair.destination).unwrap().len();
        assert_eq!(receipt.bytes(), copy);
        // Blocks that were read before stay; nothing behind them does.
        assert!(copy >= length && copy <= 8 * MEBIBYTE, "{copy}");
        if copy == length {
            assert_same(&pair.source, &pair.destination);
        }
    }
}

/// Wherever the room ends, the old file is what it was, and nothing else is there.
fn no_room_for_the_end() {
    let from = Place::Disk.scratch();
    drop(Content::dense(LENGTH).write(&from.join("source")));
    for (filesystem, mebibytes) in [(Filesystem::Xfs, 320), (Filesystem::Ext4, 40)] {
        let mount = Mount::image(filesystem, mebibytes);
        let stat = rustix::fs::statvfs(mount.path()).unwrap();
        let taken = (stat.f_bavail * stat.f_frsize).saturating_sub(20 * MEBIBYTE);
        let taken = format!("{taken}");
        let filler = mount.path().join("filler");
        testbed::run_tool("fallocate", ["-l", &taken, &filler.to_string_lossy()]);
        let target = Scratch::new_in(mount.path());
        let old = seeded(5, 0, 100_000);
        std::fs::write(target.join("old"), &old).unwrap();
        let program = |program: Program| program.arg(from.join("source")).arg(target.join("old"));
        for flags in [["--method=read-write"], ["--sparse=always"]] {
            let run = program(cp().args(flags)).run();
            let message = run.failed(1);
            assert!(message.contains("ENOSPC"), "{message}");
            assert!(std::fs::read(target.join("old")).unwrap() == old, "the old file is lost");
            assert!(target.strangers(&["old"]).is_empty(), "{:?}", target.strangers(&["old"]));
        }
    }
}

/// `--jobs` counts all threads, also where a root is a file.
fn in_a_tree_by_spare_workers() {
    let (from, to) = (Place::Disk.scratch(), Place::Ext4.scratch());
    let large = from.join("tree/large");
    std::fs::create_dir(from.join("tree")).unwrap();
    drop(Content::dense(LENGTH).write(&large));
    for (jobs, is_by_two) in [("1", false), ("2", true)] {
        let (tree, file) = (to.join(jobs), to.join(format!("{jobs}.file")));
        let roots =
            [(from.join("tree"), &tree, tree.join("large")), (large.clone(), &file, file.clone())];
        for (root, destination, copy) in roots {
            let flags = ["-r", "--method=read-write", "--jobs", jobs];
            let run = cp().args(flags).arg(root).arg(destination).run();
            assert!(run.status.success(), "{}", run.stderr);
            assert_same(&large, &copy);
            assert_eq!(run.stdout.contains("\"parallel_bytes\":"), is_by_two, "{}", run.stdout);
        }
    }
}
