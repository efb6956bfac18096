//! `--require`: a copy whose bytes cannot go as required gets no name, changes nothing, and says why.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use testbed::witness::{Call, Strace, Trace};
use testbed::{CallPattern, Case, Content, Need, Place, Program, Run, SystemCall};
use uncopy::Errno;

use crate::both::Form;
use crate::cp::witnessed::{Pair, RENAMES, WRITE_CALLS};
use crate::cp::{DIRECT, READ_WRITE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("strace")] every_requirement_on_the_disk,
        [Need::At(Place::Ext4), Need::Tool("strace")] every_requirement_on_ext4,
        [Need::At(Place::Xfs), Need::Tool("strace")] every_requirement_on_xfs,
        [Need::At(Place::Btrfs), Need::Tool("strace")] every_requirement_on_btrfs,
        [Need::At(Place::Tmpfs), Need::Tool("strace")] every_requirement_on_tmpfs,
        [Need::At(Place::Xfs), Need::At(Place::Ext4), Need::Tool("strace")] every_requirement_across,
        [Need::BareDevice] moved_is_met_by_the_device_alone,
        [Need::BareDevice] a_device_that_refuses_later_leaves_nothing,
        [Need::At(Place::Xfs)] a_filesystem_that_copies_instead_of_sharing_is_noticed,
        [] in_place_nothing_changes_before_the_first_bytes,
        [] in_place_a_later_refusal_is_an_error_of_the_destination,
        [] holes_and_nothing_meet_every_requirement,
        [] the_strictest_rule_holds,
        [] a_method_that_cannot_meet_it_is_refused,
        [] a_setting_requires_too,
        [Need::At(Place::Ext4)] a_tree_keeps_what_meets_it,
    ]
}

const MIB: u64 = 1 << 20;
/// Large enough to be resumable, in a tree with a journal.
const LENGTH: u64 = 36 * MIB;

const WORDS: [&str; 5] = ["no-user-copy", "zero-copy", "moved", "shared", "reflink"];

/// Whether the copy has to succeed; `None`: as the disk has it.
fn expected(word: &str, shares: bool, moves: Option<bool>) -> Option<bool> {
    match word {
        "no-user-copy" => Some(true),
        "zero-copy" if shares => Some(true),
        "zero-copy" | "moved" => moves,
        _ => Some(shares),
    }
}

/// Calls that gave an entry of this directory a name.
fn named<'t>(trace: &'t Trace, directory: &Path) -> Vec<&'t Call> {
    let makes = |call: &&Call| match call.name.as_str() {
        "linkat" | "link" | "symlinkat" => true,
        name if RENAMES.contains(&name) => true,
        "openat" | "open" | "openat2" => call.arguments.contains("O_CREAT"),
        _ => false,
    };
    // Records of temporary names, and of what is done, hold no data of the copy.
    let own = [".record\"", ".journal\""];
    let is_of_copy = |call: &&Call| !own.iter().any(|suffix| call.arguments.contains(suffix));
    let succeeded = |call: &&Call| call.value().is_some_and(|value| value >= 0);
    let calls = trace.calls.iter().filter(makes).filter(is_of_copy).filter(succeeded);
    calls.filter(|call| call.mentions(directory)).collect()
}

/// Holds the receipts against the requirement.
fn assert_met(word: &str, run: &Run) {
    let copied = run.receipts().into_iter().filter(|r| r.value()["event"] == "copied");
    for receipt in copied.filter(|receipt| receipt.bytes() > 0) {
        let forbidden = match word {
            "no-user-copy" => &["user_copied"][..],
            "zero-copy" => &["user_copied", "kernel_copied", "unknown"],
            "moved" => &["user_copied", "kernel_copied", "unknown", "shared"],
            _ => &["user_copied", "kernel_copied", "unknown", "moved"],
        };
        for cost in forbidden {
            assert_eq!(receipt.at(cost), 0, "--require={word}: {}", receipt.value());
        }
        if word == "reflink" {
            let holes = receipt.at("hole");
            assert_eq!(receipt.by("reflink") + holes, receipt.bytes(), "{}", receipt.value());
        }
    }
}

