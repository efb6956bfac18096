//! `--in-place`: the inode stays, and with it links and mounts; atomicity goes, and it says so.

use std::os::unix::fs::{MetadataExt, symlink};

use testbed::witness::shared_bytes;
use testbed::{CallPattern, Case, Content, Intercepted, Need, Place, SystemCall, run_tool};

use crate::both::metadata::{mode, set_mode};
use crate::cp::special::fifo;
use crate::cp::witnessed::Pair;
use crate::cp::{DIRECT, DIRECT_RING, EVERYWHERE, READ_WRITE, REFLINK, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] keeps_inode_and_hard_links,
        [] says_what_it_gives_up,
        [] makes_a_new_name_as_well,
        [] old_bytes_do_not_show_through_holes,
        [Need::At(Place::Xfs)] old_bytes_do_not_show_through_holes_on_xfs,
        [Need::At(Place::Btrfs)] old_bytes_do_not_show_through_holes_on_btrfs,
        [Need::At(Place::Tmpfs)] old_bytes_do_not_show_through_holes_on_tmpfs,
        [Need::LockedMemory(7)] old_bytes_do_not_show_through_zeros,
        [] another_file_that_takes_the_name_meanwhile_is_left_alone,
        [Need::LockedMemory(7)] shorter_and_longer_than_before,
        [Need::At(Place::Xfs)] blocks_are_shared_with_a_longer_file_on_xfs,
        [Need::At(Place::Btrfs)] blocks_are_shared_with_a_longer_file_on_btrfs,
        [] mode_stays,
        [] retry_is_refused,
        [] a_pseudo_file_over_a_longer_one,
        [Need::At(Place::Ext4), Need::Tool("chattr")] an_append_only_directory_is_left_as_it_is,
    ]
}

const LENGTH: u64 = 500_000;

fn keeps_inode_and_hard_links() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    let other = pair.from.join("other");
    std::fs::hard_link(&pair.destination, &other).unwrap();
    let inode = std::fs::metadata(&pair.destination).unwrap().ino();
    for program in [cp()].into_iter().chain(EVERYWHERE.map(cp_by)) {
        std::fs::write(&pair.destination, b"old").unwrap();
        pair.copy(program.arg("--in-place"));
        assert_eq!(std::fs::metadata(&pair.destination).unwrap().ino(), inode);
        testbed::assert_same(&pair.source, &other);
    }
}

fn says_what_it_gives_up() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    let receipt = pair.copy(cp().arg("--in-place"));
    assert!(receipt.notes().contains("in place"), "{}", receipt.value());
    let receipt = pair.copy(cp().args(["--in-place", "--verify"]));
    assert!(receipt.notes().contains("verified"), "{}", receipt.value());
}

/// There is nothing to write into: it is made like any other, and nothing is given up.
fn makes_a_new_name_as_well() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let receipt = pair.copy(cp().arg("--in-place"));
    assert!(!receipt.notes().contains("in place"), "{}", receipt.value());
}

/// Where the source has a hole, the old file has bytes.
fn no_old_bytes(place: Place) {
    let mut methods = vec![
        cp(),
        cp_by(DIRECT),
        cp_by(DIRECT_RING),
        cp().arg("--sparse=always"),
        cp().arg("--sparse=never"),
    ];
    methods.extend(EVERYWHERE.map(cp_by));
    if place.has_reflinks() {
        methods.push(cp_by(REFLINK));
    }
    for content in [
        Content::sparse(2 << 20, &[(0, 4096), (1 << 20, 100_000)]),
        Content::sparse((2 << 20) + 11, &[]),
        Content::sparse((1 << 20) + 100, &[(1 << 20, 100)]),
    ] {
        for old in [100_000, 2 << 20, 3 << 20] {
            let pair = Pair::at(place, &content);
            for program in &methods {
                std::fs::write(&pair.destination, testbed::seeded(8, 0, old)).unwrap();
                let run = pair.command(program.clone().arg("--in-place")).run();
                if run.status.code() == Some(5) {
                    continue;
                }
                let _ = run.receipt();
                pair.assert_copied();
            }
        }
    }
}

