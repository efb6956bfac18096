//! Holes stay holes, on every filesystem and by every way; and data is never taken for one.

use std::os::unix::fs::FileExt;
use std::path::Path;

use testbed::witness::{allocated_bytes, data_runs};
use testbed::{Case, Content, Need, Place, assert_same, by_extent, patterned};

use crate::both::{Form, cases_of, cases_over};
use crate::cp::witnessed::Pair;
use crate::cp::{DIRECT, EVERYWHERE, Method, READ_WRITE, REFLINK, cp, cp_by};

const PLACES: [(Place, &str); 5] = [
    (Place::Disk, "disk"),
    (Place::Ext4, "ext4"),
    (Place::Xfs, "xfs"),
    (Place::Btrfs, "btrfs"),
    (Place::Tmpfs, "tmpfs"),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases_over![
        Form::ALL;
        [] never_fills,
        [] never_fills_with_every_method,
        [] always_and_other_ways_exclude_each_other,
        [Need::Tool("fallocate")] reserved_space_is_no_data,
        [Need::At(Place::Xfs), Need::At(Place::Tmpfs)] across_filesystems,
    ];
    for (place, name) in PLACES {
        let needs = [Need::At(place)];
        for (subject, test) in [
            ("holes_stay_holes", holes_stay_holes as fn(Form, Place)),
            ("always_finds_zeros", always_finds_zeros),
            ("data_just_written_is_no_hole", data_just_written_is_no_hole),
        ] {
            let name = format!("both::sparse::{subject}::{name}");
            cases.extend(cases_of(&Form::ALL, &name, &needs, move |form| test(form, place)));
        }
    }
    cases
}

const MEBIBYTE: u64 = 1 << 20;

/// Holes at the beginning, in the middle and at the end; of one block, and of all; and lengths that
/// end within a block.
fn shapes() -> Vec<Content> {
    let many: Vec<(u64, u64)> = (0..200).map(|n| (n * 16_384, 8192)).collect();
    vec![
        Content::sparse(8 * MEBIBYTE, &[(3 * MEBIBYTE, MEBIBYTE)]),
        Content::sparse(8 * MEBIBYTE, &[(0, MEBIBYTE), (7 * MEBIBYTE, MEBIBYTE)]),
        Content::sparse(8 * MEBIBYTE + 1234, &[(0, 65_536)]),
        Content::sparse(6 * MEBIBYTE, &[]),
        Content::sparse(4 * MEBIBYTE + 5, &[(4 * MEBIBYTE, 5)]),
        Content::sparse(200 * 16_384 + 777, &many),
        Content::sparse(1000, &[]),
    ]
}

fn methods(place: Place) -> Vec<Option<Method>> {
    let mut methods = vec![None, Some(DIRECT)];
    methods.extend(EVERYWHERE.map(Some));
    if place.has_reflinks() {
        methods.push(Some(REFLINK));
    }
    methods
}

fn holes_stay_holes(form: Form, place: Place) {
    for content in shapes() {
        let pair = Pair::of(form, place, &content);
        let (length, data) = (content.length, data_runs(&pair.source));
        let data_bytes: u64 = data.iter().map(|run| run.1).sum();
        let allocated = allocated_bytes(&pair.source);
        for method in methods(place) {
            let run = pair.command(method.map_or_else(cp, cp_by)).run();
            if method == Some(DIRECT) && run.status.code() == Some(5) {
                assert!(!pair.destination.exists());
                continue;
            }
            let receipt = pair.receipt(&run);
            pair.assert_copied();
            let context = format!("{method:?} {content:?} {}", receipt.value());
            assert_eq!(receipt.bytes(), length, "{context}");
            assert_eq!(receipt.at("hole"), length - data_bytes, "{context}");
            let copied = allocated_bytes(&pair.destination);
            assert!(copied <= allocated + 131_072, "{copied} of {allocated} allocated: {context}");
            pair.remove_copy();
        }
    }
}

/// Zeros that somebody wrote, with single other bytes among them.
fn zeros_and_bytes() -> Vec<u8> {
    let mut bytes = vec![0; 5 * MEBIBYTE as usize + 99];
    bytes[..10_000].copy_from_slice(&patterned(0, 10_000));
    bytes[2 * MEBIBYTE as usize + 4095] = 1;
    bytes[3 * MEBIBYTE as usize] = 1;
    *bytes.last_mut().unwrap() = 1;
    bytes
}

fn always_finds_zeros(form: Form, place: Place) {
    let pair = Pair::empty_of(form, place, place);
    std::fs::write(&pair.source, zeros_and_bytes()).unwrap();
    assert!(allocated_bytes(&pair.source) > 5 * MEBIBYTE);
    for program in [cp(), cp_by(READ_WRITE), cp().arg("--durable")] {
        let receipt = pair.copy(program.arg("--sparse=always"));
        // They were read, so no mechanism that copies nothing may be claimed for them.
        assert!(receipt.at("zeros") > 4 * MEBIBYTE, "{}", receipt.value());
        assert_eq!(receipt.at("hole"), 0, "{}", receipt.value());
        let allocated = allocated_bytes(&pair.destination);
        assert!(allocated < 200_000, "{allocated} bytes for zeros on {place:?}");
        pair.remove_copy();
    }
    std::fs::write(&pair.source, vec![0; MEBIBYTE as usize + 1]).unwrap();
    pair.copy(cp().arg("--sparse=always"));
    assert!(allocated_bytes(&pair.destination) < 65_536);
}

