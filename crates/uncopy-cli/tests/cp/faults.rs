//! Errors injected into each system call of a copy, one at a time, and into all calls of a kind.
//!
//! Whatever fails: the destination is wholly old or wholly new, no temporary file stays, an exit
//! code of 0 means that the copy is there, and any other comes with a message.

use std::path::Path;

use testbed::witness::{Call, Strace};
use testbed::{Case, Content, Need, Place, Program, Receipt, Run};

use crate::both::metadata::{mode, set_mode};
use crate::cp::leftovers::{calls_of_the_copy, temporaries, unnamed_file_call};
use crate::cp::witnessed::{Pair, RENAMES, WRITES};
use crate::cp::{
    COPY_FILE_RANGE, DIRECT, EVERYWHERE, Method, READ_WRITE, REFLINK, SENDFILE, SPLICE, cp, cp_by,
};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [Need::Tool("strace")] each_call_to_a_new_name,
        [Need::Tool("strace")] each_call_over_an_old_file,
        [Need::Tool("strace")] each_call_with_metadata,
        [Need::Tool("strace")] each_call_of_a_durable_verified_copy,
        [Need::Tool("strace")] each_call_with_temporary_names,
        [Need::Tool("strace")] each_call_of_a_sparse_copy,
        [Need::Tool("strace")] each_call_in_place,
        [Need::At(Place::Xfs), Need::Tool("strace")] each_call_of_a_reflink,
        [Need::Tool("strace")] a_mechanism_that_is_missing_is_passed_over,
        [Need::Tool("strace")] no_allowed_mechanism_is_left,
        [Need::Tool("strace")] nothing_moved_is_no_end_of_file,
        [Need::Tool("strace")] the_next_mechanism_goes_on_where_the_bytes_stopped,
        [Need::At(Place::Ext4), Need::Tool("strace")] a_page_that_cannot_be_pinned_is_no_shrunk_source,
        [Need::Tool("strace")] no_room_is_no_reason_to_try_another_way,
        [Need::Tool("strace")] an_interrupted_call_is_made_again,
        [Need::Tool("strace")] without_o_tmpfile,
        [Need::Tool("strace")] without_locks,
        [Need::Tool("strace")] unlink_fails_too,
    ];
    for method in EVERYWHERE.into_iter().chain([DIRECT]) {
        let name = format!("cp::faults::each_call_of::{}", method.name);
        cases.push(Case::new(name, &[Need::Tool("strace")], move || each_call_of(method)));
    }
    cases
}

/// Errors from devices, filesystems, old kernels, security modules and signals.
const ERRNOS: [&str; 9] =
    ["EIO", "ENOSPC", "EINTR", "ENOSYS", "EPERM", "EINVAL", "EOPNOTSUPP", "ENOMEM", "EACCES"];

/// A hole, several pieces, and an end that is aligned to nothing.
fn content() -> Content {
    Content::sparse(1_300_077, &[(0, 300_000), (1 << 20, 1_300_077 - (1 << 20))])
}

/// Each call with each errno; at the short extent every fifth call with one of them.
fn with_errnos<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Vec<(&'a Call, &'static str)> {
    let all = ERRNOS.len();
    let (step, of_each) = testbed::by_extent([(5, 1), (1, all), (1, all)]);
    let calls = calls.into_iter().enumerate().step_by(step);
    // In turn, so that each errno is met somewhere.
    let errnos = |number| ERRNOS.into_iter().cycle().skip(number).take(of_each);
    calls.flat_map(|(number, call)| errnos(number).map(move |errno| (call, errno))).collect()
}

struct Faults {
    pair: Pair,
    program: Program,
    old: Option<Vec<u8>>,
    new: Vec<u8>,
}

impl Faults {
    fn new(pair: Pair, program: Program, old: bool) -> Faults {
        let old = old.then(|| pair.old_destination());
        let new = std::fs::read(&pair.source).unwrap();
        Faults { pair, program, old, new }
    }

