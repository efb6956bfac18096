//! A copy of a file between two directories, alone or in a tree, held against its witnesses.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use testbed::witness::{Call, Strace, Trace, allocated_bytes, shared_bytes};
use testbed::{
    CallPattern, Content, Intercepted, Place, Program, Receipt, Run, Scratch, Stopped, SystemCall,
    WatchedCall, assert_same,
};

use crate::both::Form;

/// A source in one directory and a destination in another.
pub(crate) struct Pair {
    pub(crate) form: Form,
    pub(crate) from: Scratch,
    pub(crate) to: Scratch,
    /// The file.
    pub(crate) source: PathBuf,
    /// Its copy.
    pub(crate) destination: PathBuf,
}

/// Bytes that a filesystem may add by rounding up and by its own bookkeeping of a file.
const SLACK: u64 = 128 << 10;

/// First arguments of writes to records of temporary names.
pub(crate) fn records(trace: &Trace) -> Vec<&str> {
    let writes = trace.named(&WRITES).into_iter();
    let heads = writes.filter(|call| call.arguments.contains("\"uncopyR1"));
    heads.filter_map(|call| call.arguments.split_inclusive('>').next()).collect()
}

/// Bytes of the records of temporary names, which are not part of the copy.
fn bytes_of_records(trace: &Trace) -> u64 {
    let (writes, records) = (trace.named(&WRITES), records(trace));
    let of_records =
        |call: &&&Call| records.iter().any(|record| call.arguments.starts_with(record));
    let noted: i64 = writes.iter().filter(of_records).filter_map(|call| call.value()).sum();
    u64::try_from(noted).unwrap()
}

impl Pair {
    /// Directories in these places, and the source.
    pub(crate) fn new(from: Place, to: Place, content: &Content) -> Pair {
        Pair::between(Form::File, from, to, content)
    }

    /// Directories in these places, and the source in this form.
    pub(crate) fn between(form: Form, from: Place, to: Place, content: &Content) -> Pair {
        let pair = Pair::empty_of(form, from, to);
        content.write(&pair.source);
        pair
    }

    /// Directories in these places, and no file.
    pub(crate) fn empty(from: Place, to: Place) -> Pair {
        Pair::empty_of(Form::File, from, to)
    }

    /// Directories in these places, with those that this form needs, and no file.
    pub(crate) fn empty_of(form: Form, from: Place, to: Place) -> Pair {
        Pair::within(form, from.scratch(), to.scratch())
    }

    /// In these directories, with those that this form needs, and no file.
    pub(crate) fn within(form: Form, from: Scratch, to: Scratch) -> Pair {
        let (source, destination) = match form {
            Form::File => (from.join("source"), to.join("destination")),
            Form::NewTree => (from.join("tree/file"), to.join("tree/file")),
            // So that the directory of the copy is the same as in the form of a file.
            Form::OldTree => (from.join("tree/destination"), to.join("destination")),
        };
        if form.is_tree() {
            std::fs::create_dir(source.parent().unwrap()).unwrap();
        }
        Pair { form, from, to, source, destination }
    }

    /// Both in one place.
    pub(crate) fn at(place: Place, content: &Content) -> Pair {
        Pair::new(place, place, content)
    }

    /// Both in one place, in this form.
    pub(crate) fn of(form: Form, place: Place, content: &Content) -> Pair {
        Pair::between(form, place, place, content)
    }

    /// `program SOURCE DESTINATION`.
    pub(crate) fn command(&self, program: Program) -> Program {
        self.command_to(program, self.to.path())
    }

    /// The same, to another directory.
    pub(crate) fn command_to(&self, program: Program, to: &Path) -> Program {
        let name = self.destination.file_name().unwrap();
        match self.form {
            Form::File => program.arg(&self.source).arg(to.join(name)),
            Form::NewTree => in_order(program).arg(self.from.join("tree")).arg(to.join("tree")),
            Form::OldTree => in_order(program).arg(self.from.join("tree")).arg(to),
        }
    }

    /// Copies. Returns the receipt of the file.
    #[track_caller]
    pub(crate) fn succeed(&self, program: Program) -> Receipt {
        self.receipt(&self.command(program).run())
    }

    /// Returns the receipt of the file, from a run that succeeded.
    #[track_caller]
    pub(crate) fn receipt(&self, run: &Run) -> Receipt {
        if !self.form.is_tree() {
            return run.receipt();
        }
        assert!(run.status.success(), "{}: {}{}", run.status, run.stderr, run.stdout);
        self.event(run)
    }

    /// Returns the event of the file: that it was copied, left alone, or not copied for a reason.
    #[track_caller]
    pub(crate) fn event(&self, run: &Run) -> Receipt {
        let events = run.receipts();
        let source = self.source.to_string_lossy();
        let mut of_file = events.into_iter().filter(|event| event.value()["source"] == *source);
        let event = of_file.next().unwrap_or_else(|| panic!("no event: {}", run.stdout));
        assert!(of_file.next().is_none(), "several events: {}", run.stdout);
        event
    }