fn old_bytes_do_not_show_through_holes() {
    no_old_bytes(Place::Disk);
}

fn old_bytes_do_not_show_through_holes_on_xfs() {
    no_old_bytes(Place::Xfs);
}

fn old_bytes_do_not_show_through_holes_on_btrfs() {
    no_old_bytes(Place::Btrfs);
}

fn old_bytes_do_not_show_through_holes_on_tmpfs() {
    no_old_bytes(Place::Tmpfs);
}

/// Zeros that are data in the source, and become holes where the old file has bytes.
fn old_bytes_do_not_show_through_zeros() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let mut bytes = vec![0; (1 << 20) + 11];
    bytes[..5000].fill(1);
    bytes[600_000..700_000].fill(2);
    std::fs::write(&pair.source, &bytes).unwrap();
    for program in [cp(), cp_by(READ_WRITE), cp().arg("--no-zero-copy")] {
        std::fs::write(&pair.destination, testbed::seeded(8, 0, 2 << 20)).unwrap();
        let receipt = pair.copy(program.args(["--in-place", "--sparse=always"]));
        assert!(receipt.at("zeros") > 0, "no zeros were found: {}", receipt.value());
    }
}

/// Between the look at the name and its opening: nobody has said that this file may be lost.
fn another_file_that_takes_the_name_meanwhile_is_left_alone() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    let program = cp().arg("--in-place");
    let destination = pair.destination.clone();
    let look = CallPattern::of(&[SystemCall::OPENAT]).when(move |call| {
        call.has_flags(2, rustix::fs::OFlags::PATH.bits()) && call.touches(&destination)
    });
    let stopped = Intercepted::new(&pair.command(program)).stop_in(look.nth(1));
    let other = pair.from.join("other");
    std::fs::write(&other, b"other").unwrap();
    std::fs::rename(&other, &pair.destination).unwrap();
    let run = stopped.resume().run;
    assert!(run.failed(1).contains("meanwhile"), "{}", run.stderr);
    pair.assert_kept(b"other");
}

fn shorter_and_longer_than_before() {
    for program in
        [cp(), cp_by(DIRECT), cp_by(DIRECT_RING)].into_iter().chain(EVERYWHERE.map(cp_by))
    {
        for (source, old) in [(0, 100_000), (1, 4097), (100_000, 99_999), (99_999, 100_000)] {
            let pair = Pair::at(Place::Disk, &Content::dense(source));
            std::fs::write(&pair.destination, testbed::seeded(8, 0, old)).unwrap();
            let run = pair.command(program.clone().arg("--in-place")).run();
            if run.status.code() != Some(5) {
                let _ = run.receipt();
                pair.assert_copied();
            }
        }
    }
}

/// The last block is shared only where both files end in it: such copies were not shared, or refused.
fn blocks_are_shared(place: Place) {
    for (source, old) in [
        (100_000, 50_000),
        (100_000, 100_000),
        (100_000, 100_001),
        (100_000, 300_000),
        (4097, 8192),
        (3 * 4096, 5 * 4096),
        (16 << 20, (16 << 20) + 5),
        ((16 << 20) + 5, 17 << 20),
    ] {
        for options in [&["--in-place"][..], &["--in-place", "--require=reflink"]] {
            let pair = Pair::at(place, &Content::dense(source));
            std::fs::write(&pair.destination, testbed::seeded(8, 0, old)).unwrap();
            let receipt = pair.copy(cp().args(options));
            assert_eq!(receipt.at("shared"), source, "{old} {options:?}: {}", receipt.value());
            let shared = shared_bytes(&pair.source, &pair.destination);
            assert_eq!(shared, source.next_multiple_of(4096), "{old} {options:?}");
        }
    }
    // The first refusal leaves the old file as it is.
    let pair = Pair::at(place, &Content::dense(100));
    let old = testbed::seeded(8, 0, 200);
    std::fs::write(&pair.destination, &old).unwrap();
    let run = pair.command(cp().args(["--in-place", "--require=reflink"])).run();
    let _ = run.failed(5);
    pair.assert_kept(&old);
}