    fn reset(&self) {
        let _ = std::fs::remove_file(&self.pair.destination);
        if self.old.is_some() {
            self.pair.old_destination();
        }
    }

    /// Each errno in each call; at the short extent one in every fifth.
    fn each(&self) {
        let calls = calls_of_the_copy(&self.pair, &self.program);
        assert!(calls.len() > 8, "{calls:#?}");
        self.each_of(&calls);
    }

    fn each_of(&self, calls: &[Call]) {
        for (call, errno) in with_errnos(calls) {
            self.one(call, errno, &[]);
        }
    }

    /// One errno in one call.
    fn one(&self, call: &Call, errno: &str, more: &[&str]) {
        self.reset();
        let mut strace = Strace::new(&self.pair.command(self.program.clone()));
        for expression in more {
            strace = strace.inject(expression);
        }
        let fault = format!("{}:error={errno}:when={}", call.name, call.nth);
        let (run, trace) = strace.inject(&fault).run();
        let context = format!("{errno} from {} number {}({})", call.name, call.nth, call.arguments);
        self.check(&run, call, errno, &context);
        if run.status.success() {
            // A failed call moved nothing, and the receipt accounts for every byte moved.
            self.pair.hold_against_trace(&run.receipt(), &trace);
        }
    }

    fn check(&self, run: &Run, call: &Call, errno: &str, context: &str) {
        if run.status.code() == Some(127) && run.stderr.contains("shared librar") {
            // strace counts each thread's calls by themselves: here the first of them, in the
            // dynamic loader, met the fault before there was a copy.
            return;
        }
        let found = std::fs::read(&self.pair.destination).ok();
        if run.status.success() {
            assert!(found.as_ref() == Some(&self.new), "{context}: success, and the copy is wrong");
            let receipt = run.receipt();
            assert_eq!(receipt.bytes(), self.new.len() as u64, "{context}");
        } else {
            let code = run.status.code();
            assert!(code.is_some_and(|code| (1..=5).contains(&code)), "{context}: {}", run.status);
            assert!(!run.stderr.trim().is_empty(), "{context}: it failed without a word");
            let whole = found == self.old || found.as_ref() == Some(&self.new);
            assert!(whole, "{context}: neither the old nor the new file: {}", run.stderr);
        }
        let left = temporaries(self.pair.to.path());
        let may_leave = usize::from(call.name.starts_with("unlink"));
        assert!(left.len() <= may_leave, "{context}: {left:?}");
        for path in left {
            std::fs::remove_file(path).unwrap();
        }
        // The record of temporary names is one more that may have to stay.
        let strangers = self.pair.to.strangers(&["destination"]);
        let all_records = strangers.iter().all(|name| name.ends_with(".record"));
        assert!(strangers.len() <= may_leave && all_records, "{context}: {strangers:?}");
        for name in strangers {
            std::fs::remove_file(self.pair.to.join(name)).unwrap();
        }
        self.check_consequence(run, call, errno, context);
    }

    /// Calls whose failure may not be passed over.
    fn check_consequence(&self, run: &Run, call: &Call, errno: &str, context: &str) {
        let name = call.name.as_str();
        let commits = RENAMES.contains(&name) && call.mentions(self.pair.to.path());
        let flushes = matches!(name, "fsync" | "fdatasync");
        let hard = matches!(errno, "EIO" | "ENOSPC");
        if hard && (commits || flushes) && call.mentions(self.pair.to.path()) {
            assert!(!run.status.success(), "{context}: success all the same");
            assert!(run.stderr.contains(errno), "{context}: {}", run.stderr);
        }
    }
}

fn each_call_to_a_new_name() {
    Faults::new(Pair::at(Place::Disk, &content()), cp(), false).each();
}

fn each_call_over_an_old_file() {
    Faults::new(Pair::at(Place::Disk, &content()), cp(), true).each();
}