fn never_fills(form: Form) {
    for content in shapes() {
        let pair = Pair::of(form, Place::Disk, &content);
        let receipt = pair.copy(cp().arg("--sparse=never"));
        assert_eq!(receipt.at("hole"), 0, "{}", receipt.value());
        let allocated = allocated_bytes(&pair.destination);
        assert!(allocated >= content.length, "{allocated} of {}", content.length);
    }
}

/// A way that cannot fill holes says so; none fills half of them.
fn never_fills_with_every_method(form: Form) {
    let content = Content::sparse(4 * MEBIBYTE + 77, &[(MEBIBYTE, 4096)]);
    for method in EVERYWHERE.into_iter().chain([DIRECT]) {
        let pair = Pair::of(form, Place::Disk, &content);
        let run = pair.command(cp_by(method).arg("--sparse=never")).run();
        if run.status.success() {
            pair.assert_copied();
            let allocated = allocated_bytes(&pair.destination);
            assert!(allocated >= content.length, "{method:?}: {allocated}");
        } else {
            run.failed(5);
            pair.assert_nothing_left();
        }
    }
}

fn always_and_other_ways_exclude_each_other(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(10_000));
    for program in [cp_by(crate::cp::COPY_FILE_RANGE), cp().arg("--require-zero-copy")] {
        let run = pair.command(program.arg("--sparse=always")).run();
        assert!(run.failed(2).contains("--sparse=always"), "{}", run.stderr);
        pair.assert_nothing_left();
    }
}

/// Blocks that `fallocate` reserved read as zeros and hold nothing.
fn reserved_space_is_no_data(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::sparse(0, &[]));
    testbed::run_tool("fallocate", ["-l", "8M", pair.source.to_str().unwrap()]);
    let file = std::fs::File::options().write(true).open(&pair.source).unwrap();
    file.write_all_at(&patterned(0, 5000), 3 * MEBIBYTE).unwrap();
    for program in [cp()].into_iter().chain(EVERYWHERE.map(cp_by)) {
        pair.copy(program);
        pair.remove_copy();
    }
}

fn across_filesystems(form: Form) {
    let content = Content::sparse(64 * MEBIBYTE, &[(10 * MEBIBYTE, MEBIBYTE)]);
    for (from, to) in [(Place::Xfs, Place::Tmpfs), (Place::Tmpfs, Place::Xfs)] {
        let pair = Pair::between(form, from, to, &content);
        pair.copy(cp());
        assert!(allocated_bytes(&pair.destination) < 2 * MEBIBYTE);
    }
}

/// `SEEK_HOLE` has lied about data that was not on the device yet (OpenZFS, ext4). Written, copied
/// at once, and compared byte by byte, many times; by overwriting holes of a file as well.
fn data_just_written_is_no_hole(form: Form, place: Place) {
    let pair = Pair::empty_of(form, place, place);
    for round in 0..by_extent([20, 60, 60]) {
        let bytes = testbed::seeded(round, 0, 400_000 + round * 977);
        match round % 3 {
            0 => std::fs::write(&pair.source, &bytes).unwrap(),
            1 => written_backwards(&pair.source, &bytes),
            _ => written_into_a_hole(&pair.source, &bytes),
        }
        let methods = methods(place);
        let method = methods[round as usize % methods.len()];
        let run = pair.command(method.map_or_else(cp, cp_by)).run();
        if run.status.code() == Some(5) {
            continue;
        }
        let _ = pair.receipt(&run);
        let found = std::fs::read(&pair.destination).unwrap();
        let start = found.len() - bytes.len();
        assert!(found[start..] == bytes, "round {round}, {method:?}: data was lost");
        assert!(found[..start].iter().all(|&byte| byte == 0), "round {round}");
        assert_same(&pair.source, &pair.destination);
    }
}

fn written_backwards(path: &Path, bytes: &[u8]) {
    let _ = std::fs::remove_file(path);
    let file = std::fs::File::create(path).unwrap();
    for (index, piece) in bytes.chunks(50_000).enumerate().collect::<Vec<_>>().into_iter().rev() {
        file.write_all_at(piece, index as u64 * 50_000).unwrap();
    }
}

fn written_into_a_hole(path: &Path, bytes: &[u8]) {
    let _ = std::fs::remove_file(path);
    let file = std::fs::File::create(path).unwrap();
    file.set_len(3 * MEBIBYTE).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(bytes, 3 * MEBIBYTE - bytes.len() as u64).unwrap();
}
