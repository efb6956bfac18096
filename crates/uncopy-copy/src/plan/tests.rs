use super::*;
use crate::tuning::Threshold;
use Mechanism::{CopyFileRange, Direct, DirectRing, ReadWrite, Reflink, Sendfile, Splice};
use uncopy_core::{Error, NextStep};

const MIB: u64 = 1 << 20;

fn facts() -> CopyFacts {
    CopyFacts::ordinary(100 * MIB)
}

/// Everything that would be tried in turn if nothing worked.
fn ladder(facts: &CopyFacts) -> Vec<Mechanism> {
    let mut attempted = Vec::new();
    while let PlanStep::Try(mechanism) = next(facts, &attempted) {
        attempted.push(Attempted { mechanism, errno: None, moved_bytes: 0 });
    }
    attempted.into_iter().map(|a| a.mechanism).collect()
}

#[test]
fn read_write_follows_what_is_cheaper() {
    let place = |m| ladder(&facts()).iter().position(|o| *o == m);
    for cheaper in [Reflink, CopyFileRange, Splice, Sendfile] {
        assert!(place(cheaper) < place(ReadWrite), "{cheaper}");
    }
    assert!(place(Direct) > place(ReadWrite), "slower by the clock where nothing must be durable");
    let cpu = CopyFacts { prefer: Prefer::CpuTime, ..facts() };
    assert_eq!(ladder(&cpu), [Reflink, Direct, CopyFileRange, Sendfile, Splice, ReadWrite]);
}

/// Small files of a tree go by what was found out with the first.
#[test]
fn small_files_of_all_sizes_begin_alike() {
    let mut tuning = Tuning::BUILT_IN;
    for threshold in [&mut tuning.zero_copy_min, &mut tuning.direct_min, &mut tuning.direct_cpu_min]
    {
        *threshold = Threshold { bytes: 4096, origin: Origin::Given };
    }
    tuning.zero_copy_min.bytes = 16 << 10;
    let refused = [Attempted { mechanism: Reflink, errno: Some(Errno::EXDEV), moved_bytes: 0 }];
    for prefer in [Prefer::WallTime, Prefer::CpuTime] {
        for (allow, attempted, expected) in [
            (Allow::Any, &[][..], Reflink),
            (Allow::Any, &refused, ReadWrite),
            (Allow::ReadWrite, &[], ReadWrite),
        ] {
            for size in [1, 4095, 4096, 4097, (16 << 10) - 1] {
                let size = CopyFacts { size: Some(size), data_bytes: size, ..facts() };
                let facts = CopyFacts { prefer, allow, tuning, ..size };
                assert_eq!(next(&facts, attempted), PlanStep::Try(expected), "{facts:?}");
            }
        }
    }
}

#[test]
fn direct_goes_first_where_bytes_must_reach_the_device() {
    for facts in [
        CopyFacts { durable: true, ..facts() },
        CopyFacts { cache: Cache::Skip, ..facts() },
        CopyFacts { dirty_budget_bytes: 50 * MIB, ..facts() },
        CopyFacts { prefer: Prefer::CpuTime, ..facts() },
    ] {
        assert_eq!(ladder(&facts)[..2], [Reflink, Direct], "{facts:?}");
    }
}

/// Each row: facts, and what is tried in turn.
#[test]
fn a_ring_is_for_sources_that_are_to_stay_out_of_the_page_cache() {
    let cold = CopyFacts { direct_reads: true, cache: Cache::Skip, ..facts() };
    let named = CopyFacts { allow: Allow::Only(DirectRing), ..facts() };
    let kernel = [CopyFileRange, Splice, Sendfile, ReadWrite];
    let rows = [
        (cold.clone(), [&[Reflink, DirectRing, Direct], &kernel[..]].concat()),
        (CopyFacts { require: Require::Moved, ..cold.clone() }, vec![DirectRing, Direct]),
        (CopyFacts { allow: Allow::Only(Direct), ..cold }, vec![DirectRing, Direct]),
        (CopyFacts { direct_reads: true, ..named.clone() }, vec![DirectRing]),
        (named.clone(), vec![]),
        (CopyFacts { allow: Allow::Only(Direct), ..facts() }, vec![Direct]),
    ];
    for (facts, expected) in rows {
        assert_eq!(ladder(&facts), expected, "{facts:?}");
    }
    let reasons = refusals(&named, None);
    let ring = reasons.iter().find(|refusal| refusal.mechanism == DirectRing);
    assert_eq!(ring.map(|refusal| refusal.reason), Some(RefusalReason::NoDirectReads));
    assert!(refusals(&facts(), None).iter().all(|refusal| refusal.mechanism != DirectRing));
}