fn each_call_with_metadata() {
    let pair = Pair::at(Place::Disk, &content());
    let _ = rustix::fs::setxattr(&pair.source, "user.a", b"b", rustix::fs::XattrFlags::empty());
    Faults::new(pair, cp().arg("--preserve=all"), true).each();
}

fn each_call_of_a_durable_verified_copy() {
    let program = cp().args(["--durable", "--verify"]);
    Faults::new(Pair::at(Place::Disk, &content()), program, true).each();
}

/// Without O_TMPFILE the file has a temporary name from the beginning.
fn each_call_with_temporary_names() {
    let pair = Pair::at(Place::Disk, &content());
    pair.old_destination();
    let unnamed = unnamed_file_call(&pair, &cp());
    let refuse = format!("{}:error=EOPNOTSUPP:when={}", unnamed.name, unnamed.nth);
    let (run, trace) = Strace::new(&pair.command(cp())).inject(&refuse).run();
    let _ = run.receipt();
    let faults = Faults::new(pair, cp(), true);
    let own = trace.calls.iter().filter(|call| call.mentions(faults.pair.to.path()));
    // strace keeps one injection for each name.
    let own = own.filter(|call| call.name != unnamed.name && call.name != "execve");
    for (call, errno) in with_errnos(own) {
        faults.one(call, errno, &[&refuse]);
    }
}

fn each_call_of_a_sparse_copy() {
    let program = cp().arg("--sparse=always");
    Faults::new(Pair::at(Place::Disk, &content()), program, true).each();
}

fn each_call_of_a_reflink() {
    Faults::new(Pair::at(Place::Xfs, &content()), cp_by(REFLINK), true).each();
    Faults::new(Pair::at(Place::Xfs, &content()), cp(), true).each();
}

fn each_call_of(method: Method) {
    let pair = Pair::at(Place::Disk, &content());
    if method == DIRECT && !pair.command(cp_by(method)).run().status.success() {
        return;
    }
    let faults = Faults::new(pair, cp_by(method), true);
    let mut calls = calls_of_the_copy(&faults.pair, &faults.program);
    calls.retain(|call| MOVING.contains(&call.name.as_str()));
    assert!(!calls.is_empty());
    faults.each_of(&calls);
}

/// Calls that set up a way and move bytes; those around them are the same for every way.
const MOVING: [&str; 14] = [
    "copy_file_range",
    "sendfile",
    "splice",
    "pipe2",
    "pread64",
    "pwrite64",
    "read",
    "write",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "fcntl",
    "lseek",
    "ftruncate",
];

/// It gives up atomicity: here success must mean success, and failure must be reported.
fn each_call_in_place() {
    let pair = Pair::at(Place::Disk, &content());
    let program = cp().arg("--in-place");
    pair.old_destination();
    let new = std::fs::read(&pair.source).unwrap();
    let calls = calls_of_the_copy(&pair, &program);
    for (call, errno) in with_errnos(&calls) {
        pair.old_destination();
        let fault = format!("{}:error={errno}:when={}", call.name, call.nth);
        let run = Strace::new(&pair.command(program.clone())).inject(&fault).outcome();
        let context = format!("{errno} from {} number {}", call.name, call.nth);
        if run.status.success() {
            let found = std::fs::read(&pair.destination).unwrap();
            assert!(found == new, "{context}: success, and the copy is wrong");
        } else {
            assert!(!run.stderr.trim().is_empty(), "{context}: it failed without a message");
        }
        pair.assert_no_strangers();
    }
}

/// Every call of this name fails.
fn always(pair: &Pair, program: Program, faults: &[(&str, &str)]) -> Receipt {
    let mut strace = Strace::new(&pair.command(program));
    for (calls, errno) in faults {
        strace = strace.inject(&format!("{calls}:error={errno}"));
    }
    let run = strace.outcome();
    let receipt = run.receipt();
    pair.assert_copied();
    std::fs::remove_file(&pair.destination).unwrap();
    receipt
}