    /// Copies; the receipt.
    #[track_caller]
    pub(crate) fn copy(&self, program: Program) -> Receipt {
        let receipt = self.succeed(program);
        self.assert_copied();
        receipt
    }

    /// Makes room for another source beside the source. Returns the path of its file.
    pub(crate) fn another_source(&self, name: &str) -> PathBuf {
        let path = self.from.join(name);
        if !self.form.is_tree() {
            return path;
        }
        std::fs::create_dir(&path).unwrap();
        path.join(self.source.file_name().unwrap())
    }

    /// `program SOURCE DESTINATION` with another source.
    pub(crate) fn command_from(&self, program: Program, source: &Path) -> Program {
        match self.form {
            Form::File => program.arg(source).arg(&self.destination),
            _ => in_order(program)
                .args([source.parent(), self.destination.parent()].map(Option::unwrap)),
        }
    }

    /// Removes the copy, if there is one, and the tree that was made for it.
    pub(crate) fn clear(&self) {
        if self.destination.exists() {
            self.remove_copy();
        }
    }

    /// Removes the copy, and the tree that was made for it.
    pub(crate) fn remove_copy(&self) {
        match self.form {
            Form::NewTree => std::fs::remove_dir_all(self.to.join("tree")).unwrap(),
            _ => std::fs::remove_file(&self.destination).unwrap(),
        }
    }

    /// Puts an old file at the destination; returns its bytes.
    pub(crate) fn old_destination(&self) -> Vec<u8> {
        let old = testbed::seeded(7, 0, 70_000);
        self.put_old(&old);
        old
    }

    /// Puts a file with these bytes at the destination.
    pub(crate) fn put_old(&self, bytes: &[u8]) {
        std::fs::create_dir_all(self.destination.parent().unwrap()).unwrap();
        std::fs::write(&self.destination, bytes).unwrap();
    }

    /// The destination is the source, and nothing else is in its directory.
    #[track_caller]
    pub(crate) fn assert_copied(&self) {
        assert_same(&self.source, &self.destination);
        self.assert_no_strangers();
    }

    /// The destination is as it was, and nothing else is in its directory.
    #[track_caller]
    pub(crate) fn assert_kept(&self, old: &[u8]) {
        assert!(
            std::fs::read(&self.destination).unwrap() == old,
            "the old file is not what it was"
        );
        self.assert_no_strangers();
    }