/// Checks the message of a run that could not meet the requirement.
fn assert_says_what_to_do(word: &str, run: &Run) {
    let message = run.failed(5);
    let step = match word {
        "moved" => "takes direct writes",
        "zero-copy" => "or the destination on ext4",
        "no-user-copy" => "leave out",
        _ => "put source and destination on one filesystem that shares blocks",
    };
    assert!(message.contains(step), "--require={word}: {message}");
    assert!(message.contains("reflink"), "--require={word}: {message}");
}

fn every_requirement(from: Place, to: Place, shares: bool, moves: Option<bool>) {
    // Data at both ends, holes between them, and an end within a block.
    let content = Content::sparse(LENGTH + 123, &[(0, MIB), (LENGTH - MIB, MIB + 123)]);
    for word in WORDS {
        let require = format!("--require={word}");
        let must = expected(word, shares, moves);
        for form in [Form::File, Form::NewTree, Form::OldTree] {
            let extras = [&[][..], &["--resume"], &["--on-error=abort"]];
            // In short each form is run with one of them.
            let short = &extras[form as usize % 3..][..1];
            for extra in testbed::by_extent([short, &extras, &extras]) {
                if form == Form::File && *extra == ["--resume"] {
                    continue;
                }
                let pair = Pair::between(form, from, to, &content);
                let old = (form != Form::NewTree).then(|| pair.old_destination());
                let program = cp().arg(&require).args(*extra);
                let (run, trace) = Strace::new(&pair.command(program)).run();
                let context = format!("{require} {form:?} {extra:?}: {}", run.stderr);
                if let Some(must) = must {
                    assert_eq!(run.status.success(), must, "{context}");
                }
                if run.status.success() {
                    pair.assert_copied();
                    assert_met(word, &run);
                    continue;
                }
                assert_says_what_to_do(word, &run);
                match &old {
                    Some(old) => pair.assert_kept(old),
                    None => pair.assert_nothing_left(),
                }
                let is_tree_itself = |call: &&&Call| {
                    form == Form::NewTree
                        && *extra != ["--on-error=abort"]
                        && RENAMES.contains(&call.name.as_str())
                };
                let found = named(&trace, pair.to.path());
                let found: Vec<_> = found.iter().filter(|call| !is_tree_itself(call)).collect();
                assert!(found.is_empty(), "{context}: {found:#?}");
                if *extra == ["--on-error=abort"] && form == Form::NewTree {
                    pair.assert_nothing_begun();
                }
            }
        }
        several(&require, from, to, &content, must);
        in_place(&require, from, to, &content, must);
    }
}

/// Each of several sources is refused for itself.
fn several(require: &str, from: Place, to: Place, content: &Content, must: Option<bool>) {
    let word = require.strip_prefix("--require=").unwrap();
    let (sources, target) = (from.scratch(), to.scratch());
    let paths = ["a", "b"].map(|name| sources.join(name));
    for path in &paths {
        content.write(path);
    }
    for (flag, failures) in [("--on-error=skip", 2), ("--on-error=abort", 1)] {
        let program = cp().arg(require).arg(flag).arg("-t").arg(target.path()).args(&paths);
        let (run, trace) = Strace::new(&program).run();
        if let Some(must) = must {
            assert_eq!(run.status.success(), must, "{require}: {}", run.stderr);
        }
        if run.status.success() {
            assert_met(word, &run);
            return;
        }
        assert_says_what_to_do(word, &run);
        let failed = run.receipts().into_iter().filter(|r| r.value()["event"] == "failed");
        assert_eq!(failed.count(), failures, "{require} {flag}: {}", run.stdout);
        let left = target.strangers(&[]);
        assert!(left.is_empty(), "{require} {flag}: {left:?}");
        let found = named(&trace, target.path());
        assert!(found.is_empty(), "{require} {flag}: {found:#?}");
    }
}

