//! `--verify`: the copy is read back, and put in place only if it is the source.

use std::fs::File;
use std::os::unix::fs::FileExt;

use testbed::witness::{Trace, awaits_allocation};
use testbed::{
    CallPattern, Case, Content, Fault, Intercept, Intercepted, Need, Place, Program, Run,
    SystemCall, WatchedCall, by_extent, run_tool,
};
use uncopy::Errno;

use crate::both::{Form, cases_over};
use crate::cp::leftovers::{calls_of_the_copy, no_unnamed_files, temporaries};
use crate::cp::witnessed::{Pair, WRITE_CALLS, opens_for_direct_io};
use crate::cp::{
    COPY_FILE_RANGE, DIRECT, EVERYWHERE, READ_WRITE, REFLINK, SENDFILE, SPLICE, cp, cp_by,
};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases_over![
        Form::ALL;
        [Need::Tool("sha256sum")] the_digest_is_that_of_the_file,
        [] nothing_is_verified_without_being_asked,
        [] no_verify_overrides_the_environment,
        [Need::At(Place::Ext4), Need::At(Place::Xfs), Need::At(Place::Btrfs)]
            only_what_is_known_is_blamed,
        [Need::BareDevice, Need::Tool("strace")] from_the_device_where_there_is_one,
        [Need::At(Place::Tmpfs)] from_the_cache_on_tmpfs,
        [Need::At(Place::Ext4)] from_the_cache_on_a_loop,
        [Need::At(Place::Xfs), Need::Tool("strace")] shared_extents_are_read_unless_trusted,
        [] sparse_and_empty_files,
    ];
    cases.extend(cases_over![
        Form::OVER_OLD;
        [] every_method_with_every_digest,
        [] a_write_that_did_not_happen_is_found,
        [] a_kernel_copy_that_did_not_happen_is_found,
        [Need::At(Place::Xfs)] a_clone_that_did_not_happen_is_found,
        [] a_byte_changed_after_the_flush_is_found,
        [Need::Tool("strace")] read_back_after_the_flush_and_before_the_rename,
        [] a_failing_read_back_is_no_success,
    ]);
    cases.extend(cases_over![
        [Form::File];
        [] in_place_says_that_the_old_file_is_gone,
    ]);
    cases
}

const LENGTH: u64 = (2 << 20) + 4321;

/// The receipt of a run that verified.
fn verified(pair: &Pair, run: &Run) -> serde_json::Value {
    let value = pair.receipt(run).value().clone();
    assert_eq!(value["verified"], true, "{value}");
    value
}

fn not_verified(pair: &Pair, run: &Run) {
    let value = pair.receipt(run).value().clone();
    assert_eq!(value["verified"], false, "{value}");
    assert!(value["digest"].is_null() && value["verified_from"].is_null(), "{value}");
}