#[test]
fn holes_fill_no_dirty_budget() {
    let dirty_budget_bytes = 50 * MIB;
    let sparse = CopyFacts { has_holes: true, data_bytes: MIB, dirty_budget_bytes, ..facts() };
    assert_eq!(ladder(&sparse).last(), Some(&Direct));
    let thrifty = CopyFacts { prefer: Prefer::CpuTime, ..sparse };
    assert_eq!(ladder(&thrifty).last(), Some(&Direct));
}

#[test]
fn direct_saves_processor_time_only_where_there_is_enough_to_write() {
    const MIB: u64 = 1 << 20;
    for (size, source_is_cold, first) in [
        (2 * MIB, false, Splice),
        (4 * MIB, false, Direct),
        (4 * MIB, true, CopyFileRange),
        (63 * MIB, true, CopyFileRange),
        (64 * MIB, true, Direct),
    ] {
        let prefer = Prefer::CpuTime;
        let data_bytes = size;
        let facts = CopyFacts { size: Some(size), data_bytes, source_is_cold, prefer, ..facts() };
        assert_eq!(ladder(&facts)[1], first, "{size} bytes, cold: {source_is_cold}");
        let strict = CopyFacts { require: Require::ZeroCopy, ..facts };
        assert_eq!(ladder(&strict)[1], Direct);
    }
}

#[test]
fn durable_copies_write_past_the_cache_what_does_not_have_to_be_read_first() {
    for (size, source_is_cold, first) in [
        (4 * MIB, false, Direct),
        (4 * MIB, true, CopyFileRange),
        (64 * MIB - 1, true, CopyFileRange),
        (64 * MIB, true, Direct),
    ] {
        let facts = CopyFacts { durable: true, source_is_cold, ..CopyFacts::ordinary(size) };
        assert_eq!(ladder(&facts)[1], first, "{size} bytes, cold: {source_is_cold}");
        let passed_over = refusals(&facts, Some(first)).into_iter().find(|r| r.mechanism == Direct);
        let expected = (first != Direct).then_some(RefusalReason::SlowerByTheClock);
        assert_eq!(passed_over.map(|refusal| refusal.reason), expected);
        for other in [
            CopyFacts { cache: Cache::Skip, ..facts.clone() },
            CopyFacts { dirty_budget_bytes: size - 1, ..facts.clone() },
            CopyFacts { require: Require::Moved, ..facts },
        ] {
            assert_eq!(next(&other, &[refused(Reflink)]), PlanStep::Try(Direct), "{other:?}");
        }
    }
}

/// The kernel's own pipe is there already; a larger one takes its time to make.
#[test]
fn a_pipe_of_our_own_is_for_files_that_pay_for_it() {
    let sized = |size| CopyFacts { size: Some(size), data_bytes: size, ..facts() };
    for (size, expected) in [
        (64 << 10, [CopyFileRange, Sendfile, Splice, ReadWrite]),
        (SPLICE_MIN_BYTES - 1, [CopyFileRange, Sendfile, Splice, ReadWrite]),
        (SPLICE_MIN_BYTES, [Splice, CopyFileRange, Sendfile, ReadWrite]),
    ] {
        assert_eq!(ladder(&sized(size))[1..5], expected, "{size}");
    }
}

/// Each row: facts, and what a trial would compare.
#[test]
fn trials_compare_what_the_clock_alone_can_rank() {
    let cpu = CopyFacts { prefer: Prefer::CpuTime, ..facts() };
    let not_direct = CopyFacts { direct: DirectPath::Copies, ..cpu.clone() };
    let rows = [
        (facts(), vec![Splice, CopyFileRange, ReadWrite]),
        (CopyFacts { durable: true, ..facts() }, vec![]),
        (
            CopyFacts { source: Filesystem::from_magic(0x0102_1994), ..cpu.clone() },
            vec![Direct, Splice],
        ),
        (cpu, vec![]),
        (not_direct, vec![]),
    ];
    for (facts, expected) in rows {
        let after_reflink = [refused(Reflink)];
        assert_eq!(rivals(&facts, &after_reflink), expected, "{facts:?}");
    }
}

