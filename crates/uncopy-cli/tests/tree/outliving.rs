//! The record of a run outlives it, since it cannot be removed: the tree that was left to the caller stays.

use std::fs;
use std::path::{Path, PathBuf};

use std::time::Duration;
use testbed::{CallPattern, Case, Fault, Intercepted, Need, Place, Program, Run, SystemCall};
use uncopy::Errno;

use crate::tree::incomplete::{
    FILES, assert_goes_on, assert_kept, files, incomplete, limited, long, one_worker,
};
use crate::tree::{Trees, cp};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [Need::Tool("prlimit"), Need::KernelTimes] an_unfinished_tree_outlives_its_record,
        [Need::Tool("prlimit")] a_journal_that_cannot_be_read_is_no_reason,
    ]
}

/// The record that says that a tree is a run's own, and what another run of that name does with it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Record {
    /// It cannot be removed.
    Stays,
    /// Nor can it be emptied.
    Speaks,
    /// Nobody knows whether a crash brings it back, nor what it says then.
    Unflushed,
}

fn an_unfinished_tree_outlives_its_record() {
    for record in [Record::Stays, Record::Speaks, Record::Unflushed] {
        for journal in [Journal::AtTheEnd, Journal::FromTheBeginning, Journal::OfAnother] {
            if record != Record::Stays && journal == Journal::FromTheBeginning {
                // The record is over before the tree is begun.
                continue;
            }
            let trees = long();
            if journal == Journal::OfAnother {
                assert_kept(&trees, &trees.run(limited(one_worker())), "EFBIG");
            }
            let program = match journal {
                Journal::FromTheBeginning => limited(one_worker()).arg("--resume"),
                _ => limited(one_worker()),
            };
            let run = break_record(&trees, program, record);
            let context = format!("{record:?}, {journal:?}: {}", run.stderr);
            run.failed(1);
            let event = incomplete(&run);
            let path = PathBuf::from(event["path"].as_str().unwrap());
            assert_eq!(event["resumable"], journal != Journal::OfAnother, "{context}");
            let at_risk = record != Record::Stays && journal == Journal::OfAnother;
            assert_eq!(event["removed_by_next"] == true, at_risk, "{context}: {event}");
            assert_eq!(run.stderr.contains("before the next copy"), at_risk, "{context}");
            assert_eq!(run.stderr.contains("no other run touches it"), !at_risk, "{context}");
            if at_risk {
                continue;
            }
            let other = Place::Disk.scratch();
            let source = other.join("source");
            crate::tree::file_in(&source, "file", "small");
            let run = cp().arg("-T").arg(&source).arg(trees.destination()).run();
            assert!(run.status.success(), "{context}: {}", run.stderr);
            assert!(path.is_dir(), "{context}: removed by the next run");
            assert_eq!(files(&path).len(), FILES, "{context}");
            if journal != Journal::OfAnother {
                fs::remove_dir_all(trees.destination()).unwrap();
                assert_goes_on(&trees, one_worker().arg("--resume"), &path);
                trees.assert_no_strangers();
            }
        }
    }
}

/// The record says that the tree is a run's own, and its journal cannot be read.
fn a_journal_that_cannot_be_read_is_no_reason() {
    let trees = long();
    break_record(&trees, limited(one_worker()), Record::Speaks).failed(1);
    let named = |end: &str| {
        let names = trees.to.strangers(&[]);
        trees.to.join(names.iter().find(|name| name.ends_with(end)).unwrap())
    };
    let (path, journal) = (named(".tree"), named(".journal"));
    let mut bytes = fs::read(&journal).unwrap();
    bytes[8] ^= 0xff;
    fs::write(&journal, bytes).unwrap();
    let other = Place::Disk.scratch();
    let source = other.join("source");
    crate::tree::file_in(&source, "file", "small");
    let run = cp().arg("-T").arg(&source).arg(trees.destination()).run();
    assert!(run.status.success(), "{}", run.stderr);
    assert_eq!(files(&path).len(), FILES);
    assert!(run.stderr.contains(path.file_name().unwrap().to_str().unwrap()), "{}", run.stderr);
}

/// When a journal begins to name the tree that is not finished.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Journal {
    AtTheEnd,
    FromTheBeginning,
    /// None: the only one names another tree.
    OfAnother,
}

/// Runs a program whose record cannot be done away with.
fn break_record(trees: &Trees, program: Program, record: Record) -> Run {
    let program = program.arg(trees.source()).arg(trees.destination());
    let before = trees.to.strangers(&[]);
    // Number of such calls of a run with these faults.
    let count = |pattern: &CallPattern, faults: &[Fault]| {
        let counted = pattern.clone().delayed(Duration::ZERO);
        let counting = Intercepted::new(&program).inject(counted.clone());
        let log = faults.iter().cloned().fold(counting, Intercepted::inject).run().log;
        let new: Vec<_> = before.iter().map(String::as_str).collect();
        for name in trees.to.strangers(&new) {
            let path = trees.to.join(name);
            let removed = if path.is_dir() { fs::remove_dir_all } else { fs::remove_file };
            removed(&path).unwrap();
        }
        let hits = log.iter().filter(|call| call.is_faulty && call.call == counted.call()).count();
        assert!(hits > 0, "no {pattern}");
        hits
    };
    let flush = CallPattern::of(&[SystemCall::FSYNC]);
    if record == Record::Unflushed {
        let last = count(&flush, &[]);
        return program.run_with([flush.from(last).fails(Errno::EIO)]).run;
    }
    let unlink = CallPattern::of(&[SystemCall::UNLINKAT])
        .when(|call| call.paths().iter().any(|path| is_ours(path)));
    let last = count(&unlink, &[]);
    let mut faults = vec![unlink.nth(last).fails(Errno::EROFS)];
    if record == Record::Speaks {
        let truncate = CallPattern::of(&[SystemCall::FTRUNCATE]);
        let last = count(&truncate, &faults);
        faults.push(truncate.nth(last).fails(Errno::EROFS));
    }
    program.run_with(faults).run
}

fn is_ours(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".uncopy-"))
}
