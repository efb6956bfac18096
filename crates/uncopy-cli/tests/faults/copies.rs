//! Single files.

use std::fs;
use std::path::PathBuf;

use testbed::{
    CallPattern, Case, Content, Fault, Intercept, Intercepted, Need, Place, Program, Scratch,
    SystemCall, by_extent,
};
use uncopy::Errno;

use crate::cp::leftovers::{calls_of_the_copy, no_unnamed_files};
use crate::cp::witnessed::Pair;
use crate::cp::{DIRECT, EVERYWHERE, Method, cp_by};
use crate::faults::{Scene, cannot_tidy, check_truth, ends_for_want_of_memory, is_hard, uncopy};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = testbed::cases![
        [] to_a_new_name,
        [] over_an_old_file,
        [] durable_and_verified,
        [] with_all_metadata,
        [] over_an_old_file_with_all_metadata,
        [] with_zeros_searched_for,
        [] with_temporary_names,
        [] in_place,
        [Need::At(Place::Xfs)] by_reflink,
        [Need::At(Place::Xfs)] shared_on_xfs,
        [Need::At(Place::Btrfs)] shared_or_moved_on_btrfs,
        [Need::BareDevice, Need::LockedMemory(7)] through_io_uring,
        [Need::BareDevice, Need::LockedMemory(7)] through_io_uring_and_further,
        [] errors_are_reported_in_words,
        [Need::At(Place::Ext4)] by_two_threads,
    ];
    for method in ["copy-file-range", "sendfile", "splice", "read-write"] {
        let flag = format!("--method={method}");
        cases.push(Case::new(format!("faults::copies::by::{method}"), &[], move || {
            File::at(Place::Disk).each(uncopy().args(["cp", "--json", &flag]), true);
        }));
    }
    for method in EVERYWHERE.into_iter().chain([DIRECT]) {
        let name = format!("faults::copies::bytes_are_accounted_for::{}", method.name);
        let needs = [Need::Tool("strace")];
        cases.push(Case::new(name, &needs, move || bytes_are_accounted_for(method)));
    }
    cases
}

/// Calls that set up a way and move bytes; those around them are the same for every way.
const OF_A_WAY: [SystemCall; 14] = [
    SystemCall::COPY_FILE_RANGE,
    SystemCall::SENDFILE,
    SystemCall::SPLICE,
    SystemCall::PIPE2,
    SystemCall::PREAD64,
    SystemCall::PWRITE64,
    SystemCall::READ,
    SystemCall::WRITE,
    SystemCall::IO_URING_SETUP,
    SystemCall::IO_URING_ENTER,
    SystemCall::IO_URING_REGISTER,
    SystemCall::FCNTL,
    SystemCall::LSEEK,
    SystemCall::FTRUNCATE,
];

/// A failed call moved nothing, and the receipt accounts for every byte that the others moved, by what the
/// kernel returned.
fn bytes_are_accounted_for(method: Method) {
    let pair = Pair::at(Place::Disk, &content());
    let program = pair.command(cp_by(method));
    if method == DIRECT && !program.run().status.success() {
        return;
    }
    let calls = calls_of_the_copy(&pair, &cp_by(method));
    let calls: Vec<_> = calls.iter().filter(|call| OF_A_WAY.contains(&call.call)).collect();
    assert!(!calls.is_empty());
    let (step, all) = by_extent([(5, false), (1, false), (1, true)]);
    for (number, call) in calls.into_iter().enumerate().step_by(step) {
        let errnos = call.call.errnos();
        let in_turn = [errnos[number % errnos.len()]];
        for errno in if all { errnos } else { &in_turn } {
            let _ = fs::remove_file(&pair.destination);
            let fault = CallPattern::of(&[call.call]).nth(call.nth).fails(*errno);
            let (run, trace) = Intercepted::new(&program).inject(fault.clone()).run_traced();
            if run.status.success() {
                pair.assert_copied();
                pair.hold_against_trace(&run.receipt(), &trace);
            } else {
                assert!(!pair.destination.exists(), "{fault}: {run:?}");
            }
        }
    }
}

/// Whichever thread the fault meets, and also if there can be no other one.
fn by_two_threads() {
    let flags = ["cp", "--json", "--method=read-write", "--buffer-size=1Mi"];
    let file = File::new(Place::Ext4, &Content::dense(5_300_077));
    file.each(uncopy().args(flags), true);
}