fn blocks_are_shared_with_a_longer_file_on_xfs() {
    blocks_are_shared(Place::Xfs);
}

fn blocks_are_shared_with_a_longer_file_on_btrfs() {
    blocks_are_shared(Place::Btrfs);
}

fn mode_stays() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    set_mode(&pair.destination, 0o604);
    set_mode(&pair.source, 0o755);
    pair.copy(cp().arg("--in-place"));
    assert_eq!(mode(&pair.destination), 0o604);
    pair.copy(cp().args(["--in-place", "-p"]));
    assert_eq!(mode(&pair.destination), 0o755);
}

/// The first attempt has destroyed what a second would have to be compared with.
fn retry_is_refused() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let run = pair.command(cp().args(["--in-place", "--if-changed=retry"])).run();
    assert!(run.failed(2).contains("--if-changed"), "{}", run.stderr);
    pair.assert_kept(&old);
}

fn a_pseudo_file_over_a_longer_one() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    pair.old_destination();
    let _ = cp().arg("--in-place").arg("/proc/version").arg(&pair.destination).run().receipt();
    let found = std::fs::read(&pair.destination).unwrap();
    assert!(found == std::fs::read("/proc/version").unwrap());
}

/// Each run left a temporary file there and its record, which nobody could remove.
fn an_append_only_directory_is_left_as_it_is() {
    let place = Place::Ext4.scratch();
    for name in ["s", "t"] {
        std::fs::create_dir(place.join(name)).unwrap();
        std::fs::write(place.join(name).join("f"), name).unwrap();
    }
    std::fs::write(place.join("s/new"), "new").unwrap();
    std::fs::create_dir(place.join("others")).unwrap();
    symlink("f", place.join("others/link")).unwrap();
    fifo(&place.join("others"), "fifo");
    let change = |how: &str| run_tool("chattr", [how.as_ref(), place.join("t").as_os_str()]);
    change("+a");
    let listed = || {
        let names = std::fs::read_dir(place.join("t")).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let mut runs = Vec::new();
    for (flags, from, to) in
        [(&[][..], "s/f", "t/f"), (&["--durable"], "s/f", "t/f"), (&["-rT"], "s", "t")]
    {
        for _ in 0..2 {
            let run = cp().args(flags).args([place.join(from), place.join(to)]).run();
            runs.push((flags, run, listed()));
        }
    }
    let mut trees = Vec::new();
    for flags in [&["-r"][..], &["-r", "--resume"], &["-r", "--dry-run"], &["-a", "--durable"]] {
        let run = cp().args(flags).args([place.join("s"), place.join("t/tree")]).run();
        trees.push((flags, run, listed()));
    }
    let mut entries = Vec::new();
    for flags in [&["-rT", "--specials"][..], &["-rT", "--specials", "--resume"]] {
        let run = cp().args(flags).args([place.join("others"), place.join("t")]).run();
        entries.push((flags, run, listed()));
    }
    let in_place = cp().arg("--in-place").args([place.join("s/f"), place.join("t/f")]).run();
    change("-a");
    for (flags, run, names) in trees {
        assert!(run.failed(1).contains("mkdir"), "{flags:?}: {}", run.stderr);
        assert_eq!(names, ["f", "new"], "{flags:?}");
    }
    for (flags, run, names) in entries {
        run.failed(1);
        assert!(
            !names.iter().any(|name| name.to_str().unwrap().starts_with('.')),
            "{flags:?} {names:?}"
        );
    }
    for (flags, run, names) in runs {
        assert!(run.failed(1).contains("--in-place"), "{flags:?}: {}", run.stderr);
        let expected = if flags == ["-rT"] { &["f", "new"][..] } else { &["f"] };
        assert_eq!(names, expected, "{flags:?}");
    }
    // Files in it can be written to.
    assert!(in_place.status.success(), "{}", in_place.stderr);
    assert_eq!(std::fs::read(place.join("t/f")).unwrap(), b"s");
}