fn the_digest_is_that_of_the_file(form: Form) {
    for length in [0, 1, 5000, LENGTH] {
        let pair = Pair::of(form, Place::Disk, &Content::dense(length));
        let run = pair.command(cp().arg("--verify=sha256")).run();
        let expected = run_tool("sha256sum", [&pair.source]);
        let said = verified(&pair, &run);
        assert_eq!(said["algorithm"], "sha256", "{said}");
        assert_eq!(said["digest"], expected.split(' ').next().unwrap(), "{said}");
    }
    // `printf abc | b3sum`, and XXH3 (128 bits) of the same: published vectors.
    let pair = Pair::empty_of(form, Place::Disk, Place::Disk);
    std::fs::write(&pair.source, b"abc").unwrap();
    for (algorithm, expected) in [
        ("blake3", "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
        ("xxh3", "06b05ab6733a618578af5f94892f3950"),
    ] {
        let run = pair.command(cp().arg(format!("--verify={algorithm}"))).run();
        assert_eq!(verified(&pair, &run)["digest"], expected);
    }
    let run = pair.command(cp().arg("--verify")).run();
    assert_eq!(verified(&pair, &run)["algorithm"], "blake3");
}

fn every_method_with_every_digest(form: Form) {
    let methods = EVERYWHERE.into_iter().chain([DIRECT]).enumerate();
    // Each method and each digest once at least.
    let step = by_extent([3, 1, 1]);
    for (first, algorithm) in ["blake3", "sha256", "xxh3"].into_iter().enumerate() {
        for (number, method) in methods.clone() {
            if (first + number) % step != 0 {
                continue;
            }
            let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
            pair.old_destination();
            let run = pair.command(cp_by(method).arg(format!("--verify={algorithm}"))).run();
            if run.status.code() == Some(5) && method == DIRECT {
                continue;
            }
            assert_eq!(verified(&pair, &run)["algorithm"], algorithm);
            pair.assert_copied();
        }
    }
}

fn nothing_is_verified_without_being_asked(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let run = pair.command(cp()).run();
    not_verified(&pair, &run);
}

fn no_verify_overrides_the_environment(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let configured = cp().env("UNCOPY_VERIFY", "sha256");
    let said = verified(&pair, &pair.command(configured.clone()).run());
    assert_eq!(said["algorithm"], "sha256", "{said}");
    not_verified(&pair, &pair.command(configured.arg("--no-verify")).run());
}

/// Something on the way lost bytes: the verification says so, the old file stays, or no file.
fn found(pair: &Pair, program: &Program, lie: &Fault, code: i32) {
    for old in [None, Some(pair.old_destination())] {
        if old.is_none() {
            pair.remove_copy();
        } else {
            pair.old_destination();
        }
        let Intercept { run, hits, .. } = pair.command(program.clone()).run_with([lie.clone()]);
        assert_eq!(hits, 1, "{lie}");
        let message = run.failed(code);
        assert!(code != 3 || message.contains("differ"), "{lie}: {message}");
        match old {
            Some(old) => pair.assert_kept(&old),
            None => pair.assert_nothing_left(),
        }
    }
}

/// The kernel says that it wrote, and did not.
fn a_write_that_did_not_happen_is_found(form: Form) {
    for algorithm in ["blake3", "sha256", "xxh3"].into_iter().take(by_extent([1, 3, 3])) {
        let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
        pair.old_destination();
        let program = cp_by(READ_WRITE).arg(format!("--verify={algorithm}"));
        let calls = calls_of_the_copy(&pair, &program);
        let own = calls.iter().filter(|call| call.touches(pair.to.path()));
        let writes = own.filter(|call| WRITE_CALLS.contains(&call.call));
        // A record of temporary names is shorter, and no part of the copy's bytes.
        let writes: Vec<_> = writes.filter(|call| call.arguments[2] > 4096).collect();
        for write in [writes[0], writes[writes.len() - 1]] {
            let length = i64::try_from(write.arguments[2]).unwrap();
            let lie = CallPattern::of(&[write.call]).nth(write.nth).returns(length);
            found(&pair, &program, &lie, 3);
        }
    }
}

fn a_kernel_copy_that_did_not_happen_is_found(form: Form) {
    for (method, call) in [
        (COPY_FILE_RANGE, SystemCall::COPY_FILE_RANGE),
        (SENDFILE, SystemCall::SENDFILE),
        (SPLICE, SystemCall::SPLICE),
    ] {
        let pair = Pair::of(form, Place::Disk, &Content::dense(100_000));
        pair.old_destination();
        let program = cp_by(method).arg("--verify");
        // One piece; bytes that a lying splice leaves in the pipe would come out as the next.
        let lie = CallPattern::of(&[call]).on(pair.to.path()).nth(1).returns(100_000);
        found(&pair, &program, &lie, 3);
    }
}

/// The kernel says that it copied 100,000 bytes, and did not.
fn copies_nothing() -> Fault {
    CallPattern::of(&[SystemCall::COPY_FILE_RANGE]).nth(1).returns(100_000)
}

/// Where the source may be what changed the device is not accused.
fn only_what_is_known_is_blamed(form: Form) {
    const IN_DOUBT: &str = "verification_in_doubt";
    const FAILED: &str = "verification_failed";
    let disks = [Place::Ext4, Place::Xfs, Place::Btrfs];
    let mut rows = vec![(Place::Tmpfs, true, "", IN_DOUBT, "filesystem", "nobody writes")];
    for place in disks {
        let retry = "if-changed=retry";
        rows.extend([
            (place, false, "", IN_DOUBT, "dirty pages", retry),
            (place, false, "--if-changed=accept", IN_DOUBT, "dirty pages", retry),
            (place, false, "--if-changed=fail", FAILED, "expected", "check the device"),
            (place, false, "--if-changed=retry", FAILED, "expected", "check the device"),
            (place, true, "", FAILED, "expected", "check the device"),
        ]);
    }
    for (place, is_clean, flag, kind, why, next) in rows {
        let pair = Pair::of(form, place, &Content::dense(100_000));
        let program = cp_by(COPY_FILE_RANGE).arg("--verify");
        let program = if flag.is_empty() { program } else { program.arg(flag) };
        // Whoever flushes the whole filesystem meanwhile, as a test beside this one, cleans the pages.
        let mut tries = if is_clean { 1 } else { 5 };
        let (message, said) = loop {
            if is_clean {
                File::open(&pair.source).unwrap().sync_all().unwrap();
            } else {
                // ext4 writes out an existing file that was truncated when it is closed.
                std::fs::remove_file(&pair.source).unwrap();
                std::fs::write(&pair.source, vec![7; 100_000]).unwrap();
            }
            let run = pair.command(program.clone()).run_with([copies_nothing()]).run;
            let message = run.failed(3).to_owned();
            let said = pair.event(&run).value()["kind"].clone();
            pair.assert_nothing_left();
            tries -= 1;
            if said == kind || tries == 0 || awaits_allocation(&pair.source) {
                break (message, said);
            }
        };
        let context = format!("{place:?} {is_clean} {flag}: {message}");
        assert_eq!(said, kind, "{context}");
        assert!(message.contains(why) && message.contains(next), "{context}");
        let is_accused = message.contains("; check the device and its cables");
        assert_eq!(is_accused, kind == FAILED, "{context}");
    }
    // A change that is accepted, between the copy and the second reading.
    let pair = Pair::of(form, Place::Ext4, &Content::dense(100_000));
    let program = cp_by(COPY_FILE_RANGE).args(["--verify", "--if-changed=accept"]);
    let stopped = pair.command(program).stop_after(SystemCall::FDATASYNC, 1);
    std::fs::write(&pair.source, vec![9; 100_000]).unwrap();
    let run = stopped.resume().run;
    assert!(run.failed(3).contains("the source changed meanwhile"), "{}", run.stderr);
    assert_eq!(pair.event(&run).value()["kind"], IN_DOUBT);
    pair.assert_nothing_left();
}

/// It is seen by its length already: no reflink, and no other way is allowed.
fn a_clone_that_did_not_happen_is_found(form: Form) {
    let pair = Pair::of(form, Place::Xfs, &Content::dense(LENGTH));
    pair.old_destination();
    for trust in [None, Some("--trust-shared-extents")] {
        let program = cp_by(REFLINK).arg("--verify").args(trust);
        let clone = CallPattern::of(&[SystemCall::IOCTL]).when(WatchedCall::is_clone).nth(1);
        found(&pair, &program, &clone.returns(0), 5);
    }
}

/// Somebody flips a byte of the temporary file between flush and read: a bad disk, in effect.
fn a_byte_changed_after_the_flush_is_found(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let program = cp().arg("--verify");
    for offset in [0, LENGTH / 2, LENGTH - 1] {
        let refuse = no_unnamed_files(Errno::EOPNOTSUPP);
        let command = Intercepted::new(&pair.command(program.clone())).inject(refuse);
        // Only flushed bytes can be read back.
        let flush = CallPattern::of(&[SystemCall::FSYNC, SystemCall::FDATASYNC]).nth(1);
        let stopped = command.stop_in(flush);
        let temporary = temporaries(pair.to.path()).remove(0);
        let file = File::options().read(true).write(true).open(temporary).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
        file.sync_all().unwrap();
        let run = stopped.resume().run;
        assert!(run.failed(3).contains("differ"), "a byte at {offset}: {}", run.stderr);
        pair.assert_kept(&old);
    }
}

fn in_place_says_that_the_old_file_is_gone(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(100_000));
    pair.old_destination();
    let program = cp_by(COPY_FILE_RANGE).args(["--verify", "--in-place"]);
    let run = pair.command(program).run_with([copies_nothing()]).run;
    let message = run.failed(3);
    assert!(!message.contains("was not put in place"), "it is in place: {message}");
}

