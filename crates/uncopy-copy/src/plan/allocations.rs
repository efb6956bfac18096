//! Checks that questions to the plan allocate no memory; they are asked for each file and each
//! mechanism.

use std::collections::BTreeSet;

use super::*;
use testbed::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

const ALLOWED: [Allow; 5] = [
    Allow::Any,
    Allow::Unshared,
    Allow::ReadWrite,
    Allow::Only(Mechanism::Direct),
    Allow::Only(Mechanism::Splice),
];

/// CopyFacts that differ in one point from a file with holes.
fn variants() -> Vec<CopyFacts> {
    let usual = CopyFacts { has_holes: true, ..CopyFacts::ordinary(100 << 20) };
    let of_size = |size| CopyFacts { size, data_bytes: size.unwrap_or(0), ..usual.clone() };
    let nfs = Filesystem::from_magic(0x6969);
    let mut all: Vec<CopyFacts> = [None, Some(0), Some(4096), Some(100 << 10)].map(of_size).into();
    all.extend([
        CopyFacts { destination_is_stream: true, ..usual.clone() },
        CopyFacts { transforms: true, ..usual.clone() },
        CopyFacts { hashes: true, ..usual.clone() },
        CopyFacts { durable: true, ..usual.clone() },
        CopyFacts { prefer: Prefer::CpuTime, ..usual.clone() },
        CopyFacts { sparse: Sparse::Always, ..usual.clone() },
        CopyFacts { sparse: Sparse::Never, ..usual.clone() },
        CopyFacts { cache: Cache::Keep, ..usual.clone() },
        CopyFacts { source: nfs, ..usual.clone() },
        CopyFacts { destination: Filesystem::XFS, ..usual.clone() },
        CopyFacts { destination: Filesystem::XFS, in_place: true, ..usual.clone() },
    ]);
    let paths = [DirectPath::None, DirectPath::Copies, DirectPath::Unknown, DirectPath::Moves];
    all.extend(paths.map(|direct| CopyFacts { direct, ..usual.clone() }));
    all
}

#[test]
fn asking_whether_a_way_is_excluded_allocates_nothing() {
    let mut rows = Vec::new();
    for facts in variants() {
        rows.extend(ALLOWED.map(|allow| CopyFacts { allow, ..facts.clone() }));
        rows.extend(Require::ALL.map(|require| CopyFacts { require, ..facts.clone() }));
    }
    let mut codes = BTreeSet::new();
    for facts in &rows {
        for mechanism in Mechanism::LINUX {
            let before = ALLOCATOR.allocations();
            let reason = excluded(facts, mechanism);
            let first = next(facts, &[]);
            assert_eq!(ALLOCATOR.allocations(), before, "{mechanism} {facts:?}");
            assert!(reason.is_none() || first != PlanStep::Try(mechanism), "{mechanism} {facts:?}");
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
        "known_afterwards",
        "may_copy",
        "may_keep_holes",
        "moves",
        "no_alignment",
        "no_direct_reads",
        "no_reflink",
        "read_write_only",
        "shares",
        "shares_blocks",
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
