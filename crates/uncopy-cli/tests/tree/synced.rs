//! What a journal says has been flushed before: by the order of the system calls.

use testbed::witness::{Call, Strace, Trace};
use testbed::{Case, Need};

use crate::{Trees, number, parts, resuming, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("strace")] chunks_are_noted_when_they_are_flushed,
        [Need::Tool("strace")] large_files_are_noted_before_the_tree_has_its_name,
        [Need::Tool("strace")] only_what_goes_on_reads_its_copy,
        [Need::Tool("strace")] files_are_noted_when_their_filesystem_is_flushed,
    ]
}

/// Of the frames of a journal, as strace prints their first bytes.
const DONE: &str = r#""UJ4\n\2\0\0\0"#;
const CHUNKS: &str = r#""UJ4\n\3\0\0\0"#;

const TEMPORARY: &str = ".tmp>";

fn is_frame(call: &Call, kind: &str) -> bool {
    call.name == "pwrite64" && call.arguments.contains(".journal>") && call.arguments.contains(kind)
}

fn is_on_temporary(call: &Call, names: &[&str]) -> bool {
    names.contains(&call.name.as_str()) && call.arguments.contains(TEMPORARY)
}

/// Positions of all calls of which this holds.
fn positions(trace: &Trace, holds: impl Fn(&Call) -> bool) -> Vec<usize> {
    let calls = trace.calls.iter().enumerate();
    calls.filter(|(_, call)| holds(call)).map(|(place, _)| place).collect()
}

#[track_caller]
fn assert_flushed_between(trace: &Trace, from: usize, to: usize, flush: impl Fn(&Call) -> bool) {
    let flushed = trace.calls[from..to].iter().any(|call| flush(call) && call.value() == Some(0));
    assert!(flushed, "noted without a flush: {:#?}", &trace.calls[from..=to]);
}

/// One worker: whatever it wrote before a record was flushed before it.
fn chunks_are_noted_when_they_are_flushed() {
    let trees = Trees::new();
    parts::dense(&trees);
    let (run, trace) = Strace::new(&parts::program(&trees)).run();
    assert!(run.status.success(), "{}", run.stderr);
    parts::assert_whole(&trees);
    let written = positions(&trace, |call| is_on_temporary(call, &["pwrite64", "write"]));
    let noted = positions(&trace, |call| is_frame(call, CHUNKS));
    assert!(written.len() > 100, "{} writes", written.len());
    assert!(!noted.is_empty(), "nothing was noted");
    for record in noted {
        let last = written.iter().rfind(|place| **place < record).unwrap();
        assert_flushed_between(&trace, *last, record, |call| {
            is_on_temporary(call, &["fdatasync", "fsync"])
        });
    }
    // And the record itself, before anything else is written.
    let flushes = |call: &Call| {
        matches!(call.name.as_str(), "fdatasync" | "fsync") && call.arguments.contains(".journal>")
    };
    for record in positions(&trace, |call| call.name == "pwrite64" && is_frame(call, "UJ4")) {
        let next = trace.calls[record + 1..].iter().position(flushes);
        let next = record + 1 + next.expect("it is flushed");
        let between = &trace.calls[record + 1..next];
        let writes = between.iter().any(|call| is_on_temporary(call, &["pwrite64", "write"]));
        assert!(!writes, "{between:#?}");
    }
}

/// A run that is killed when the tree has its name leaves nothing large to be copied into it again.
fn large_files_are_noted_before_the_tree_has_its_name() {
    let trees = Trees::new();
    parts::dense(&trees);
    let (run, trace) = Strace::new(&parts::program(&trees)).run();
    assert!(run.status.success(), "{}", run.stderr);
    let named = positions(&trace, |call| {
        call.name.starts_with("renameat") && call.arguments.contains(".tree\"")
    });
    assert_eq!(named.len(), 1, "the tree gets its name once");
    let noted = positions(&trace, |call| is_frame(call, DONE));
    assert!(noted.iter().any(|place| *place < named[0]), "{noted:?} and {named:?}");
}

/// The first run hashes what it reads of the source, and never reads what it wrote.
fn only_what_goes_on_reads_its_copy() {
    const READING: [&str; 6] = ["read", "pread64", "readv", "preadv", "preadv2", "mmap"];
    let reads =
        |trace: &Trace| trace.calls.iter().filter(|call| is_on_temporary(call, &READING)).count();
    let trees = Trees::new();
    parts::dense(&trees);
    let (run, trace) = Strace::new(&parts::program(&trees)).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(reads(&trace), 0);
    std::fs::remove_dir_all(trees.destination()).unwrap();
    parts::kill(&trees);
    let (run, trace) = Strace::new(&parts::program(&trees)).run();
    assert!(number(&summary(&run), "resumed_bytes") > 0, "{}", run.stdout);
    assert!(reads(&trace) > 0, "what it goes on from was not verified");
}

/// Small files, in batches.
fn files_are_noted_when_their_filesystem_is_flushed() {
    let trees = resuming::many();
    let (run, trace) = Strace::new(&resuming::program(&trees)).run();
    assert!(run.status.success(), "{}", run.stderr);
    resuming::assert_whole(&trees);
    let written = positions(&trace, |call| {
        matches!(call.name.as_str(), "write" | "pwrite64")
            && call.mentions(trees.to.path())
            && !call.arguments.contains(".journal>")
    });
    let noted = positions(&trace, |call| is_frame(call, DONE));
    assert!(written.len() >= 2500 && noted.len() >= 2, "{} {}", written.len(), noted.len());
    for record in noted {
        let last = written.iter().rfind(|place| **place < record).unwrap();
        assert_flushed_between(&trace, *last, record, |call| call.name == "syncfs");
    }
}
