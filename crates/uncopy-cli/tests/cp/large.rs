//! Sizes at which 31 and 32 bits end.

use std::os::unix::fs::FileExt;

use testbed::witness::{Strace, allocated_bytes};
use testbed::{Case, Content, Need, Place, assert_same};

use crate::cp::witnessed::Pair;
use crate::cp::{COPY_FILE_RANGE, EVERYWHERE, READ_WRITE, REFLINK, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] sparse_beyond_4_gib,
        [] data_across_the_boundaries,
        [Need::At(Place::Xfs)] shared_beyond_2_gib,
        [Need::At(Place::Xfs), Need::Tool("xfs_io")] one_extent_of_data_beyond_2_gib,
        [Need::At(Place::Xfs)] terabytes_of_hole,
        [] in_place_beyond_4_gib,
    ]
}

const GIBIBYTE: u64 = 1 << 30;

/// The most that one copy_file_range, sendfile or write moves (`MAX_RW_COUNT`).
const MOST: u64 = 2_147_479_552;

/// Data around each boundary.
fn boundaries() -> Content {
    let around = [MOST, 2 * GIBIBYTE, 4 * GIBIBYTE];
    let mut data = vec![(0, 4096)];
    data.push((around[0] - 65_536, 2 * GIBIBYTE - MOST + 2 * 65_536));
    data.push((around[2] - 65_536, 131_072));
    data.push((5 * GIBIBYTE - 100_000, 100_003));
    Content::sparse(5 * GIBIBYTE + 3, &data)
}

fn sparse_beyond_4_gib() {
    let pair = Pair::at(Place::Disk, &boundaries());
    for program in [cp()].into_iter().chain(EVERYWHERE.map(cp_by)) {
        let receipt = pair.copy(program);
        assert_eq!(receipt.bytes(), 5 * GIBIBYTE + 3);
        assert!(receipt.at("hole") > 5 * GIBIBYTE - (1 << 20), "{}", receipt.value());
        assert!(allocated_bytes(&pair.destination) < 1 << 20);
        std::fs::remove_file(&pair.destination).unwrap();
    }
}

/// Offsets above 2^31 and 2^32 in each of the calls, and bytes at the right place afterwards.
fn data_across_the_boundaries() {
    let pair = Pair::at(Place::Disk, &boundaries());
    // Hashing 5 GiB on both sides takes most of the time.
    let verified: &[&str] = &["--durable", "--verify"];
    let flags = testbed::by_extent([&verified[..1], verified, verified]);
    let receipt = pair.copy(cp().args(flags));
    assert_eq!(receipt.bytes(), 5 * GIBIBYTE + 3);
    let file = std::fs::File::open(&pair.destination).unwrap();
    let mut bytes = [0; 16];
    for offset in [MOST - 8, 2 * GIBIBYTE - 8, 4 * GIBIBYTE - 8, 5 * GIBIBYTE - 13] {
        file.read_exact_at(&mut bytes, offset).unwrap();
        assert_eq!(bytes.as_slice(), testbed::patterned(offset, 16), "at {offset}");
    }
}

/// A file of 3 GiB of data that is the same 64 MiB again and again, so that it takes no room.
fn three_gibibytes_of_data(pair: &Pair) {
    Content::dense(64 << 20).write(&pair.source);
    let source = pair.source.to_str().unwrap();
    for doubling in [64 << 20, 128 << 20, 256 << 20, 512 << 20, GIBIBYTE] {
        let command = format!("reflink {source} 0 {doubling} {doubling}");
        testbed::run_tool("xfs_io", ["-c", &command, source]);
    }
    let command = format!("reflink {source} 0 {} {GIBIBYTE}", 2 * GIBIBYTE);
    testbed::run_tool("xfs_io", ["-c", &command, source]);
    assert_eq!(std::fs::metadata(source).unwrap().len(), 3 * GIBIBYTE);
}

fn shared_beyond_2_gib() {
    let pair = Pair::at(Place::Xfs, &Content::sparse(5 * GIBIBYTE, &[(3 * GIBIBYTE, 8 << 20)]));
    for method in [REFLINK, COPY_FILE_RANGE] {
        let receipt = pair.copy(cp_by(method));
        assert_eq!(receipt.at("shared"), 8 << 20, "{}", receipt.value());
        std::fs::remove_file(&pair.destination).unwrap();
    }
}

/// More than one call can move, in one stretch without a hole: the pieces must join.
fn one_extent_of_data_beyond_2_gib() {
    let pair = Pair::empty(Place::Xfs, Place::Xfs);
    three_gibibytes_of_data(&pair);
    let (run, trace) = Strace::new(&pair.command(cp_by(COPY_FILE_RANGE))).run();
    let receipt = run.receipt();
    assert_eq!(receipt.by("copy_file_range"), 3 * GIBIBYTE, "{}", receipt.value());
    assert_eq!(receipt.at("shared"), 3 * GIBIBYTE, "{}", receipt.value());
    assert!(trace.named(&["copy_file_range"]).len() >= 2);
    assert_same(&pair.source, &pair.destination);
    std::fs::remove_file(&pair.destination).unwrap();
    assert_eq!(pair.copy(cp()).at("shared"), 3 * GIBIBYTE);
}

fn terabytes_of_hole() {
    let tebibyte = 1 << 40;
    let content = Content::sparse(4 * tebibyte, &[(3 * tebibyte + 12_288, 4096)]);
    let pair = Pair::at(Place::Xfs, &content);
    for program in [cp(), cp_by(COPY_FILE_RANGE), cp_by(READ_WRITE)] {
        let receipt = pair.copy(program);
        assert_eq!(receipt.at("hole"), 4 * tebibyte - 4096, "{}", receipt.value());
        std::fs::remove_file(&pair.destination).unwrap();
    }
}

fn in_place_beyond_4_gib() {
    let pair = Pair::at(Place::Disk, &boundaries());
    Content::sparse(6 * GIBIBYTE, &[(1 << 20, 100_000), (4 * GIBIBYTE + 7, 300_000)])
        .write(&pair.destination);
    pair.copy(cp().arg("--in-place"));
    assert!(allocated_bytes(&pair.destination) < 2 << 20);
}
