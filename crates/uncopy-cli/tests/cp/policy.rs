//! Mechanisms that the user allows: `--require-zero-copy`, `--no-user-copy`, `--no-zero-copy`, `--prefer`.

use testbed::{CallPattern, Case, Content, Need, Place, SystemCall};
use uncopy::Errno;

use crate::cp::witnessed::{Pair, WRITES, is_clone, opens_for_direct_io};
use crate::cp::{COPY_FILE_RANGE, READ_WRITE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::At(Place::Xfs), Need::At(Place::Btrfs)] zero_copy_by_sharing,
        [Need::BareDevice, Need::Tool("strace")] zero_copy_by_moving,
        [Need::At(Place::Ext4)] zero_copy_is_refused_where_there_is_none,
        [Need::At(Place::Xfs), Need::At(Place::Ext4)] zero_copy_is_refused_across_filesystems,
        [] zero_copy_of_holes_and_of_nothing,
        [Need::At(Place::Xfs)] verification_does_not_count_as_a_copy,
        [Need::Tool("strace")] no_user_copy_never_writes_a_buffer,
        [] no_user_copy_fails_rather,
        [] no_user_copy_of_pseudo_files,
        [Need::Tool("strace")] no_zero_copy_reads_and_writes,
        [Need::At(Place::Xfs), Need::Tool("strace"), Need::Tool("filefrag")] no_zero_copy_shares_nothing,
        [] contradictions_are_refused,
        [Need::BareDevice] cpu_prefers_direct,
        [Need::BareDevice] durable_prefers_direct,
        [] refusals_say_why,
    ]
}

const LENGTH: u64 = 8 << 20;

fn zero_copy_by_sharing() {
    for place in [Place::Xfs, Place::Btrfs] {
        let pair = Pair::at(place, &Content::dense(LENGTH + 123));
        let receipt = pair.copy(cp().arg("--require-zero-copy"));
        assert_eq!(receipt.at("shared"), LENGTH + 123, "{}", receipt.value());
    }
}

fn zero_copy_by_moving() {
    let pair = Pair::at(Place::Disk, &Content::sparse(LENGTH, &[(0, 1 << 20), (4 << 20, 1 << 20)]));
    let (run, trace) = pair.traced(cp().arg("--require-zero-copy"));
    let receipt = run.receipt();
    assert_eq!(receipt.at("moved"), 2 << 20, "{}", receipt.value());
    assert!(opens_for_direct_io(&trace, pair.to.path()));
    // An end within a block: whatever becomes of it, no processor has copied it if this succeeds.
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH + 123));
    let run = pair.command(cp().arg("--require-zero-copy")).run();
    if run.status.success() {
        let receipt = run.receipt();
        let copied = receipt.at("user_copied") + receipt.at("kernel_copied");
        assert_eq!(copied + receipt.at("unknown"), 0, "{}", receipt.value());
        pair.assert_copied();
    } else {
        run.failed(5);
        pair.assert_nothing_left();
    }
}

fn refused(pair: &Pair) {
    let old = pair.old_destination();
    for switches in [&["--require-zero-copy"][..], &["--require-zero-copy", "--durable"]] {
        let run = pair.command(cp().args(switches)).run();
        let message = run.failed(5);
        for mechanism in ["reflink", "copy_file_range", "direct", "sendfile", "splice"] {
            assert!(message.contains(mechanism), "why not {mechanism}? {message}");
        }
        pair.assert_kept(&old);
    }
}

fn zero_copy_is_refused_where_there_is_none() {
    for place in [Place::Ext4, Place::Tmpfs] {
        refused(&Pair::at(place, &Content::dense(LENGTH)));
    }
}

fn zero_copy_is_refused_across_filesystems() {
    refused(&Pair::new(Place::Xfs, Place::Ext4, &Content::dense(LENGTH)));
}

/// Nothing has to be copied, so nothing is.
fn zero_copy_of_holes_and_of_nothing() {
    let pair = Pair::at(Place::Disk, &Content::dense(0));
    pair.copy(cp().arg("--require-zero-copy"));
}

fn verification_does_not_count_as_a_copy() {
    let pair = Pair::at(Place::Xfs, &Content::dense(LENGTH));
    for policy in ["--require-zero-copy", "--no-user-copy"] {
        let receipt = pair.copy(cp().args([policy, "--verify"]));
        assert_eq!(receipt.at("shared"), LENGTH, "{}", receipt.value());
    }
}

fn no_user_copy_never_writes_a_buffer() {
    for length in [100, 5000, 65_537, LENGTH + 123] {
        for switch in ["--cache=auto", "--durable", "--prefer=cpu"] {
            let pair = Pair::at(Place::Disk, &Content::dense(length));
            let (run, trace) = pair.traced(cp().args(["--no-user-copy", switch]));
            let receipt = run.receipt();
            assert_eq!(receipt.at("user_copied"), 0, "{}", receipt.value());
            let moved = receipt.by("direct");
            assert!(trace.bytes(&WRITES, pair.to.path()) <= moved, "{}", receipt.value());
        }
    }
}