    /// Nothing is in the destination's directory, but perhaps the directory of a tree.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        assert!(!self.destination.exists(), "a destination was left");
        self.assert_no_strangers();
    }

    /// Nothing is in the destination's directory, nor a directory of a tree.
    #[track_caller]
    pub(crate) fn assert_nothing_begun(&self) {
        let found = self.to.strangers(&[]);
        assert!(found.is_empty(), "left behind: {found:?}");
    }

    #[track_caller]
    pub(crate) fn assert_no_strangers(&self) {
        let copy = self.destination.file_name().unwrap().to_string_lossy();
        let strangers = self.to.strangers(&["source", "destination", &copy, "tree"]);
        assert!(strangers.is_empty(), "left behind: {strangers:?}");
        if self.form == Form::NewTree && self.to.join("tree").exists() {
            let entries = std::fs::read_dir(self.to.join("tree")).unwrap();
            let mut names = entries.map(|entry| entry.unwrap().file_name());
            let stranger = names.find(|name| **name != *copy);
            assert!(stranger.is_none(), "left behind: {stranger:?}");
        }
    }

    /// Checks that a failure names a copy in place of this file alone, which a tree does not have.
    #[track_caller]
    pub(crate) fn assert_names_in_place(&self, run: &Run) {
        assert!(run.failed(1).contains("a copy of this file alone with --in-place"), "{run:?}");
    }

    /// Copies the file alone, in place.
    #[track_caller]
    pub(crate) fn copy_in_place(&self, program: Program) {
        let program = program.arg("--in-place").arg(&self.source).arg(&self.destination);
        let _ = program.run().receipt();
        self.assert_copied();
    }

    /// Runs under strace; if it succeeded, holds the receipt against the witnesses.
    #[track_caller]
    pub(crate) fn traced(&self, program: Program) -> (Run, Trace) {
        let (run, trace) = Strace::new(&self.command(program)).run();
        if run.status.success() {
            self.assert_copied();
            let receipt = self.receipt(&run);
            self.hold_against_trace(&receipt, &trace);
        }
        (run, trace)
    }

    /// Runs the program until its `nth` call of one of these kinds on a file in `directory` (that of
    /// the source, or of the destination) has ended, and stops it there. Calls on records of temporary names
    /// do not count.
    #[track_caller]
    pub(crate) fn stopped_in(
        &self,
        program: &Program,
        calls: &[SystemCall],
        nth: usize,
        directory: &Path,
    ) -> Stopped {
        let records = Mutex::new(Vec::new());
        let is_of_copy = move |call: &WatchedCall| {
            let (paths, mut records) = (call.paths(), records.lock().unwrap());
            if call.writes_first(b"uncopyR1") {
                records.extend(paths.clone());
            }
            !paths.iter().any(|path| records.contains(path))
        };
        let call = CallPattern::of(calls).on(directory).when(is_of_copy).nth(nth);
        Intercepted::new(&self.command(program.clone())).stop_in(call)
    }

    /// Each mechanism moved what the receipt says it moved, and nothing else was used. Verification
    /// writes nothing, so it does not matter here.
    pub(crate) fn hold_against_trace(&self, receipt: &Receipt, trace: &Trace) {
        let to = self.to.path();
        let context = || format!("{}\n{:#?}", receipt.value(), trace.calls);
        let direct = receipt.by("direct") + receipt.by("direct_ring");
        for (mechanism, calls) in [
            ("copy_file_range", &["copy_file_range"][..]),
            ("sendfile", &["sendfile", "sendfile64"]),
            ("splice", &["splice"]),
        ] {
            let found = trace.bytes(calls, to);
            // The end of a direct copy that fills no block goes another way.
            let tail = if direct > 0 { found.min(4095) } else { 0 };
            assert!(
                found == receipt.by(mechanism) || found == receipt.by(mechanism) + tail,
                "{found} by {mechanism}: {}",
                context()
            );
        }
        let cloned =
            trace.named(&["ioctl"]).iter().any(|call| is_clone(call) && call.value() == Some(0));
        assert_eq!(cloned, receipt.by("reflink") > 0, "reflink: {}", context());
        let written = trace.bytes(&WRITES, to) - bytes_of_records(trace);
        let through_ring = !trace.named(&["io_uring_setup"]).is_empty();
        assert!(through_ring || receipt.by("direct_ring") == 0, "no ring: {}", context());
        if direct > 0 {
            assert!(opens_for_direct_io(trace, to), "no O_DIRECT: {}", context());
            let said = direct + receipt.by("read_write");
            assert!(through_ring || written + 4095 >= said, "{written} written: {}", context());
        } else {
            assert_eq!(written, receipt.by("read_write"), "read_write: {}", context());
        }
    }

    /// Shared bytes are shared by FIEMAP, and no others are. For filesystems that have FIEMAP.
    #[track_caller]
    pub(crate) fn hold_against_extents(&self, receipt: &Receipt) {
        let (said, found) = (receipt.at("shared"), shared_bytes(&self.source, &self.destination));
        assert!(found + 4096 > said, "{said} bytes are said to be shared, {found} are");
        if said == 0 && receipt.at("unknown") == 0 {
            assert_eq!(found, 0, "the files share blocks and the receipt does not say so");
        }
    }

    /// Holes take no space.
    #[track_caller]
    pub(crate) fn hold_against_blocks(&self, data_bytes: u64) {
        let allocated = allocated_bytes(&self.destination);
        assert!(
            allocated <= data_bytes + SLACK,
            "{allocated} bytes allocated for {data_bytes} bytes of data"
        );
    }
}

/// `cp -r`, whose calls come in the same order in each run.
fn in_order(program: Program) -> Program {
    program.args(["-rT", "--jobs=1"])
}

pub(crate) const WRITES: [&str; 5] = ["write", "pwrite64", "writev", "pwritev", "pwritev2"];

/// The same for stops and faults.
pub(crate) const WRITE_CALLS: [SystemCall; 5] = [
    SystemCall::WRITE,
    SystemCall::PWRITE64,
    SystemCall::WRITEV,
    SystemCall::PWRITEV,
    SystemCall::PWRITEV2,
];

pub(crate) const RENAME_CALLS: [SystemCall; 2] = [SystemCall::RENAMEAT, SystemCall::RENAMEAT2];

pub(crate) const RENAMES: [&str; 3] = ["rename", "renameat", "renameat2"];

pub(crate) fn is_clone(call: &Call) -> bool {
    call.name == "ioctl" && call.arguments.contains("FICLONE")
}

/// A file below `directory` was opened with `O_DIRECT`, or got it later.
pub(crate) fn opens_for_direct_io(trace: &Trace, directory: &Path) -> bool {
    trace.named(&["openat", "openat2", "open", "fcntl"]).iter().any(|call| {
        let mut flags = call.arguments.split(['|', ',', ' ', '(', ')']);
        flags.any(|flag| flag == "O_DIRECT") && call.mentions(directory)
    })
}