/// Old kernels, seccomp profiles, odd filesystems: by the table of errnos that mean "not this way".
fn a_mechanism_that_is_missing_is_passed_over() {
    let pair = Pair::at(Place::Disk, &content());
    for errno in ["ENOSYS", "EXDEV", "EOPNOTSUPP", "EINVAL", "EPERM", "EBADF", "ETXTBSY"] {
        let faults = [("copy_file_range", errno), ("ioctl", errno), ("splice", errno)];
        let receipt = always(&pair, cp(), &faults);
        assert_eq!(receipt.by("copy_file_range") + receipt.by("reflink"), 0, "{errno}");
        let refusal = receipt.refusal("copy_file_range").expect("it was tried");
        assert_eq!(refusal.errno.as_deref(), Some(errno), "{}", receipt.value());

        let receipt = always(
            &pair,
            cp(),
            &[("copy_file_range", errno), ("ioctl", errno), ("sendfile", errno), ("splice", errno)],
        );
        let copied = receipt.by("read_write") + receipt.by("direct");
        assert_eq!(copied + receipt.at("hole"), receipt.bytes(), "{errno}: {}", receipt.value());
    }
    let errnos =
        [("io_uring_setup", "ENOSYS"), ("io_uring_setup", "EPERM"), ("fallocate", "EOPNOTSUPP")];
    for fault in errnos {
        for switch in ["--prefer=cpu", "--durable", "--cache=skip", "--sparse=always"] {
            always(&pair, cp().arg(switch), &[fault]);
        }
    }
}