/// A hole, several pieces, and an end that is aligned to nothing.
fn content() -> Content {
    Content::sparse(1_300_077, &[(0, 300_000), (1 << 20, 1_300_077 - (1 << 20))])
}

struct File {
    from: Scratch,
    to: Scratch,
    bytes: Vec<u8>,
}

const OLD: &[u8] = b"what was there before";

impl File {
    fn at(place: Place) -> File {
        File::new(place, &content())
    }

    fn new(place: Place, content: &Content) -> File {
        let (from, to) = (place.scratch(), place.scratch());
        drop(content.write(&from.join("source")));
        let bytes = fs::read(from.join("source")).unwrap();
        File { from, to, bytes }
    }

    fn source(&self) -> PathBuf {
        self.from.join("source")
    }

    fn destination(&self) -> PathBuf {
        self.to.join("destination")
    }

    fn each(&self, program: Program, has_old: bool) {
        let _ = self.each_after(&|| (), program, has_old);
    }

    /// The calls where nothing fails.
    fn each_after(&self, before: &dyn Fn(), program: Program, has_old: bool) -> Vec<SystemCall> {
        let scene = |scene: Scene<'_>| scene.each();
        self.with_scene(before, program, has_old, scene)
    }

    fn with_scene<T>(
        &self,
        before: &dyn Fn(),
        program: Program,
        has_old: bool,
        act: impl FnOnce(Scene<'_>) -> T,
    ) -> T {
        let reset = || {
            before();
            for name in self.to.strangers(&[]) {
                fs::remove_file(self.to.join(name)).unwrap();
            }
            if has_old {
                fs::write(self.destination(), OLD).unwrap();
            }
        };
        let check = |intercept: &Intercept, fault: &Fault| self.check(intercept, fault, has_old);
        let program = program.arg(self.source()).arg(self.destination());
        act(Scene { reset: &reset, check: &check, ..Scene::new(program) })
    }

    fn check(&self, intercept: &Intercept, fault: &Fault, has_old: bool) {
        let run = &intercept.run;
        assert!(fs::read(self.source()).unwrap() == self.bytes, "{fault}: the source changed");
        assert!(self.from.strangers(&["source"]).is_empty(), "{fault}: beside the source");
        let strangers = self.to.strangers(&["destination"]);
        let aborted = ends_for_want_of_memory(intercept, fault);
        assert!(strangers.is_empty() || cannot_tidy(fault) || aborted, "{fault}: {strangers:?}");
        let found = fs::read(self.destination()).ok();
        let is_new = found.as_deref() == Some(&self.bytes);
        if run.status.success() {
            assert!(is_new, "{fault}: success, and the copy is wrong: {run:?}");
            let receipt = run.receipt();
            assert_eq!(receipt.bytes(), self.bytes.len() as u64, "{fault}");
            check_truth(&receipt, intercept, fault);
            let name = fault.call().name();
            let decides = is_flush(fault.call()) || name == "linkat" || is_rename(name);
            assert!(!decides || !is_hard(fault), "{fault}: success all the same");
        } else {
            let old = has_old.then_some(OLD);
            assert!(is_new || found.as_deref() == old, "{fault}: neither old nor new: {run:?}");
            let commits = is_rename(fault.call().name()) || is_flush(fault.call());
            let errno = fault.errno().and_then(Errno::name).unwrap_or_default();
            let is_named = !commits || !is_hard(fault) || run.stderr.contains(errno);
            assert!(is_named, "{fault}: {}", run.stderr);
            if !aborted && !run.stderr.is_empty() {
                self.check_message(&run.stderr, fault);
            }
        }
    }

    /// Checks that a message names the operation, its subject and the reason.
    fn check_message(&self, text: &str, fault: &Fault) {
        let message = text.lines().find(|line| line.contains(": cannot "));
        let message = message.unwrap_or_else(|| panic!("{fault}: {text}"));
        assert!(message.contains("cannot "), "{fault}: no operation: {message}");
        let places = [self.from.path(), self.to.path()].map(|path| path.to_string_lossy());
        let named = places.iter().any(|place| message.contains(place.as_ref()));
        let own = [
            "standard output",
            "signal",
            "thread",
            "memory",
            "/dev/null",
            "configuration",
            "tuned.toml",
        ];
        let known = named || own.iter().any(|subject| message.contains(subject));
        assert!(known, "{fault}: no subject: {message}");
    }
}

fn is_rename(name: &str) -> bool {
    name.starts_with("rename")
}

fn is_flush(call: SystemCall) -> bool {
    matches!(call, SystemCall::FSYNC | SystemCall::FDATASYNC)
}

fn cp() -> Program {
    uncopy().args(["cp", "--json"])
}

fn to_a_new_name() {
    File::at(Place::Disk).each(cp(), false);
}

fn over_an_old_file() {
    File::at(Place::Disk).each(cp(), true);
}

fn durable_and_verified() {
    File::at(Place::Disk).each(cp().args(["--durable", "--verify"]), true);
}

fn with_all_metadata() {
    let file = File::at(Place::Disk);
    let _ = rustix::fs::setxattr(file.source(), "user.a", b"b", rustix::fs::XattrFlags::empty());
    file.each(cp().arg("--preserve=all"), false);
}

fn over_an_old_file_with_all_metadata() {
    let file = File::at(Place::Disk);
    let _ = rustix::fs::setxattr(file.source(), "user.a", b"b", rustix::fs::XattrFlags::empty());
    file.each(cp().arg("--preserve=all"), true);
}

fn with_zeros_searched_for() {
    File::at(Place::Disk).each(cp().arg("--sparse=always"), true);
}

/// Without O_TMPFILE the file has a temporary name from the beginning.
fn with_temporary_names() {
    let refuse = [no_unnamed_files(Errno::EOPNOTSUPP)];
    let each = |scene: Scene<'_>| Scene { always: &refuse, ..scene }.each();
    File::at(Place::Disk).with_scene(&|| (), cp(), true, each);
}

/// It gives up atomicity: here success must mean success, and failure must be reported.
fn in_place() {
    let file = File::at(Place::Disk);
    let reset = || fs::write(file.destination(), OLD).unwrap();
    let check = |intercept: &Intercept, fault: &Fault| {
        if intercept.run.status.success() {
            let found = fs::read(file.destination()).unwrap();
            assert!(found == file.bytes, "{fault}: success, and the copy is wrong");
        }
        let strangers = file.to.strangers(&["destination"]);
        assert!(strangers.is_empty(), "{fault}: {strangers:?}");
    };
    let program = cp().arg("--in-place").arg(file.source()).arg(file.destination());
    Scene { reset: &reset, check: &check, ..Scene::new(program) }.each();
}

fn shared_on_xfs() {
    File::at(Place::Xfs).each(cp(), true);
}

fn by_reflink() {
    File::at(Place::Xfs).each(cp().arg("--method=reflink"), true);
}

fn shared_or_moved_on_btrfs() {
    File::at(Place::Btrfs).each(cp().args(["--prefer=cpu", "--durable"]), false);
}

/// A source that is not in the page cache, and is to stay out of it, is read and written through a
/// ring.
fn through_ring(way: &[&str]) {
    // More blocks than the ring has buffers, and a tail.
    let file = File::new(Place::Disk, &Content::dense((7 << 20) + 77));
    let source = fs::File::open(file.source()).unwrap();
    let chill = || testbed::drop_from_cache(&source);
    let calls = file.each_after(&chill, cp().args(way), true);
    assert!(calls.contains(&SystemCall::IO_URING_ENTER), "{calls:?}");
}

fn through_io_uring() {
    through_ring(&["--method=direct-ring"]);
}

fn through_io_uring_and_further() {
    through_ring(&["--cache=skip"]);
}

/// With words instead of receipts, and through buffers.
fn errors_are_reported_in_words() {
    let file = File::at(Place::Disk);
    let program = uncopy().args(["cp", "-v", "--no-zero-copy", "--cache=skip"]);
    let reset = || {
        let _ = fs::remove_file(file.destination());
    };
    let check = |intercept: &Intercept, fault: &Fault| {
        let found = fs::read(file.destination()).ok();
        let whole = found.is_none() || found.as_deref() == Some(&file.bytes);
        assert!(whole, "{fault}: half a file");
        assert!(!intercept.run.status.success() || found.is_some(), "{fault}");
    };
    let program = program.arg(file.source()).arg(file.destination());
    Scene { reset: &reset, check: &check, ..Scene::new(program) }.each();
}