#[test]
fn a_cold_source_is_copied_in_the_kernels_small_pieces() {
    let cold = CopyFacts { source_is_cold: true, ..facts() };
    let expected = [Reflink, CopyFileRange, Splice, Sendfile, ReadWrite, Direct];
    assert_eq!(ladder(&cold), expected);
    let warm = [Reflink, Splice, CopyFileRange, Sendfile, ReadWrite, Direct];
    assert_eq!(ladder(&facts()), warm);
}

#[test]
fn options_rule_mechanisms_out() {
    let all = facts();
    for (facts, expected) in [
        (CopyFacts { allow: Allow::ReadWrite, ..all.clone() }, vec![ReadWrite]),
        (CopyFacts { require: Require::ZeroCopy, ..all.clone() }, vec![Reflink, Direct]),
        (
            CopyFacts { require: Require::ZeroCopy, destination: Filesystem::XFS, ..all.clone() },
            vec![Reflink, CopyFileRange, Direct],
        ),
        (
            CopyFacts { require: Require::ZeroCopy, direct: DirectPath::Unknown, ..all.clone() },
            vec![Reflink],
        ),
        (CopyFacts { transforms: true, ..all.clone() }, vec![ReadWrite]),
        (CopyFacts { sparse: Sparse::Always, ..all.clone() }, vec![ReadWrite]),
        (CopyFacts { size: None, ..all.clone() }, vec![ReadWrite]),
        (CopyFacts { size: Some(0), ..all.clone() }, vec![ReadWrite]),
        (CopyFacts { destination_is_stream: true, ..all.clone() }, vec![ReadWrite]),
    ] {
        assert_eq!(ladder(&facts), expected, "{facts:?}");
    }
    for mechanism in Mechanism::LINUX {
        let direct_reads = mechanism == DirectRing;
        let facts = CopyFacts { allow: Allow::Only(mechanism), direct_reads, ..all.clone() };
        assert_eq!(ladder(&facts), [mechanism]);
    }
}

#[test]
fn mechanisms_that_keep_holes_do_not_fill_them() {
    let facts = CopyFacts { sparse: Sparse::Never, has_holes: true, ..facts() };
    let ladder = ladder(&facts);
    assert!(!ladder.contains(&Reflink) && !ladder.contains(&CopyFileRange), "{ladder:?}");
}

#[test]
fn direct_is_left_out_where_it_is_no_gain() {
    for facts in [
        CopyFacts { cache: Cache::Keep, ..facts() },
        CopyFacts { direct: DirectPath::None, ..facts() },
        CopyFacts { direct: DirectPath::Copies, ..facts() },
        CopyFacts { size: Some(Tuning::BUILT_IN.direct_min.bytes - 1), ..facts() },
        CopyFacts { source: Filesystem::from_magic(0x6573_5546), ..facts() },
        CopyFacts { source: Filesystem::from_magic(0x6969), ..facts() },
    ] {
        assert!(!ladder(&facts).contains(&Direct), "{facts:?}");
    }
}

/// The seven conditions that Orbit asks for before it tries anything but a buffered copy. Here the
/// filesystem is found out by trying, and only a transformation of the bytes forbids zero-copy:
/// throttling and resuming work in bounded pieces, so that they are no facts of the plan at all.
#[test]
fn orbits_seven_conditions() {
    let zero_copy = |facts: &CopyFacts| ladder(facts)[0] != ReadWrite;
    let small = CopyFacts { size: Some(4096), ..facts() };
    // 1. platform: other systems have a file of their own; 2. threshold.
    assert!(zero_copy(&facts()));
    assert_eq!(ladder(&small)[..2], [Reflink, ReadWrite]);
    // 3. same filesystem: EXDEV moves on.
    let crossed = |mechanism| classify(mechanism, Errno::EXDEV, 0);
    assert_eq!(crossed(Reflink), ErrorClass::Unsupported);
    assert_eq!(crossed(CopyFileRange), ErrorClass::Unsupported);
    // 4. the user's switch.
    assert!(!zero_copy(&CopyFacts { allow: Allow::ReadWrite, ..facts() }));
    // 5. resume: a mechanism that stopped is followed by the next one.
    let stopped = Attempted { mechanism: Reflink, errno: None, moved_bytes: 0 };
    assert_eq!(next(&facts(), &[stopped]), PlanStep::Try(ladder(&facts())[1]));
    // 6. compression.
    assert!(!zero_copy(&CopyFacts { transforms: true, ..facts() }));
    // 7. throttling: pieces have a size, nothing else changes.
}