/// It is met, or the file is as it was, with its inode, its bytes and its times.
fn in_place(require: &str, from: Place, to: Place, content: &Content, must: Option<bool>) {
    let word = require.strip_prefix("--require=").unwrap();
    let pair = Pair::new(from, to, content);
    let old = pair.old_destination();
    let before = std::fs::metadata(&pair.destination).unwrap();
    let run = pair.command(cp().arg(require).arg("--in-place")).run();
    if let Some(must) = must {
        assert_eq!(run.status.success(), must, "{require}: {}", run.stderr);
    }
    let after = std::fs::metadata(&pair.destination).unwrap();
    assert_eq!(before.ino(), after.ino());
    if run.status.success() {
        pair.assert_copied();
        assert_met(word, &run);
        return;
    }
    assert_says_what_to_do(word, &run);
    pair.assert_kept(&old);
    let changed = |stat: &std::fs::Metadata| (stat.mtime(), stat.mtime_nsec(), stat.blocks());
    assert_eq!(changed(&before), changed(&after), "{require}");
}

fn every_requirement_on_the_disk() {
    every_requirement(Place::Disk, Place::Disk, Place::Disk.has_reflinks(), None);
}

fn every_requirement_on_ext4() {
    every_requirement(Place::Ext4, Place::Ext4, false, Some(false));
}

fn every_requirement_on_xfs() {
    every_requirement(Place::Xfs, Place::Xfs, true, Some(false));
}

fn every_requirement_on_btrfs() {
    every_requirement(Place::Btrfs, Place::Btrfs, true, Some(false));
}

fn every_requirement_on_tmpfs() {
    every_requirement(Place::Tmpfs, Place::Tmpfs, false, Some(false));
}

fn every_requirement_across() {
    every_requirement(Place::Xfs, Place::Ext4, false, Some(false));
}

/// An end within a block, a hole, and blocks of a file that is written in place.
fn moved_is_met_by_the_device_alone() {
    let content = Content::sparse(8 * MIB + 123, &[(MIB, MIB), (6 * MIB, 2 * MIB + 123)]);
    for word in ["moved", "zero-copy"] {
        for flags in [&[][..], &["--in-place"], &["--cache=skip"], &["--verify"]] {
            let pair = Pair::at(Place::Disk, &content);
            pair.old_destination();
            let receipt = pair.copy(cp().arg(format!("--require={word}")).args(flags));
            assert_eq!(receipt.at("moved"), 3 * MIB + 123, "{flags:?} {}", receipt.value());
            assert_eq!(receipt.at("hole"), 5 * MIB, "{flags:?} {}", receipt.value());
        }
    }
    let pair = Pair::at(Place::Disk, &content);
    let receipt = pair.copy(cp_by(DIRECT).arg("--require=moved"));
    assert_eq!(receipt.at("moved"), 3 * MIB + 123, "{}", receipt.value());
}

fn a_device_that_refuses_later_leaves_nothing() {
    let pair = Pair::at(Place::Disk, &Content::sparse(8 * MIB, &[(0, MIB), (4 * MIB, MIB)]));
    let old = pair.old_destination();
    let second = CallPattern::of(&WRITE_CALLS).on(pair.to.path()).from(2);
    let run = pair.command(cp().arg("--require=moved")).run_with([second.fails(Errno::EINVAL)]);
    assert_says_what_to_do("moved", &run.run);
    pair.assert_kept(&old);
}

