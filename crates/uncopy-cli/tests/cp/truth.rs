//! Receipts are truthful about costs: *moved* only where a device reads the pages itself.

use testbed::witness::{Strace, cached_bytes};
use testbed::{Case, Content, Filesystem, Mount, Need, Place, assert_same, drop_from_cache};

use crate::cp::witnessed::{Pair, opens_for_direct_io};
use crate::cp::{DIRECT, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::BareDevice, Need::Tool("strace"), Need::Tool("fincore")] direct_on_a_bare_device_is_moved,
        [Need::BareDevice, Need::Tool("strace")] direct_from_a_cold_source_is_moved,
        [Need::At(Place::Ext4)] direct_on_ext4_on_a_loop_is_not_moved,
        [Need::At(Place::Xfs)] direct_on_xfs_on_a_loop_is_not_moved,
        [Need::At(Place::Btrfs)] direct_on_btrfs_is_not_moved,
        [Need::At(Place::Tmpfs)] direct_on_tmpfs_is_not_moved,
        [Need::Root, Need::Tool("bindfs")] a_fuse_source_is_not_mapped,
        [] duration_and_bytes_are_there,
        [] nothing_is_missing_of_an_empty_file,
    ]
}

const LENGTH: u64 = 24 << 20;

fn direct_on_a_bare_device_is_moved() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let receipt = pair.command(cp_by(DIRECT)).run().receipt();
    assert_eq!(receipt.at("moved"), LENGTH, "{}", receipt.value());
    assert_eq!(cached_bytes(&pair.destination), 0, "moved pages do not pass the page cache");
    pair.assert_copied();
    let (run, _) = pair.traced(cp_by(DIRECT));
    assert_eq!(run.receipt().at("moved"), LENGTH, "{}", run.stdout);
}

fn direct_from_a_cold_source_is_moved() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let file = Content::dense(LENGTH + 777).write(&pair.source);
    drop_from_cache(&file);
    let (run, trace) = pair.traced(cp_by(DIRECT));
    let receipt = run.receipt();
    assert!(receipt.at("moved") + 4096 > LENGTH + 777, "{}", receipt.value());
    assert!(opens_for_direct_io(&trace, pair.to.path()));
}

/// With its image read and written past the page cache, and through it: the loop driver copies or
/// maps, the receipt cannot know, and does not claim.
fn not_moved_on_a_loop(filesystem: Filesystem) {
    for direct_io in [true, false] {
        let mount = Mount::image(filesystem, 400);
        mount.set_direct_io(direct_io);
        let (from, to) = (mount.path().join("source"), mount.path().join("destination"));
        Content::dense(LENGTH + 99).write(&from);
        for program in [cp_by(DIRECT), cp().arg("--durable"), cp().arg("--prefer=cpu")] {
            let (run, _) = Strace::new(&program.arg(&from).arg(&to)).run();
            let receipt = run.receipt();
            assert_eq!(receipt.at("moved"), 0, "direct-io={direct_io}: {}", receipt.value());
            assert_same(&from, &to);
            std::fs::remove_file(&to).unwrap();
        }
        let require = cp_by(DIRECT).arg("--require-zero-copy").arg(&from).arg(&to).run();
        assert!(!require.status.success(), "a loop device cannot be shown to copy nothing");
        assert!(!to.exists());
    }
}

fn direct_on_ext4_on_a_loop_is_not_moved() {
    not_moved_on_a_loop(Filesystem::Ext4);
}

fn direct_on_xfs_on_a_loop_is_not_moved() {
    not_moved_on_a_loop(Filesystem::Xfs);
}

/// btrfs takes O_DIRECT and writes checksummed files through the page cache.
fn direct_on_btrfs_is_not_moved() {
    not_moved_on_a_loop(Filesystem::Btrfs);
}

/// tmpfs takes O_DIRECT and copies.
fn direct_on_tmpfs_is_not_moved() {
    let pair = Pair::at(Place::Tmpfs, &Content::dense(LENGTH));
    for program in [cp_by(DIRECT), cp().arg("--durable"), cp().arg("--prefer=cpu")] {
        let run = pair.command(program).run();
        if run.status.success() {
            assert_eq!(run.receipt().at("moved"), 0, "{}", run.stdout);
            pair.assert_copied();
            std::fs::remove_file(&pair.destination).unwrap();
        } else {
            run.failed(5);
        }
    }
}

/// A FUSE server can change a file's length under a mapping: its files are read, not mapped.
fn a_fuse_source_is_not_mapped() {
    let pair = Pair::at(Place::Ext4, &Content::dense(LENGTH));
    let mount = Mount::fuse(pair.from.path());
    let source = mount.path().join("source");
    for program in [cp(), cp().arg("--durable"), cp().arg("--prefer=cpu"), cp_by(DIRECT)] {
        let program = program.arg(&source).arg(&pair.destination);
        let (run, trace) = Strace::new(&program).run();
        let mapped = trace.named(&["mmap"]).iter().any(|call| call.mentions(&source));
        assert!(!mapped, "{program:?} maps a file of a FUSE filesystem");
        if run.status.success() {
            assert_same(&source, &pair.destination);
            std::fs::remove_file(&pair.destination).unwrap();
        }
    }
}

fn duration_and_bytes_are_there() {
    let pair = Pair::at(Place::Disk, &Content::dense(5000));
    let receipt = pair.copy(cp());
    let value = receipt.value();
    assert_eq!(value["event"], "copied");
    assert_eq!(value["source"], pair.source.to_str().unwrap());
    assert_eq!(value["destination"], pair.destination.to_str().unwrap());
    assert_eq!(receipt.bytes(), 5000);
    assert!(value["duration_us"].as_u64().unwrap() > 0);
}

/// No refusals are reported for an empty file: every mechanism costs the same.
fn nothing_is_missing_of_an_empty_file() {
    for flags in [
        &[][..],
        &["-p"],
        &["--verify"],
        &["--durable"],
        &["--in-place"],
        &["--no-user-copy"],
        &["--no-zero-copy"],
        &["--require-zero-copy"],
        &["--method=copy-file-range"],
        &["--direct-min=1"],
        &["-r"],
        &["-r", "--verify"],
        &["-r", "--resume"],
    ] {
        for is_old in [false, true] {
            let pair = Pair::at(Place::Disk, &Content::dense(0));
            if is_old {
                pair.old_destination();
            }
            let run = pair.command(cp().args(flags)).run();
            assert!(run.status.success(), "{flags:?}: {}", run.stderr);
            for receipt in run.receipts() {
                let said = receipt.value();
                assert_eq!(said["refusals"], serde_json::json!([]), "{flags:?} {is_old}");
                assert_eq!(said["mechanisms"], serde_json::json!([]), "{flags:?} {is_old}");
                assert!(said["decided_by"].is_null(), "{flags:?} {is_old}: {said}");
            }
            pair.assert_copied();
        }
    }
    // One that only seems to be empty is read to its end, and says why.
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let run = cp().arg("/proc/version").arg(&pair.destination).run();
    assert!(run.receipt().refusals().len() > 3, "{}", run.stdout);
}