/// One row for each cell of the measured matrix, and for what else is known of each error number.
#[test]
fn error_numbers_are_classified() {
    use ErrorClass::{Failed, Retry, Unsupported};
    for (mechanism, errno, moved, expected) in [
        // ext4 and tmpfs have no reflinks; nodatacow files take none; overlapping ranges.
        (Reflink, Errno::EOPNOTSUPP, 0, Unsupported),
        (Reflink, Errno::EINVAL, 0, Unsupported),
        (Reflink, Errno::EXDEV, 0, Unsupported),
        (Reflink, Errno::ENOTTY, 0, Unsupported),
        (Reflink, Errno::EPERM, 0, Unsupported),
        (Reflink, Errno::ENOSPC, 0, Failed),
        // Other filesystem; overlay and its upper layer; procfs.
        (CopyFileRange, Errno::EXDEV, 0, Unsupported),
        (CopyFileRange, Errno::EOPNOTSUPP, 0, Unsupported),
        (CopyFileRange, Errno::ENOSYS, 0, Unsupported),
        (CopyFileRange, Errno::EBADF, 0, Unsupported),
        (CopyFileRange, Errno::EINVAL, 0, Unsupported),
        (CopyFileRange, Errno::ETXTBSY, 0, Unsupported),
        (CopyFileRange, Errno::EPERM, 0, Unsupported),
        (CopyFileRange, Errno::EOVERFLOW, 0, Unsupported),
        (CopyFileRange, Errno::EACCES, 0, Unsupported),
        (CopyFileRange, Errno::EIO, 0, Unsupported),
        (CopyFileRange, Errno::ENOENT, 0, Unsupported),
        (CopyFileRange, Errno::EIO, 4096, Failed),
        (CopyFileRange, Errno::EXDEV, 4096, Unsupported),
        (CopyFileRange, Errno::EINTR, 0, Retry),
        (CopyFileRange, Errno::ENOSPC, 0, Failed),
        (CopyFileRange, Errno::EDQUOT, 0, Failed),
        (CopyFileRange, Errno::EROFS, 0, Failed),
        (CopyFileRange, Errno::EFBIG, 0, Failed),
        (Sendfile, Errno::EINVAL, 0, Unsupported),
        (Splice, Errno::EINVAL, 0, Unsupported),
        (Sendfile, Errno::EINTR, 0, Retry),
        (Direct, Errno::EFAULT, 0, Unsupported),
        (Direct, Errno::ENOMEM, 4096, Unsupported),
        (Direct, Errno::EINVAL, 0, Unsupported),
        (Direct, Errno::EIO, 0, Failed),
        (DirectRing, Errno::ENOSYS, 0, Unsupported),
        (DirectRing, Errno::ENOMEM, 0, Unsupported),
        (DirectRing, Errno::EAGAIN, 4096, Unsupported),
        (DirectRing, Errno::EIO, 0, Failed),
        (Direct, Errno::ENOSPC, 0, Failed),
        // Nothing comes after read and write.
        (ReadWrite, Errno::EINVAL, 0, Failed),
        (ReadWrite, Errno::EIO, 0, Failed),
        (ReadWrite, Errno::EPERM, 0, Failed),
        (ReadWrite, Errno::EINTR, 0, Retry),
    ] {
        assert_eq!(classify(mechanism, errno, moved), expected, "{mechanism} {errno} {moved}");
    }
}