fn no_user_copy_fails_rather() {
    let pair = Pair::at(Place::Disk, &Content::dense(100_000));
    let old = pair.old_destination();
    let faults = [
        (SystemCall::IOCTL, Errno::EOPNOTSUPP),
        (SystemCall::COPY_FILE_RANGE, Errno::ENOSYS),
        (SystemCall::SENDFILE, Errno::EINVAL),
        (SystemCall::SPLICE, Errno::EINVAL),
    ];
    let faults = faults.map(|(call, errno)| CallPattern::of(&[call]).fails(errno));
    let run = pair.command(cp().arg("--no-user-copy")).run_with(faults).run;
    assert!(run.failed(5).contains("ENOSYS"), "{}", run.stderr);
    pair.assert_kept(&old);
}

/// The kernel can copy from procfs; if this program cannot have it done, it must say so.
fn no_user_copy_of_pseudo_files() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let run = cp().arg("--no-user-copy").arg("/proc/version").arg(&pair.destination).run();
    if run.status.success() {
        assert_eq!(run.receipt().at("user_copied"), 0, "{}", run.stdout);
        let found = std::fs::read(&pair.destination).unwrap();
        assert_eq!(found, std::fs::read("/proc/version").unwrap());
    } else {
        run.failed(5);
        pair.assert_nothing_left();
    }
}

fn reads_and_writes(place: Place) {
    for switch in ["--cache=auto", "--durable", "--prefer=cpu", "--cache=skip", "-p"] {
        let pair = Pair::at(place, &Content::dense(LENGTH + 5));
        let (run, trace) = pair.traced(cp().args(["--no-zero-copy", switch]));
        let receipt = run.receipt();
        assert_eq!(receipt.at("user_copied"), LENGTH + 5, "{}", receipt.value());
        assert!(
            trace.named(&["copy_file_range", "sendfile", "splice", "io_uring_setup"]).is_empty()
        );
        assert!(!trace.calls.iter().any(is_clone));
        assert!(!opens_for_direct_io(&trace, pair.to.path()));
    }
}

fn no_zero_copy_reads_and_writes() {
    reads_and_writes(Place::Disk);
}

fn no_zero_copy_shares_nothing() {
    reads_and_writes(Place::Xfs);
    let pair = Pair::at(Place::Xfs, &Content::dense(LENGTH));
    let receipt = pair.copy(cp().arg("--no-zero-copy"));
    pair.hold_against_extents(&receipt);
    assert_eq!(receipt.at("shared"), 0);
}

fn contradictions_are_refused() {
    let pair = Pair::at(Place::Disk, &Content::dense(100));
    let old = pair.old_destination();
    for switches in [
        &["--require-zero-copy", "--no-zero-copy"][..],
        &["--no-user-copy", "--no-zero-copy"],
        &["--method", "direct", "--no-zero-copy"],
        &["--method", "read-write", "--require-zero-copy"],
        &["--method", "read-write", "--no-user-copy"],
        &["--method", "sendfile", "--require-zero-copy"],
        &["--method", "direct", "--cache", "keep"],
        &["--method", "direct-ring", "--cache", "keep"],
        &["--verify", "--no-verify", "--method", "nonsense"],
    ] {
        let run = pair.command(cp().args(switches)).run();
        assert!(run.status.code().is_some_and(|code| code == 2 || code == 5), "{switches:?}");
        assert!(!run.stderr.is_empty(), "{switches:?}");
        pair.assert_kept(&old);
    }
}

fn cpu_prefers_direct() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let receipt = pair.copy(cp().arg("--prefer=cpu"));
    assert_eq!(receipt.at("moved"), LENGTH, "{}", receipt.value());
}

fn durable_prefers_direct() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let receipt = pair.copy(cp().arg("--durable"));
    assert_eq!(receipt.at("moved"), LENGTH, "{}", receipt.value());
}

/// For every way that would have copied less, a reason.
fn refusals_say_why() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let by =
        |receipt: &testbed::Receipt| receipt.refusals().into_iter().map(|r| r.mechanism).collect();
    let receipt = pair.copy(cp_by(READ_WRITE));
    let all: Vec<String> = by(&receipt);
    // Cheapest first; where copy_file_range shares it stands before direct writes.
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(sorted, ["copy_file_range", "direct", "reflink", "sendfile", "splice"], "{all:?}");
    assert_eq!(all[0], "reflink", "{all:?}");
    let receipt = pair.copy(cp_by(COPY_FILE_RANGE));
    let cheaper: Vec<String> = by(&receipt);
    assert_eq!(cheaper[0], "reflink", "{}", receipt.value());
    // Where it only splices, direct writes would have been cheaper as well.
    assert!(cheaper[1..].iter().all(|name| name == "direct"), "{}", receipt.value());
    let receipt = pair.copy(cp());
    let used = receipt.mechanisms();
    for refusal in receipt.refusals() {
        assert!(!refusal.reason.is_empty() && !used.contains(&refusal.mechanism));
    }
}