/// The reflink is refused, and `copy_file_range` says that it is done although nothing is shared.
fn a_filesystem_that_copies_instead_of_sharing_is_noticed() {
    for word in ["shared", "zero-copy"] {
        for form in [Form::File, Form::NewTree] {
            let pair = Pair::of(form, Place::Xfs, &Content::dense(MIB));
            let faults = [
                no_clone(),
                CallPattern::of(&[SystemCall::COPY_FILE_RANGE]).returns(MIB.cast_signed()),
            ];
            let require = format!("--require={word}");
            let run = pair.command(cp().arg(&require)).run_with(faults).run;
            let message = run.failed(5);
            assert!(message.contains("copy_file_range: --require: it copies"), "{message}");
            pair.assert_nothing_left();
        }
        let pair = Pair::at(Place::Xfs, &Content::dense(MIB));
        let require = format!("--require={word}");
        let receipt = pair.command(cp().arg(&require)).run_with([no_clone()]).run.receipt();
        assert_eq!(receipt.by("copy_file_range"), MIB, "{}", receipt.value());
        assert_eq!(receipt.at("shared"), MIB, "{}", receipt.value());
    }
}

fn no_clone() -> testbed::Fault {
    let clones = CallPattern::of(&[SystemCall::IOCTL]).when(testbed::WatchedCall::is_clone);
    clones.fails(Errno::EOPNOTSUPP)
}

/// Every copy inside the kernel is refused.
fn no_kernel_copies() -> [testbed::Fault; 4] {
    [
        no_clone(),
        CallPattern::of(&[SystemCall::COPY_FILE_RANGE]).fails(Errno::ENOSYS),
        CallPattern::of(&[SystemCall::SENDFILE]).fails(Errno::EINVAL),
        CallPattern::of(&[SystemCall::SPLICE]).fails(Errno::EINVAL),
    ]
}

/// The source begins with a hole, where the old file has bytes.
fn in_place_nothing_changes_before_the_first_bytes() {
    for flag in ["--require=no-user-copy", "--method=splice"] {
        let pair = Pair::at(Place::Disk, &Content::sparse(MIB / 2, &[(MIB / 4, 10_000)]));
        let old = pair.old_destination();
        let run = pair.command(cp().args([flag, "--in-place"])).run_with(no_kernel_copies()).run;
        run.failed(5);
        pair.assert_kept(&old);
        let receipt = pair.copy(cp().args([flag, "--in-place"]));
        assert_eq!(receipt.at("user_copied"), 0, "{}", receipt.value());
        assert!(receipt.at("hole") > 0, "{}", receipt.value());
    }
}

/// The first bytes are in the old file: that no mechanism is left is no longer said by exit code 5.
fn in_place_a_later_refusal_is_an_error_of_the_destination() {
    let pair = Pair::at(Place::Disk, &Content::sparse(MIB, &[(0, 10_000), (MIB / 2, 10_000)]));
    pair.old_destination();
    let program = cp_by(crate::cp::SENDFILE).args(["--require=no-user-copy", "--in-place"]);
    let second = CallPattern::of(&[SystemCall::SENDFILE]).from(2).fails(Errno::EINVAL);
    let run = pair.command(program).run_with([second]).run;
    let message = run.failed(1);
    assert!(message.contains("mixture"), "{message}");
}

fn holes_and_nothing_meet_every_requirement() {
    for word in WORDS {
        for content in [Content::dense(0), Content::sparse(MIB, &[])] {
            for flags in [&[][..], &["--in-place"]] {
                let pair = Pair::at(Place::Disk, &content);
                pair.old_destination();
                let receipt = pair.copy(cp().arg(format!("--require={word}")).args(flags));
                assert_eq!(receipt.at("hole"), receipt.bytes(), "{}", receipt.value());
            }
        }
    }
}

/// `/proc/version` can be copied by the kernel at most.
fn the_strictest_rule_holds() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    for flags in [
        &["--require=no-user-copy", "--require-zero-copy"][..],
        &["--require=zero-copy", "--no-user-copy"],
        &["--require=shared", "--require-zero-copy"],
    ] {
        let run = cp().args(flags).arg("/proc/version").arg(&pair.destination).run();
        let message = run.failed(5);
        assert!(message.contains("copy from a regular file"), "{flags:?}: {message}");
        pair.assert_nothing_left();
    }
}