/// Each requirement between each two kinds of filesystem, for a new file and one that is written in place.
#[test]
fn a_requirement_leaves_the_mechanisms_that_can_meet_it() {
    let ext4 = facts();
    let xfs = CopyFacts { destination: Filesystem::XFS, source: Filesystem::XFS, ..facts() };
    let on_loop = CopyFacts { direct: DirectPath::Unknown, ..xfs.clone() };
    let tmpfs = CopyFacts { direct: DirectPath::None, ..facts() };
    let kernel = vec![Reflink, Splice, CopyFileRange, Sendfile, Direct];
    for (require, on_ext4, on_xfs, above_loop, on_tmpfs) in [
        (
            Require::NoUserCopy,
            kernel,
            vec![Reflink, CopyFileRange, Splice, Sendfile, Direct],
            vec![Reflink, CopyFileRange, Splice, Sendfile, Direct],
            vec![Reflink, Splice, CopyFileRange, Sendfile],
        ),
        (
            Require::ZeroCopy,
            vec![Reflink, Direct],
            vec![Reflink, CopyFileRange, Direct],
            vec![Reflink, CopyFileRange],
            vec![Reflink],
        ),
        (Require::Moved, vec![Direct], vec![Direct], vec![], vec![]),
        (
            Require::Shared,
            vec![Reflink],
            vec![Reflink, CopyFileRange],
            vec![Reflink, CopyFileRange],
            vec![Reflink],
        ),
        (Require::Reflink, vec![Reflink], vec![Reflink], vec![Reflink], vec![Reflink]),
    ] {
        let rows = [(&ext4, on_ext4), (&xfs, on_xfs), (&on_loop, above_loop), (&tmpfs, on_tmpfs)];
        for (facts, mut expected) in rows {
            let facts = CopyFacts { require, ..facts.clone() };
            assert_eq!(ladder(&facts), expected, "{facts:?}");
            for mechanism in &expected {
                assert!(require.may_use(*mechanism), "{require:?} {mechanism}");
            }
            // Whether it has shared is known when the file has changed.
            expected.retain(|m| *m != CopyFileRange || require == Require::NoUserCopy);
            let in_place = CopyFacts { in_place: true, ..facts };
            assert_eq!(ladder(&in_place), expected, "{in_place:?}");
        }
    }
}

/// The step depends on the requirement.
#[test]
fn the_next_step_says_what_meets_the_requirement() {
    let steps = |facts: &CopyFacts, require| {
        let facts = CopyFacts { require, direct: DirectPath::None, ..facts.clone() };
        let reflink = stopped(Reflink, Some(Errno::EOPNOTSUPP), 0, &facts);
        let is_tried = next(&facts, &[]) == PlanStep::Try(Reflink);
        let tried = if is_tried { &[reflink][..] } else { &[] };
        let reason = no_mechanism(&facts, tried);
        Error::new("copy", "a", reason).next_step()
    };
    let stream = CopyFacts { size: None, ..facts() };
    for (require, step, of_stream) in [
        (Require::Reflink, NextStep::ShareBlocks, NextStep::NameRegularSource),
        (Require::Shared, NextStep::ShareBlocks, NextStep::NameRegularSource),
        (Require::Moved, NextStep::MoveToDisk, NextStep::NameRegularSource),
        (Require::ZeroCopy, NextStep::ShareOrMove, NextStep::NameRegularSource),
        (Require::NoUserCopy, NextStep::AllowMore, NextStep::AllowMore),
        (Require::Nothing, NextStep::AllowMore, NextStep::AllowMore),
    ] {
        assert_eq!(steps(&facts(), require), Some(step), "{require:?}");
        assert_eq!(steps(&stream, require), Some(of_stream), "{require:?}");
    }
}

#[test]
fn what_is_read_to_its_end_can_be_spliced_if_asked() {
    let unknown = CopyFacts { size: None, ..facts() };
    for (allow, expected) in [
        (Allow::Any, vec![ReadWrite]),
        (Allow::Only(Sendfile), vec![Sendfile]),
        (Allow::Only(Splice), vec![Splice]),
        (Allow::Only(CopyFileRange), vec![]),
        (Allow::Only(Direct), vec![]),
    ] {
        assert_eq!(ladder(&CopyFacts { allow, ..unknown.clone() }), expected, "{allow:?}");
    }
    for require in Require::ALL {
        let expected = match require {
            Require::Nothing => vec![ReadWrite],
            Require::NoUserCopy => vec![Splice, Sendfile],
            _ => vec![],
        };
        let facts = CopyFacts { require, ..unknown.clone() };
        assert_eq!(ladder(&facts), expected, "{require:?}");
    }
}

