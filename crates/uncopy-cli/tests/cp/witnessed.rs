//! A copy between two directories, held against its witnesses.

use std::path::{Path, PathBuf};

use testbed::witness::{Call, Stopped, Strace, Trace, allocated_bytes, shared_bytes};
use testbed::{Content, Place, Program, Receipt, Run, Scratch, assert_same};

/// A source in one directory and a destination in another.
pub(crate) struct Pair {
    pub(crate) from: Scratch,
    pub(crate) to: Scratch,
    pub(crate) source: PathBuf,
    pub(crate) destination: PathBuf,
}

/// Bytes that a filesystem may add by rounding up and by its own bookkeeping of a file.
const SLACK: u64 = 128 << 10;

/// Bytes of the records of temporary names, which are not part of the copy.
fn bytes_of_records(trace: &Trace) -> u64 {
    let writes = trace.named(&WRITES);
    let heads = writes.iter().filter(|call| call.arguments.contains("\"uncopyR1"));
    let records: Vec<&str> =
        heads.filter_map(|call| call.arguments.split_inclusive('>').next()).collect();
    let of_records =
        |call: &&&Call| records.iter().any(|record| call.arguments.starts_with(record));
    let noted: i64 = writes.iter().filter(of_records).filter_map(|call| call.value()).sum();
    u64::try_from(noted).unwrap()
}

impl Pair {
    /// Directories in these places, and the source.
    pub(crate) fn new(from: Place, to: Place, content: &Content) -> Pair {
        let pair = Pair::empty(from, to);
        content.write(&pair.source);
        pair
    }

    /// Directories in these places, and no file.
    pub(crate) fn empty(from: Place, to: Place) -> Pair {
        let (from, to) = (from.scratch(), to.scratch());
        let (source, destination) = (from.join("source"), to.join("destination"));
        Pair { from, to, source, destination }
    }

    /// Both in one place.
    pub(crate) fn at(place: Place, content: &Content) -> Pair {
        Pair::new(place, place, content)
    }

    /// `program SOURCE DESTINATION`.
    pub(crate) fn command(&self, program: Program) -> Program {
        program.arg(&self.source).arg(&self.destination)
    }

    /// Copies; the receipt.
    #[track_caller]
    pub(crate) fn copy(&self, program: Program) -> Receipt {
        let receipt = self.command(program).run().receipt();
        self.assert_copied();
        receipt
    }

    /// Puts an old file at the destination; returns its bytes.
    pub(crate) fn old_destination(&self) -> Vec<u8> {
        let old = testbed::seeded(7, 0, 70_000);
        std::fs::write(&self.destination, &old).unwrap();
        old
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

    /// Nothing is in the destination's directory.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        assert!(!self.destination.exists(), "a destination was left");
        self.assert_no_strangers();
    }

    #[track_caller]
    pub(crate) fn assert_no_strangers(&self) {
        let strangers = self.to.strangers(&["source", "destination"]);
        assert!(strangers.is_empty(), "left behind: {strangers:?}");
    }

    /// Runs under strace; if it succeeded, holds the receipt against the witnesses.
    #[track_caller]
    pub(crate) fn traced(&self, program: Program) -> (Run, Trace) {
        let (run, trace) = Strace::new(&self.command(program)).run();
        if run.status.success() {
            self.assert_copied();
            let receipt = run.receipt();
            self.hold_against_trace(&receipt, &trace);
        }
        (run, trace)
    }

    /// Runs the program until its `nth` call of one of these names on a file in `directory` (that
    /// of the source, or of the destination) has ended, and stops it there.
    #[track_caller]
    pub(crate) fn stopped_in(
        &self,
        program: &Program,
        calls: &[&str],
        nth: usize,
        directory: &Path,
    ) -> Stopped {
        let (name, number) = self.find_call(program, calls, nth, directory);
        Strace::new(&self.command(program.clone())).stop_after(&name, number)
    }

    /// strace counts calls by name alone, so a rehearsal with a destination of the same kind in
    /// another directory tells which one it will be.
    fn find_call(
        &self,
        program: &Program,
        calls: &[&str],
        nth: usize,
        directory: &Path,
    ) -> (String, usize) {
        let parent = self.to.parent().expect("a scratch directory lies in another");
        let rehearsal = Scratch::new_in(parent);
        let destination = rehearsal.join("destination");
        if self.destination.exists() {
            std::fs::copy(&self.destination, &destination).unwrap();
        }
        let program = program.clone().arg(&self.source).arg(&destination);
        let (run, trace) = Strace::new(&program).run();
        assert!(run.status.success(), "{}", run.stderr);
        let at = if directory == self.to.path() { rehearsal.path() } else { directory };
        let found = trace.named(calls).into_iter().filter(|call| call.mentions(at)).nth(nth - 1);
        let found = found.unwrap_or_else(|| panic!("no {calls:?} in {:#?}", trace.calls));
        (found.name.clone(), found.nth)
    }

    /// Each mechanism moved what the receipt says it moved, and nothing else was used. Verification
    /// writes nothing, so it does not matter here.
    pub(crate) fn hold_against_trace(&self, receipt: &Receipt, trace: &Trace) {
        let to = self.to.path();
        let context = || format!("{}\n{:#?}", receipt.value(), trace.calls);
        for (mechanism, calls) in [
            ("copy_file_range", &["copy_file_range"][..]),
            ("sendfile", &["sendfile", "sendfile64"]),
            ("splice", &["splice"]),
        ] {
            let found = trace.bytes(calls, to);
            // The end of a direct copy that fills no block goes another way.
            let tail = if receipt.by("direct") > 0 { found.min(4095) } else { 0 };
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
        if receipt.by("direct") > 0 {
            assert!(opens_for_direct_io(trace, to), "no O_DIRECT: {}", context());
            let said = receipt.by("direct") + receipt.by("read_write");
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

pub(crate) const WRITES: [&str; 5] = ["write", "pwrite64", "writev", "pwritev", "pwritev2"];

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