fn a_method_that_cannot_meet_it_is_refused() {
    let pair = Pair::at(Place::Disk, &Content::dense(100));
    let old = pair.old_destination();
    let methods =
        ["reflink", "copy-file-range", "direct-ring", "direct", "sendfile", "splice", "read-write"];
    for (word, able) in [
        ("no-user-copy", &methods[..6]),
        ("zero-copy", &methods[..4]),
        ("moved", &methods[2..4]),
        ("shared", &methods[..2]),
        ("reflink", &methods[..1]),
    ] {
        for method in methods {
            let (require, flag) = (format!("--require={word}"), format!("--method={method}"));
            let run = pair.command(cp().arg(&require).arg(&flag)).run();
            let refused = run.status.code() == Some(2);
            assert_eq!(refused, !able.contains(&method), "{require} {flag}: {}", run.stderr);
            if refused {
                assert!(run.stderr.contains(&format!("{require} contradicts {flag}")));
                pair.assert_kept(&old);
            } else if run.status.success() {
                pair.put_old(&old);
            } else {
                run.failed(5);
                pair.assert_kept(&old);
            }
        }
    }
    for flags in [
        ["--require=moved", "--cache=keep"],
        ["--require=shared", "--sparse=always"],
        ["--require=no-user-copy", "--no-zero-copy"],
    ] {
        pair.command(cp().args(flags)).run().failed(2);
        pair.assert_kept(&old);
    }
}

fn a_setting_requires_too() {
    let pair = Pair::empty(Place::Disk, Place::Disk);
    let copy = |program: Program| program.arg("/proc/version").arg(&pair.destination).run();
    copy(cp().env("UNCOPY_REQUIRE", "zero-copy")).failed(5);
    pair.assert_nothing_left();
    let file = pair.from.join("config.toml");
    std::fs::write(&file, "require = 'shared'\n").unwrap();
    let with_file = || cp().arg("--config").arg(&file);
    copy(with_file()).failed(5);
    pair.assert_nothing_left();
    // A variable overrides the file, and a flag overrides both.
    for program in [
        with_file().env("UNCOPY_REQUIRE", "none"),
        with_file().arg("--require=none"),
        with_file().arg("--zero-copy"),
        with_file().arg("--no-zero-copy"),
    ] {
        assert!(copy(program).status.success());
        pair.clear();
    }
    copy(with_file().args(["--method", READ_WRITE.flag])).failed(2);
    let wrong = copy(cp().env("UNCOPY_REQUIRE", "cheap"));
    assert!(wrong.failed(2).contains("none, no-user-copy, zero-copy, moved, shared or reflink"));
    pair.assert_nothing_left();
}

/// Links, directories and what has no bytes are there; the job ends with 5, or with the first file.
fn a_tree_keeps_what_meets_it() {
    let (from, to) = (Place::Ext4.scratch(), Place::Ext4.scratch());
    let tree = from.subdirectory("tree", 0o755);
    std::fs::create_dir(tree.join("directory")).unwrap();
    std::fs::write(tree.join("directory/nothing"), "").unwrap();
    std::fs::write(tree.join("directory/something"), "text").unwrap();
    std::os::unix::fs::symlink("nothing", tree.join("directory/link")).unwrap();
    let copy = to.join("tree");
    for extra in [&[][..], &["--resume"]] {
        let run = cp().args(["-r", "--require=shared"]).args(extra).arg(&tree).arg(&copy).run();
        run.failed(5);
        let entries = std::fs::read_dir(copy.join("directory")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["link", "nothing"], "{extra:?}");
        std::fs::remove_dir_all(&copy).unwrap();
    }
    let run = cp().args(["-r", "--require=shared", "--on-error=abort"]).arg(&tree).arg(&copy).run();
    run.failed(5);
    let left = to.strangers(&[]);
    assert!(left.is_empty(), "{left:?}");
}