#[test]
fn every_cheaper_mechanism_left_out_has_a_reason() {
    for facts in [
        facts(),
        CopyFacts { size: Some(4096), ..facts() },
        CopyFacts { allow: Allow::ReadWrite, ..facts() },
        CopyFacts { transforms: true, ..facts() },
        CopyFacts { size: None, ..facts() },
    ] {
        let used = ReadWrite;
        let reasons = refusals(&facts, Some(used));
        let tried = ladder(&facts).iter().position(|m| *m == used).unwrap();
        // Earlier mechanisms are tried, and refused by the kernel.
        assert_eq!(reasons.len() + tried, 5, "{reasons:?}");
        assert!(reasons.iter().all(|r| !r.reason.to_string().is_empty()));
    }
}

fn refused(mechanism: Mechanism) -> Attempted {
    Attempted { mechanism, errno: None, moved_bytes: 0 }
}

fn tuned(bytes: u64) -> Threshold {
    Threshold { bytes, origin: Origin::Tuned }
}

#[test]
fn a_tuned_threshold_decides_and_is_named() {
    use Mechanism::{CopyFileRange, Direct, ReadWrite, Splice};
    let reflink = [refused(Mechanism::Reflink)];
    let named = |facts: &CopyFacts| {
        let names = decisive(facts, &reflink).into_iter().map(|decision| decision.choice);
        (next(facts, &reflink), names.collect::<Vec<_>>())
    };
    let small = Tuning { zero_copy_min: tuned(256 << 10), ..Tuning::BUILT_IN };
    let smaller = Tuning { zero_copy_min: tuned(8 << 10), ..Tuning::BUILT_IN };
    let late = Tuning { direct_min: tuned(64 << 20), ..Tuning::BUILT_IN };
    let early = Tuning { direct_min: tuned(256 << 10), ..Tuning::BUILT_IN };
    let thrifty = Tuning { direct_cpu_min: tuned(32 << 20), ..Tuning::BUILT_IN };
    let kib = |size: u64| CopyFacts { size: Some(size << 10), data_bytes: size << 10, ..facts() };
    let durable = |size| CopyFacts { durable: true, ..kib(size) };
    let cpu = |size| CopyFacts { prefer: Prefer::CpuTime, ..kib(size) };
    for (facts, tuning, way, names) in [
        (kib(100), Tuning::BUILT_IN, CopyFileRange, vec![]),
        (kib(100), small, ReadWrite, vec![Choice::ZeroCopyMin]),
        (kib(300), small, CopyFileRange, vec![]),
        (kib(16), smaller, CopyFileRange, vec![Choice::ZeroCopyMin]),
        (kib(4), smaller, ReadWrite, vec![]),
        (durable(2048), late, CopyFileRange, vec![Choice::DirectMin]),
        (durable(100 << 10), late, Direct, vec![]),
        (durable(512), early, Direct, vec![Choice::DirectMin]),
        (kib(512), early, CopyFileRange, vec![]),
        (cpu(8 << 10), thrifty, Splice, vec![Choice::DirectCpuMin]),
        (cpu(40 << 10), thrifty, Direct, vec![]),
    ] {
        let facts = CopyFacts { tuning, ..facts };
        assert_eq!(named(&facts), (PlanStep::Try(way), names), "{:?} {tuning:?}", facts.size);
    }
    let facts = CopyFacts { tuning: late, ..durable(2048) };
    let decision = Decision { choice: Choice::DirectMin, threshold: late.direct_min };
    assert_eq!(decisive(&facts, &reflink), [decision]);
    let reported: Vec<String> =
        refusals(&facts, Some(Splice)).iter().map(ToString::to_string).collect();
    let expected = "direct: too small to pay for O_DIRECT (below direct-min, 64 MiB, tuned for this filesystem)";
    assert!(reported.iter().any(|text| text == expected), "{reported:?}");
}