fn from_the_device_where_there_is_one(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let (run, trace) = pair.traced(cp_by(COPY_FILE_RANGE).arg("--verify"));
    assert_eq!(verified(&pair, &run)["verified_from"], "device");
    assert!(opens_for_direct_io(&trace, pair.to.path()), "the cache would have answered");
}

fn from_the_cache_on_tmpfs(form: Form) {
    let pair = Pair::of(form, Place::Tmpfs, &Content::dense(LENGTH));
    let run = pair.command(cp().arg("--verify")).run();
    assert_eq!(verified(&pair, &run)["verified_from"], "cache");
}

fn from_the_cache_on_a_loop(form: Form) {
    for place in [Place::Ext4, Place::Xfs, Place::Btrfs] {
        let pair = Pair::of(form, place, &Content::dense(LENGTH));
        let run = pair.command(cp_by(READ_WRITE).arg("--verify")).run();
        assert_eq!(verified(&pair, &run)["verified_from"], "cache", "{place:?}");
    }
}

fn bytes_read(trace: &Trace, pair: &Pair) -> u64 {
    trace.bytes(&["read", "pread64", "preadv", "preadv2"], pair.to.path())
}

fn shared_extents_are_read_unless_trusted(form: Form) {
    let pair = Pair::of(form, Place::Xfs, &Content::dense(LENGTH));
    let (run, trace) = pair.traced(cp().arg("--verify"));
    assert_eq!(verified(&pair, &run)["verified_from"], "cache");
    assert!(bytes_read(&trace, &pair) >= LENGTH, "said to be verified, and not read");
    pair.remove_copy();

    let (run, trace) = pair.traced(cp().args(["--verify", "--trust-shared-extents"]));
    assert_eq!(verified(&pair, &run)["verified_from"], "shared_extents");
    assert_eq!(bytes_read(&trace, &pair), 0);
    pair.remove_copy();

    // Nothing is shared here, so that there is nothing to trust.
    let (run, trace) = pair.traced(cp_by(READ_WRITE).args(["--verify", "--trust-shared-extents"]));
    assert_eq!(verified(&pair, &run)["verified_from"], "cache");
    assert!(bytes_read(&trace, &pair) >= LENGTH);
}

