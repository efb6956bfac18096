//! Files are flushed before the journal names them: by the order of the system calls.

use testbed::witness::{Call, Strace, Trace};
use testbed::{Case, Need, by_extent};

use crate::tree::{Trees, number, parts, resuming, summary};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("strace")] chunks_are_noted_when_they_are_flushed,
        [Need::Tool("strace")] large_files_are_noted_before_the_tree_has_its_name,
        [Need::Tool("strace")] only_what_goes_on_reads_its_copy,
        [Need::Tool("strace")] files_are_noted_when_their_filesystem_is_flushed,
    ]
}

/// First bytes of the frames of a journal, as strace prints them.
const DONE: &str = r#""UJ5\n\2\0\0\0"#;
const CHUNKS: &str = r#""UJ5\n\3\0\0\0"#;

/// Files that were made without a name, as strace shows them then and later: those that got one of
/// ours, the journal's or a temporary one.
struct Made {
    journals: Vec<String>,
    temporary: Vec<String>,
}

impl Made {
    fn of(trace: &Trace) -> Made {
        let mut made = Made { journals: Vec::new(), temporary: Vec::new() };
        for call in trace.named(&["linkat"]) {
            let shown = call.arguments.split(['<', '>']).nth(1).unwrap_or_default();
            let shown = shown.strip_suffix(" (deleted)").unwrap_or(shown).to_owned();
            let is_record = |other: &&Call| {
                other.arguments.contains(&shown) && other.arguments.contains("\"uncopyR1")
            };
            if call.arguments.contains(".journal\"") {
                made.journals.push(shown);
            } else if trace.named(&["pwrite64"]).iter().any(is_record) {
                // A record of temporary names.
            } else if call.arguments.contains("\".uncopy-") {
                made.temporary.push(shown);
            }
        }
        made
    }

    fn is_on_journal(&self, call: &Call) -> bool {
        self.journals.iter().any(|shown| call.arguments.contains(shown))
    }

    fn is_frame(&self, call: &Call, kind: &str) -> bool {
        call.name == "pwrite64" && self.is_on_journal(call) && call.arguments.contains(kind)
    }

    fn is_on_temporary(&self, call: &Call, names: &[&str]) -> bool {
        let is_on = |shown: &String| call.arguments.contains(shown);
        names.contains(&call.name.as_str()) && self.temporary.iter().any(is_on)
    }
}

/// Positions of all calls of which this holds.
fn positions(trace: &Trace, holds: impl Fn(&Call) -> bool) -> Vec<usize> {
    let calls = trace.calls.iter().enumerate();
    calls.filter(|(_, call)| holds(call)).map(|(place, _)| place).collect()
}

/// The same, but for frames that say which file is about to get a temporary name: it has nothing yet.
fn noted(trace: &Trace, is_frame: impl Fn(&Call) -> bool) -> Vec<usize> {
    let mut places = positions(trace, is_frame);
    places.retain(|place| {
        let thread = trace.calls[*place].thread;
        let next = trace.calls[place + 1..].iter().find(|next| next.thread == thread);
        next.is_none_or(|next| next.name != "linkat")
    });
    places
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
    let made = Made::of(&trace);
    let written = positions(&trace, |call| made.is_on_temporary(call, &["pwrite64", "write"]));
    let chunks = noted(&trace, |call| made.is_frame(call, CHUNKS));
    assert!(written.len() > 100, "{} writes", written.len());
    // Behind the last write the file is about to get its name. A crash of the system may lose what is noted then, which
    // the digests show.
    let end = *written.last().unwrap();
    assert!(chunks.iter().any(|record| *record < end), "nothing was noted on the way");
    for record in chunks.into_iter().filter(|record| *record < end) {
        let last = written.iter().rfind(|place| **place < record).unwrap();
        assert_flushed_between(&trace, *last, record, |call| {
            made.is_on_temporary(call, &["fdatasync", "fsync"])
        });
    }
    let noted_frames = noted(&trace, |call| made.is_frame(call, "UJ5"));
    // And the record itself, before anything else is written.
    let flushes = |call: &Call| {
        matches!(call.name.as_str(), "fdatasync" | "fsync") && made.is_on_journal(call)
    };
    for record in noted_frames.into_iter().filter(|record| *record < end) {
        let next = trace.calls[record + 1..].iter().position(flushes);
        let next = record + 1 + next.expect("it is flushed");
        let between = &trace.calls[record + 1..next];
        let writes = between.iter().any(|call| made.is_on_temporary(call, &["pwrite64", "write"]));
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
    let made = Made::of(&trace);
    let noted = positions(&trace, |call| made.is_frame(call, DONE));
    assert!(noted.iter().any(|place| *place < named[0]), "{noted:?} and {named:?}");
}

/// The first run hashes what it reads of the source, and never reads what it wrote.
fn only_what_goes_on_reads_its_copy() {
    const READING: [&str; 6] = ["read", "pread64", "readv", "preadv", "preadv2", "mmap"];
    // A run that continues opens the partial file by its name.
    let reads = |trace: &Trace| {
        let made = Made::of(trace);
        let is_on = |call: &&Call| {
            made.is_on_temporary(call, &READING)
                || READING.contains(&call.name.as_str()) && call.arguments.contains(".tmp>")
        };
        trace.calls.iter().filter(is_on).count()
    };
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
    let two_batches = by_extent([false, true, true]);
    let trees = if two_batches { resuming::two_batches() } else { resuming::many() };
    let (run, trace) = Strace::new(&resuming::program(&trees)).run();
    assert!(run.status.success(), "{}", run.stderr);
    resuming::assert_whole(&trees);
    let made = Made::of(&trace);
    let written = positions(&trace, |call| {
        matches!(call.name.as_str(), "write" | "pwrite64")
            && call.mentions(trees.to.path())
            && !made.is_on_journal(call)
    });
    let noted = positions(&trace, |call| made.is_frame(call, DONE));
    let (files, batches) = if two_batches { (resuming::FILES, 2) } else { (1250, 1) };
    assert!(written.len() >= files && noted.len() >= batches, "{} {}", written.len(), noted.len());
    for record in noted {
        let last = written.iter().rfind(|place| **place < record).unwrap();
        assert_flushed_between(&trace, *last, record, |call| call.name == "syncfs");
    }
}
