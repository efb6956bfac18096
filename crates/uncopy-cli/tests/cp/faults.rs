//! All calls of a kind fail, or answer what no kernel should: which ways are passed over, and which errors
//! end a copy. Errors in each call, one at a time, are in `faults`.

use testbed::{
    CallPattern, Case, Content, Fault, Intercept, Intercepted, Need, Place, Program, Receipt,
    SystemCall, WatchedCall,
};
use uncopy::Errno;

use crate::both::metadata::{mode, set_mode};
use crate::cp::leftovers::{no_unnamed_files, temporaries};
use crate::cp::witnessed::{Pair, RENAME_CALLS, WRITE_CALLS};
use crate::cp::{COPY_FILE_RANGE, DIRECT, SENDFILE, SPLICE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] a_mechanism_that_is_missing_is_passed_over,
        [] no_allowed_mechanism_is_left,
        [] nothing_moved_is_no_end_of_file,
        [] the_next_mechanism_goes_on_where_the_bytes_stopped,
        [Need::At(Place::Ext4)] a_page_that_cannot_be_pinned_is_no_shrunk_source,
        [] no_room_is_no_reason_to_try_another_way,
        [] without_o_tmpfile,
        [] without_locks,
        [] unlink_fails_too,
    ]
}

/// A hole, several pieces, and an end that is aligned to nothing.
pub(crate) fn content() -> Content {
    Content::sparse(1_300_077, &[(0, 300_000), (1 << 20, 1_300_077 - (1 << 20))])
}

/// Makes every call of this kind fail.
fn fails(call: SystemCall, errno: Errno) -> Fault {
    CallPattern::of(&[call]).fails(errno)
}

/// The copy is made all the same where all of these calls fail.
fn always(pair: &Pair, program: Program, calls: &[SystemCall], errno: Errno) -> Receipt {
    let faults = calls.iter().map(|call| fails(*call, errno));
    let receipt = pair.command(program).run_with(faults).run.receipt();
    pair.assert_copied();
    std::fs::remove_file(&pair.destination).unwrap();
    receipt
}

/// Old kernels, seccomp profiles, odd filesystems: by the table of errnos that mean "not this way".
fn a_mechanism_that_is_missing_is_passed_over() {
    let pair = Pair::at(Place::Disk, &content());
    for errno in [
        Errno::ENOSYS,
        Errno::EXDEV,
        Errno::EOPNOTSUPP,
        Errno::EINVAL,
        Errno::EPERM,
        Errno::EBADF,
        Errno::ETXTBSY,
    ] {
        let mut calls = vec![SystemCall::COPY_FILE_RANGE, SystemCall::IOCTL, SystemCall::SPLICE];
        let receipt = always(&pair, cp(), &calls, errno);
        assert_eq!(receipt.by("copy_file_range") + receipt.by("reflink"), 0, "{errno}");
        let refusal = receipt.refusal("copy_file_range").expect("it was tried");
        assert_eq!(refusal.errno.as_deref(), errno.name(), "{}", receipt.value());

        calls.push(SystemCall::SENDFILE);
        let receipt = always(&pair, cp(), &calls, errno);
        let copied = receipt.by("read_write") + receipt.by("direct");
        assert_eq!(copied + receipt.at("hole"), receipt.bytes(), "{errno}: {}", receipt.value());
    }
    for (call, errno) in [
        (SystemCall::IO_URING_SETUP, Errno::ENOSYS),
        (SystemCall::IO_URING_SETUP, Errno::EPERM),
        (SystemCall::FALLOCATE, Errno::EOPNOTSUPP),
    ] {
        for switch in ["--prefer=cpu", "--durable", "--cache=skip", "--sparse=always"] {
            always(&pair, cp().arg(switch), &[call], errno);
        }
    }
}

fn no_allowed_mechanism_is_left() {
    let pair = Pair::at(Place::Disk, &content());
    for (method, call) in [
        (COPY_FILE_RANGE, SystemCall::COPY_FILE_RANGE),
        (SENDFILE, SystemCall::SENDFILE),
        (SPLICE, SystemCall::SPLICE),
    ] {
        let run = pair.command(cp_by(method)).run_with([fails(call, Errno::ENOSYS)]).run;
        let message = run.failed(5);
        assert!(message.contains("ENOSYS") && message.contains(method.name), "{message}");
        pair.assert_nothing_left();
    }
}

/// procfs, sysfs and overlay answer 0 to calls that they do not support; a program that takes this
/// for the end of the file makes an empty copy and returns 0.
fn nothing_moved_is_no_end_of_file() {
    for method in [None, Some(COPY_FILE_RANGE), Some(SENDFILE), Some(SPLICE)] {
        let pair = Pair::at(Place::Disk, &content());
        let old = pair.old_destination();
        let program = method.map_or_else(cp, cp_by);
        let calls = [SystemCall::COPY_FILE_RANGE, SystemCall::SENDFILE, SystemCall::SPLICE];
        let run = pair.command(program).run_with([CallPattern::of(&calls).returns(0)]).run;
        if method.is_none() {
            let receipt = run.receipt();
            assert_eq!(receipt.by("copy_file_range"), 0, "{}", receipt.value());
            pair.assert_copied();
        } else {
            run.failed(5);
            pair.assert_kept(&old);
        }
    }
}

