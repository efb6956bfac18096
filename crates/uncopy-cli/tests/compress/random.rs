//! Any bytes come back.

use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use testbed::{Case, Content, Need, Place, assert_same};

use crate::compress::{Pair, compress, copy, cp, decompress, noise, said, text};

pub(crate) fn cases() -> Vec<Case> {
    [Place::Disk, Place::Ext4, Place::Xfs, Place::Btrfs]
        .into_iter()
        .map(|place| {
            let name = format!("compress::random::any_bytes_come_back_on::{place:?}");
            Case::new(name, &[Need::At(place)], move || any_bytes_come_back(place))
        })
        .collect()
}

/// A stretch of a file.
#[derive(Debug, Clone)]
enum Part {
    Text(usize),
    Noise(u64, u64),
    Zeros(usize),
    Bytes(Vec<u8>),
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        (0..1_500_000_usize).prop_map(Part::Text),
        (any::<u64>(), 0..600_000_u64).prop_map(|(seed, length)| Part::Noise(seed, length)),
        (0..2_000_000_usize).prop_map(Part::Zeros),
        prop::collection::vec(any::<u8>(), 0..2000).prop_map(Part::Bytes),
    ]
}

fn bytes(parts: &[Part]) -> Vec<u8> {
    let part = |part: &Part| match part {
        Part::Text(length) => text(*length),
        Part::Noise(seed, length) => noise(*seed, *length),
        Part::Zeros(length) => vec![0; *length],
        Part::Bytes(bytes) => bytes.clone(),
    };
    parts.iter().flat_map(part).collect()
}

fn any_bytes_come_back(place: Place) {
    let config = Config { cases: 16, failure_persistence: None, ..Config::default() };
    let content = (prop::collection::vec(part(), 0..5), 1..=6_u8, any::<bool>());
    let result = TestRunner::new(config).run(&content, |(parts, level, named)| {
        let pair = Pair::at(place);
        let source = pair.file("a", bytes(&parts));
        let packed = pair.to.join(if named { "b.zst" } else { "b" });
        let program = cp().arg(format!("--compress=zstd:{level}"));
        let receipt = copy(program.arg("--verify"), &source, &packed);
        prop_assert!(!named || said(&receipt, "action") == "compressed");
        copy(decompress().arg("--verify"), &packed, &pair.to.join("c"));
        assert_same(&source, &pair.to.join("c"));
        prop_assert!(pair.to.strangers(&["b", "b.zst", "c"]).is_empty());
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    a_sparse_one_too(place);
}

fn a_sparse_one_too(place: Place) {
    let pair = Pair::at(place);
    let source = pair.from.join("a");
    Content::sparse(9_000_001, &[(4096, 50_000), (3_000_000, 1_000_000)]).write(&source);
    copy(compress(), &source, &pair.to.join("b.zst"));
    copy(decompress().arg("--sparse=never"), &pair.to.join("b.zst"), &pair.to.join("c"));
    assert_same(&source, &pair.to.join("c"));
    assert_eq!(fs::metadata(pair.to.join("c")).unwrap().len(), 9_000_001);
}
