//! Questions to the plan are asked for each file and each mechanism: they cost no memory.

use std::collections::BTreeSet;

use super::*;
use testbed::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

const ALLOWED: [Allow; 6] = [
    Allow::Any,
    Allow::NoUserCopy,
    Allow::ZeroCopy,
    Allow::ReadWrite,
    Allow::Only(Mechanism::Direct),
    Allow::Only(Mechanism::Splice),
];

/// Facts that differ in one point from a file with holes.
fn variants() -> Vec<Facts> {
    let usual = Facts { has_holes: true, ..Facts::ordinary(100 << 20) };
    let of_size = |size| Facts { size, data_bytes: size.unwrap_or(0), ..usual.clone() };
    let nfs = Filesystem::from_magic(0x6969);
    let mut all: Vec<Facts> = [None, Some(0), Some(4096), Some(100 << 10)].map(of_size).into();
    all.extend([
        Facts { destination_is_stream: true, ..usual.clone() },
        Facts { transforms: true, ..usual.clone() },
        Facts { hashes: true, ..usual.clone() },
        Facts { durable: true, ..usual.clone() },
        Facts { prefer: Prefer::CpuTime, ..usual.clone() },
        Facts { sparse: Sparse::Always, ..usual.clone() },
        Facts { sparse: Sparse::Never, ..usual.clone() },
        Facts { cache: Cache::Keep, ..usual.clone() },
        Facts { source: nfs, ..usual.clone() },
        Facts { destination: Filesystem::XFS, ..usual.clone() },
    ]);
    let paths = [DirectPath::None, DirectPath::Copies, DirectPath::Unknown, DirectPath::Moves];
    all.extend(paths.map(|direct| Facts { direct, ..usual.clone() }));
    all
}

#[test]
fn asking_whether_a_way_is_excluded_allocates_nothing() {
    let mut rows = Vec::new();
    for facts in variants() {
        rows.extend(ALLOWED.map(|allow| Facts { allow, ..facts.clone() }));
    }
    let mut codes = BTreeSet::new();
    for facts in &rows {
        for mechanism in Mechanism::ALL {
            let before = ALLOCATOR.allocations();
            let reason = excluded(facts, mechanism);
            let first = next(facts, &[]);
            assert_eq!(ALLOCATOR.allocations(), before, "{mechanism} {facts:?}");
            assert!(reason.is_none() || first != Step::Try(mechanism), "{mechanism} {facts:?}");
            codes.extend(reason.map(|reason| reason.code()));
        }
    }
    // Every answer was among them, and the allocator counts.
    let expected = [
        "another_named",
        "bypasses_cache",
        "cannot_see_zeros",
        "copies",
        "copies_here",
        "direct_copies",
        "empty",
        "hashed",
        "may_copy",
        "may_keep_holes",
        "no_alignment",
        "read_write_only",
        "size_unknown",
        "source_not_mapped",
        "stream_destination",
        "too_small_for_direct",
        "transformed",
        "user_copies",
    ];
    assert_eq!(Vec::from_iter(codes), expected);
    let before = ALLOCATOR.allocations();
    assert!(!refusals(&rows[0], None).is_empty());
    assert!(ALLOCATOR.allocations() > before);
}