/// The first stretch of data is moved, then the call stops working: for good, or with a 0.
fn the_next_mechanism_goes_on_where_the_bytes_stopped() {
    let later = || CallPattern::of(&[SystemCall::SPLICE]).from(5);
    let errnos = [Errno::EOPNOTSUPP, Errno::EINVAL, Errno::ENOSYS, Errno::EPERM];
    let answers = errnos.map(|errno| later().fails(errno)).into_iter().chain([later().returns(0)]);
    for answer in answers {
        let pair = Pair::at(Place::Disk, &content());
        // The first stretch takes two pipefuls, each spliced in and out. Reflinks and
        // copy_file_range, which may share, come first where they work.
        let shares = [SystemCall::IOCTL, SystemCall::COPY_FILE_RANGE];
        let refused = CallPattern::of(&shares).fails(Errno::EOPNOTSUPP);
        let receipt = pair.command(cp()).run_with([refused, answer.clone()]).run.receipt();
        pair.assert_copied();
        let first = receipt.by("splice");
        assert!(first > 0 && first < content().data_bytes(), "{answer}: {}", receipt.value());
        assert_eq!(receipt.mechanisms().len(), 2, "{answer}: {}", receipt.value());
        assert!(receipt.refusal("splice").is_some(), "{answer}: {}", receipt.value());
    }
}

/// EFAULT also comes from pages that no device can be given, with the source as long as ever: from
/// the first write on, or in the midst of the file.
fn a_page_that_cannot_be_pinned_is_no_shrunk_source() {
    let length = (24 << 20) + 77;
    for (first, moves) in [(1, false), (2, true)] {
        let pair = Pair::at(Place::Ext4, &Content::dense(length));
        let old = pair.old_destination();
        let fault = CallPattern::of(&[SystemCall::PWRITE64]).from(first).fails(Errno::EFAULT);
        let program = pair.command(cp().arg("--prefer=cpu"));
        let receipt = program.run_with([fault.clone()]).run.receipt();
        pair.assert_copied();
        let refusal = receipt.refusal("direct").expect("it was tried");
        assert_eq!(refusal.errno.as_deref(), Some("EFAULT"), "{}", receipt.value());
        let direct = receipt.by("direct");
        assert!((direct > 0) == moves && direct < length, "{}", receipt.value());

        pair.old_destination();
        let run = pair.command(cp_by(DIRECT)).run_with([fault]).run;
        assert!(run.failed(5).contains("EFAULT"), "{}", run.stderr);
        pair.assert_kept(&old);
    }
}

fn no_room_is_no_reason_to_try_another_way() {
    for errno in [Errno::ENOSPC, Errno::EDQUOT, Errno::EROFS, Errno::EFBIG] {
        let pair = Pair::at(Place::Disk, &content());
        let old = pair.old_destination();
        let full = CallPattern::of(&[SystemCall::SPLICE, SystemCall::COPY_FILE_RANGE]).fails(errno);
        let intercept = Intercepted::new(&pair.command(cp()))
            .inject(fails(SystemCall::IOCTL, Errno::EOPNOTSUPP))
            .inject(full)
            .watch(&[SystemCall::SENDFILE])
            .watch(&WRITE_CALLS)
            .run();
        let run = &intercept.run;
        assert!(run.failed(1).contains(errno.name().unwrap()), "{}", run.stderr);
        pair.assert_kept(&old);
        assert!(intercept.moving.is_empty(), "it went on: {:?}", intercept.moving);
        let tried = intercept.count(&[SystemCall::SPLICE, SystemCall::COPY_FILE_RANGE]);
        assert_eq!(tried, 1, "it went on");
    }
}

fn without_o_tmpfile() {
    for errno in [Errno::EOPNOTSUPP, Errno::EISDIR, Errno::EINVAL, Errno::ENOENT] {
        for old in [false, true] {
            let pair = Pair::at(Place::Disk, &content());
            set_mode(&pair.source, 0o666);
            let program = cp().with_umask("026");
            let reset = || {
                let _ = std::fs::remove_file(&pair.destination);
                if old {
                    pair.old_destination();
                    set_mode(&pair.destination, 0o604);
                }
            };
            reset();
            let Intercept { run, log, .. } =
                pair.command(program).run_with([no_unnamed_files(errno)]);
            let _ = run.receipt();
            pair.assert_copied();
            // As if it had been created under its own name.
            let expected = if old { 0o604 } else { 0o666 & !0o026 };
            assert_eq!(mode(&pair.destination), expected, "{errno}, old: {old}");
            let exclusive = rustix::fs::OFlags::EXCL.bits();
            let is_made = |call: &&WatchedCall| {
                call.call == SystemCall::OPENAT && !call.is_faulty && call.has_flags(2, exclusive)
            };
            let made = log.iter().find(is_made).expect("a temporary name is made anew");
            assert_eq!(made.arguments[3], 0o600, "{made:?}");
        }
    }
}

fn without_locks() {
    let pair = Pair::at(Place::Disk, &content());
    pair.old_destination();
    always(&pair, cp(), &[SystemCall::FLOCK], Errno::ENOLCK);
    pair.old_destination();
    always(&pair, cp(), &[SystemCall::FLOCK], Errno::ENOSYS);
}

/// The copy fails, and so does tidying up: one recognisable file, and the error is the first one.
fn unlink_fails_too() {
    let pair = Pair::at(Place::Disk, &content());
    let old = pair.old_destination();
    let renames = CallPattern::of(&RENAME_CALLS).fails(Errno::EIO);
    let faults = [renames, fails(SystemCall::UNLINKAT, Errno::EPERM)];
    let run = pair.command(cp()).run_with(faults).run;
    assert!(run.failed(1).contains("EIO"), "{}", run.stderr);
    assert!(std::fs::read(&pair.destination).unwrap() == old);
    assert_eq!(temporaries(pair.to.path()).len(), 1);
    pair.copy(cp());
}