fn no_allowed_mechanism_is_left() {
    let pair = Pair::at(Place::Disk, &content());
    for (method, call) in
        [(COPY_FILE_RANGE, "copy_file_range"), (SENDFILE, "sendfile"), (SPLICE, "splice")]
    {
        let strace = Strace::new(&pair.command(cp_by(method)));
        let run = strace.inject(&format!("{call}:error=ENOSYS")).outcome();
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
        let run = Strace::new(&pair.command(program))
            .inject("copy_file_range:retval=0")
            .inject("sendfile:retval=0")
            .inject("splice:retval=0")
            .outcome();
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
    for answer in ["error=EOPNOTSUPP", "error=EINVAL", "error=ENOSYS", "error=EPERM", "retval=0"] {
        let pair = Pair::at(Place::Disk, &content());
        // The first stretch takes two pipefuls, each spliced in and out. Reflinks and
        // copy_file_range, which may share, come first where they work.
        let run = Strace::new(&pair.command(cp()))
            .inject("ioctl:error=EOPNOTSUPP")
            .inject("copy_file_range:error=EOPNOTSUPP")
            .inject(&format!("splice:{answer}:when=5+"))
            .outcome();
        let receipt = run.receipt();
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
    for (when, moves) in [("1+", false), ("2+", true)] {
        let pair = Pair::at(Place::Ext4, &Content::dense(length));
        let old = pair.old_destination();
        let fault = format!("pwrite64:error=EFAULT:when={when}");
        let program = pair.command(cp().arg("--prefer=cpu"));
        let run = Strace::new(&program).inject(&fault).outcome();
        let receipt = run.receipt();
        pair.assert_copied();
        let refusal = receipt.refusal("direct").expect("it was tried");
        assert_eq!(refusal.errno.as_deref(), Some("EFAULT"), "{}", receipt.value());
        let direct = receipt.by("direct");
        assert!((direct > 0) == moves && direct < length, "{}", receipt.value());

        pair.old_destination();
        let run = Strace::new(&pair.command(cp_by(DIRECT))).inject(&fault).outcome();
        assert!(run.failed(5).contains("EFAULT"), "{}", run.stderr);
        pair.assert_kept(&old);
    }
}

fn no_room_is_no_reason_to_try_another_way() {
    for errno in ["ENOSPC", "EDQUOT", "EROFS", "EFBIG"] {
        let pair = Pair::at(Place::Disk, &content());
        let old = pair.old_destination();
        let (run, trace) = Strace::new(&pair.command(cp()))
            .inject("ioctl:error=EOPNOTSUPP")
            .inject(&format!("splice,copy_file_range:error={errno}"))
            .run();
        assert!(run.failed(1).contains(errno), "{}", run.stderr);
        pair.assert_kept(&old);
        assert_eq!(trace.bytes(&["sendfile"], pair.to.path()), 0, "it went on");
        let tried = trace.named(&["splice", "copy_file_range"]);
        assert_eq!(tried.len(), 1, "it went on: {tried:?}");
    }
}

fn an_interrupted_call_is_made_again() {
    let calls: [(Method, &[&str]); 5] = [
        (COPY_FILE_RANGE, &["copy_file_range"]),
        (SENDFILE, &["sendfile"]),
        (SPLICE, &["splice"]),
        (READ_WRITE, &["pread64", "read", "preadv", "preadv2"]),
        (READ_WRITE, &WRITES),
    ];
    for (method, names) in calls {
        let pair = Pair::at(Place::Disk, &content());
        let own = calls_of_the_copy(&pair, &cp_by(method));
        let data = own.iter().filter(|call| names.contains(&call.name.as_str()));
        let data: Vec<&Call> = data.filter(|call| in_test(call, &pair)).collect();
        assert!(!data.is_empty(), "{method:?}");
        for call in data {
            let _ = std::fs::remove_file(&pair.destination);
            let fault = format!("{}:error=EINTR:when={}", call.name, call.nth);
            let run = Strace::new(&pair.command(cp_by(method))).inject(&fault).outcome();
            let _ = run.receipt();
            pair.assert_copied();
        }
    }
}

fn in_test(call: &Call, pair: &Pair) -> bool {
    [pair.from.path(), pair.to.path()].iter().any(|directory: &&Path| call.mentions(directory))
}

fn without_o_tmpfile() {
    for errno in ["EOPNOTSUPP", "EISDIR", "EINVAL", "ENOENT"] {
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
            let unnamed = unnamed_file_call(&pair, &program);
            reset();
            let fault = format!("{}:error={errno}:when={}", unnamed.name, unnamed.nth);
            let (run, trace) = Strace::new(&pair.command(program)).inject(&fault).run();
            let _ = run.receipt();
            pair.assert_copied();
            // As if it had been created under its own name.
            let expected = if old { 0o604 } else { 0o666 & !0o026 };
            assert_eq!(mode(&pair.destination), expected, "{errno}, old: {old}");
            let made = trace.calls.iter().find(|call| call.arguments.contains("O_EXCL"));
            let made = made.expect("a temporary name is made anew");
            assert!(made.arguments.contains("0600"), "{made:?}");
        }
    }
}

fn without_locks() {
    let pair = Pair::at(Place::Disk, &content());
    pair.old_destination();
    always(&pair, cp(), &[("flock", "ENOLCK")]);
    pair.old_destination();
    always(&pair, cp(), &[("flock", "ENOSYS")]);
}

/// The copy fails, and so does tidying up: one recognisable file, and the error is the first one.
fn unlink_fails_too() {
    let pair = Pair::at(Place::Disk, &content());
    let old = pair.old_destination();
    let run = Strace::new(&pair.command(cp()))
        .inject("rename,renameat,renameat2:error=EIO")
        .inject("unlink,unlinkat:error=EPERM")
        .outcome();
    assert!(run.failed(1).contains("EIO"), "{}", run.stderr);
    assert!(std::fs::read(&pair.destination).unwrap() == old);
    assert_eq!(temporaries(pair.to.path()).len(), 1);
    pair.copy(cp());
}