/// Sources in memory: two threads, unless one is all there is, or there is time for a trial.
#[test]
fn from_memory_two_threads_read_and_write() {
    let tmpfs = Filesystem::from_magic(0x0102_1994);
    let of =
        |bytes| CopyFacts { source: tmpfs, has_second_thread: true, ..CopyFacts::ordinary(bytes) };
    for (facts, expected) in [
        (of(16 * MIB), ReadWrite),
        (of(511 * MIB), ReadWrite),
        (of(16 * MIB - 1), Splice),
        (of(512 * MIB), Splice),
        (CopyFacts { destination: Filesystem::XFS, ..of(16 * MIB) }, ReadWrite),
        (CopyFacts { destination: Filesystem::BTRFS, ..of(16 * MIB) }, CopyFileRange),
        (CopyFacts { source: Filesystem::EXT4, ..of(16 * MIB) }, Splice),
        (CopyFacts { has_second_thread: false, ..of(16 * MIB) }, Splice),
        (CopyFacts { has_holes: true, ..of(16 * MIB) }, Splice),
        (CopyFacts { in_place: true, ..of(16 * MIB) }, Splice),
        (CopyFacts { prefer: Prefer::CpuTime, ..of(16 * MIB) }, Direct),
        (CopyFacts { durable: true, ..of(16 * MIB) }, Direct),
        (CopyFacts { require: Require::NoUserCopy, ..of(16 * MIB) }, Splice),
        (CopyFacts { size: None, ..of(16 * MIB) }, ReadWrite),
    ] {
        let attempted = [Attempted { mechanism: Reflink, errno: None, moved_bytes: 0 }];
        assert_eq!(next(&facts, &attempted), PlanStep::Try(expected), "{facts:?}");
        let rules = ranges_are_faster(&facts) && !facts.durable;
        assert_eq!(rules, expected == ReadWrite && facts.size.is_some(), "{facts:?}");
        assert!(!rules || rivals(&facts, &attempted).is_empty(), "{facts:?}");
    }
}

#[test]
fn ranges_are_for_large_pieces_where_two_threads_gain() {
    let in_place = CopyFacts { in_place: true, ..facts() };
    let cpu = CopyFacts { prefer: Prefer::CpuTime, ..facts() };
    let to_xfs = CopyFacts { destination: Filesystem::XFS, ..facts() };
    let to_btrfs = CopyFacts { destination: Filesystem::BTRFS, ..facts() };
    let from_nfs = CopyFacts { source: Filesystem::from_magic(0x6969), ..facts() };
    for (facts, mechanism, piece, expected) in [
        (facts(), ReadWrite, RANGES_MIN_BYTES, true),
        (facts(), ReadWrite, RANGES_MIN_BYTES - 1, false),
        (to_xfs, ReadWrite, 100 * MIB, true),
        (to_btrfs, ReadWrite, 100 * MIB, false),
        (from_nfs, ReadWrite, 100 * MIB, false),
        (in_place, ReadWrite, 100 * MIB, false),
        (cpu, ReadWrite, 100 * MIB, false),
        (facts(), CopyFileRange, 100 * MIB, false),
        (facts(), Direct, 100 * MIB, false),
        (facts(), Splice, 100 * MIB, false),
    ] {
        assert_eq!(gains_by_ranges(&facts, mechanism, piece), expected, "{mechanism} {piece}");
    }
}

#[test]
fn what_comes_from_another_machine_is_written_and_nothing_else_is_refused() {
    for prefer in [Prefer::WallTime, Prefer::CpuTime] {
        for size in [None, Some(1), Some(100 << 10), Some(1 << 30)] {
            for allow in [Allow::Any, Allow::Unshared, Allow::ReadWrite, Allow::Only(ReadWrite)] {
                let facts = CopyFacts { is_elsewhere: true, size, prefer, allow, ..facts() };
                assert_eq!(next(&facts, &[]), PlanStep::Try(ReadWrite));
                assert_eq!(refusals(&facts, Some(ReadWrite)), []);
                assert!(!gains_by_ranges(&facts, ReadWrite, 1 << 30));
                let attempted = Attempted { mechanism: ReadWrite, errno: None, moved_bytes: 0 };
                assert_eq!(next(&facts, &[attempted]), PlanStep::GiveUp);
            }
        }
    }
}