fn read_back_after_the_flush_and_before_the_rename(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    let (run, trace) = pair.traced(cp().arg("--verify"));
    let _ = pair.receipt(&run);
    let flushed = trace
        .position(|call| matches!(call.name.as_str(), "fsync" | "fdatasync"))
        .expect("a flush");
    let read = trace.position(|call| {
        matches!(call.name.as_str(), "read" | "pread64" | "preadv") && call.mentions(pair.to.path())
    });
    let renamed =
        trace.position(|call| crate::cp::witnessed::RENAMES.contains(&call.name.as_str()));
    assert!(flushed < read.unwrap() && read < renamed, "{:#?}", trace.calls);
    assert!(bytes_read(&trace, &pair) >= LENGTH);
}

fn sparse_and_empty_files(form: Form) {
    for content in [
        Content::dense(0),
        Content::sparse(3 << 20, &[]),
        Content::sparse((3 << 20) + 7, &[(1 << 20, 4096)]),
    ] {
        let pair = Pair::of(form, Place::Disk, &content);
        let run = pair.command(cp().args(["--verify", "--sparse=always"])).run();
        assert_eq!(verified(&pair, &run)["algorithm"], "blake3");
        pair.assert_copied();
    }
}

fn a_failing_read_back_is_no_success(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let program = cp_by(COPY_FILE_RANGE).arg("--verify");
    let read_back = CallPattern::of(&[SystemCall::PREAD64]).on(pair.to.path()).nth(1);
    let run = pair.command(program).run_with([read_back.fails(Errno::EIO)]).run;
    assert!(run.failed(1).contains("EIO"), "{}", run.stderr);
    pair.assert_kept(&old);
}
