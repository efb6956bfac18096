//! The audit log: complete, and broken by whatever is changed in it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use std::time::Duration;
use testbed::{
    CallPattern, Case, Compared, Content, Fault, Filesystem, Forbidden, Intercept, Mount, Need,
    Place, Program, Run, Scratch, SystemCall, assert_same_tree,
};
use uncopy::Errno;

use crate::tree::{Trees, cp, events};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] every_entry_has_its_record,
        [] a_record_says_which_way_each_byte_went_and_why,
        [] single_files_have_theirs,
        [] what_is_changed_or_removed_is_noticed,
        [] a_kill_leaves_the_records_of_what_was_done,
        [] records_are_flushed_as_they_come,
        [] a_flush_that_fails_is_reported,
        [Need::Root, Need::Tool("xfs_io"), Need::Tool("mkfs.xfs")]
            what_was_flushed_survives_a_power_cut,
        [] a_log_that_cannot_be_written_ends_the_copy_before_it_begins,
        [] a_log_that_another_program_writes_is_left_alone,
        [] a_log_on_a_filesystem_without_locks_says_so,
    ]
}

fn verify(log: &Path, more: &[&str]) -> Run {
    let program = Program::new(env!("CARGO_BIN_EXE_uncopy")).args(["audit", "verify"]);
    program.arg(log).args(more).run()
}

fn records(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Those that a crash left, and whether half of one is behind them: what was not flushed reaches the disk
/// page by page, or not at all.
fn whole_records(log: &Path) -> (Vec<Value>, bool) {
    let text = fs::read_to_string(log).unwrap();
    let text = text.trim_end_matches('\0');
    let (whole, half) = text.rsplit_once('\n').expect("a record was flushed");
    let records = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (records, !half.is_empty())
}

fn every_entry_has_its_record() {
    let trees = Trees::new();
    for number in 0..30 {
        trees.file(&format!("{}/{number}", number % 3), vec![number; 5000]);
    }
    trees.file("large", vec![1; 2 << 20]);
    crate::tree::file_in(&trees.destination(), "large/in the way", "x");
    let log = trees.from.join("log");
    let program = cp().args(["-T", "--jobs=3", "--verify", "--audit"]).arg(&log);
    let run = trees.run(program);
    run.failed(1);
    let records = records(&log);
    assert_eq!(records[0]["audit"], "begin");
    let entries: Vec<&Value> = records.iter().filter(|r| r["audit"] == "entry").collect();
    assert_eq!(entries.len(), 35, "{}", run.stdout);
    let copied: Vec<_> = entries.iter().filter(|entry| entry["result"] == "copied").collect();
    assert_eq!(copied.len(), events(&run, "copied").len());
    for entry in copied {
        assert_eq!(entry["bytes"], 5000);
        assert_eq!(entry["attempts"], 1);
        assert!(entry["digest"].is_string() && entry["refusals"].is_array(), "{entry}");
        assert!(entry["time"].as_str().unwrap().ends_with('Z'), "{entry}");
        assert_eq!(entry["job"], records[0]["job"]);
    }
    let end = records.last().unwrap();
    assert_eq!(
        (&end["audit"], &end["copied"], &end["failed"]),
        (&"end".into(), &30.into(), &1.into())
    );
    let bytes = ["zero_copy_bytes", "buffered_bytes", "unknown_bytes"];
    let sum: u64 = bytes.iter().map(|key| end[*key].as_u64().unwrap()).sum();
    assert_eq!(sum, 30 * 5000);

    let checked = verify(&log, &[]);
    assert!(checked.status.success(), "{}", checked.stderr);
    let hash = checked.stdout.lines().last().unwrap();
    assert!(run.stderr.contains(hash), "the copy printed the hash: {}", run.stderr);
    assert!(verify(&log, &["--hash", hash]).status.success());
    assert!(verify(&log, &["--hash", &hash.to_uppercase()]).status.success());
    verify(&log, &["--hash", &"0".repeat(64)]).failed(1);
    // Another text was said to show that records were added or removed.
    for no_hash in ["0123", "zz", ""] {
        verify(&log, &["--hash", no_hash]).failed(2);
    }
}

/// A large file with a hole, and small ones: held against the events of the same run, and by itself.
fn a_record_says_which_way_each_byte_went_and_why() {
    let trees = Trees::new();
    for number in 0..5 {
        trees.file(&format!("small/{number}"), vec![number; 5000]);
    }
    let data = [(0, 1 << 20), (3 << 20, 1 << 20)];
    Content::sparse(4 << 20, &data).write(&trees.source().join("large"));
    let log = trees.from.join("log");
    let forbidden = [SystemCall::IOCTL, SystemCall::COPY_FILE_RANGE].map(Forbidden::Call);
    let program = cp().args(["-T", "--jobs=2", "--audit"]).arg(&log);
    let run = trees.run(program.forbidding(&forbidden, Errno::EPERM));
    assert!(run.status.success(), "{}", run.stderr);
    let records = records(&log);
    let copied: Vec<&Value> = records.iter().filter(|r| r["result"] == "copied").collect();
    assert_eq!(copied.len(), 6);
    for event in events(&run, "copied") {
        let event = event.value();
        let record = copied.iter().find(|record| record["source"] == event["source"]).unwrap();
        for key in ["source", "destination", "bytes", "duration_us", "mechanisms", "refusals"] {
            assert!(!record[key].is_null(), "no {key} in {record}");
            assert_eq!(record[key], event[key], "{key}");
        }
        let source = Path::new(record["source"].as_str().unwrap());
        let below = source.strip_prefix(trees.source()).unwrap();
        let destination = trees.destination().join(below);
        assert_eq!(record["destination"], destination.to_str().unwrap());
        testbed::assert_same(source, &destination);
        assert!(record["duration_us"].is_u64(), "{record}");
        // Each byte is in one class, and is counted once.
        let portions = record["mechanisms"].as_array().unwrap();
        let bytes: u64 = portions.iter().map(|portion| portion["bytes"].as_u64().unwrap()).sum();
        assert_eq!(bytes, fs::metadata(source).unwrap().len(), "{record}");
        assert!(portions.iter().all(|portion| portion["name"].is_string()), "{record}");
        let at = |cost: &str| {
            let of_cost = portions.iter().filter(|portion| portion["cost"] == cost);
            of_cost.map(|portion| portion["bytes"].as_u64().unwrap()).sum::<u64>()
        };
        if below == Path::new("large") {
            assert_eq!((at("hole"), at("shared")), (2 << 20, 0), "{record}");
        }
        // The cheaper mechanism, and the error that it failed with.
        let refusals = record["refusals"].as_array().unwrap();
        let refused = |name: &str| refusals.iter().any(|refusal| refusal["mechanism"] == name);
        assert!(refused("reflink"), "{record}");
        for refusal in refusals {
            assert!(refusal["reason"].as_str().is_some_and(|text| !text.is_empty()), "{record}");
            let tried = ["reflink", "copy_file_range"].iter().any(|n| refusal["mechanism"] == *n);
            if below == Path::new("large") && tried {
                assert_eq!(refusal["errno_name"], "EPERM", "{record}");
            }
        }
    }
}

fn single_files_have_theirs() {
    let trees = Trees::new();
    let file = trees.file("file", "x");
    let log = trees.from.join("log");
    let copy = |source: &Path| {
        Program::new(env!("CARGO_BIN_EXE_uncopy"))
            .args(["cp", "-q", "--audit"])
            .arg(&log)
            .arg(source)
            .arg(trees.destination())
            .run()
    };
    let run = copy(&file);
    assert!(run.status.success() && run.stderr.is_empty(), "{}", run.stderr);
    copy(&trees.source().join("missing")).failed(1);
    let results: Vec<Value> = records(&log).into_iter().map(|r| r["result"].clone()).collect();
    let expected =
        [Value::Null, "copied".into(), Value::Null, Value::Null, "failed".into(), Value::Null];
    assert_eq!(results, expected);
    assert!(verify(&log, &[]).status.success(), "two jobs make one chain");
}

fn what_is_changed_or_removed_is_noticed() {
    let trees = Trees::new();
    for name in ["a", "b", "c"] {
        trees.file(name, name);
    }
    let log = trees.from.join("log");
    assert!(trees.run(cp().arg("--audit").arg(&log)).status.success());
    let whole = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    for damaged in [
        whole.replacen("\"bytes\":1", "\"bytes\":2", 1),
        [&lines[..2], &lines[3..]].concat().concat(),
        lines[..lines.len() - 1].concat(),
        lines[1..].concat(),
        whole[..whole.len() - 1].to_owned(),
        String::new(),
        "no JSON\n".to_owned(),
    ] {
        fs::write(&log, damaged).unwrap();
        assert!(verify(&log, &[]).failed(1).contains("cannot be trusted"));
    }
    verify(&trees.from.join("missing"), &[]).failed(1);
}

/// Kills a job of fifty files with an audit log in the middle. Returns its program, and the log.
pub(crate) fn killed_job(trees: &Trees) -> (Program, PathBuf) {
    for number in 0..50 {
        trees.file(&format!("{number}"), vec![number; 5000]);
    }
    fs::create_dir(trees.destination()).unwrap();
    let log = trees.from.join("log");
    let program = cp().args(["-T", "--jobs=1", "--audit"]).arg(&log);
    let program = program.arg(trees.source()).arg(trees.destination());
    program.stop_after(SystemCall::LINKAT, 20).kill();
    (program, log)
}

fn a_kill_leaves_the_records_of_what_was_done() {
    let trees = Trees::new();
    let (program, log) = killed_job(&trees);
    let done = fs::read_dir(trees.destination()).unwrap().count();
    let noted = records(&log).iter().filter(|record| record["result"] == "copied").count();
    assert!(done - noted <= 1, "{noted} of {done} are in the log");
    assert!(verify(&log, &[]).failed(1).contains("no summary"));
    // The next job goes on behind it.
    assert!(program.run().status.success());
    assert!(verify(&log, &[]).stdout.contains("1 of them without a summary"));
    assert_eq!(records(&log).last().unwrap()["audit"], "end");
}

fn flushed(trees: &Trees, fault: Fault) -> Intercept {
    for number in 0..300 {
        trees.file(&format!("{number}"), "x");
    }
    let program = cp().args(["--jobs=1", "--audit"]).arg(trees.from.join("log"));
    let program = program.arg(trees.source()).arg(trees.destination());
    // On a busy machine too the flushing thread begins before the last is written.
    let log = trees.from.join("log");
    let slow = CallPattern::of(&[SystemCall::WRITE]).on(&log).delayed(Duration::from_millis(1));
    let last = CallPattern::of(&[SystemCall::FSYNC]).on(&log).delayed(Duration::ZERO);
    program.run_with([fault, slow, last])
}

/// One flush takes all that was written during the one before it.
fn records_are_flushed_as_they_come() {
    let trees = Trees::new();
    let slow = CallPattern::of(&[SystemCall::FDATASYNC]).delayed(Duration::from_millis(20));
    let Intercept { run, log: calls, .. } = flushed(&trees, slow);
    assert!(run.status.success(), "{}", run.stderr);
    let calls: Vec<_> = calls.into_iter().filter(|call| call.is_faulty).collect();
    let of = |kind| calls.iter().filter(|call| call.call == kind).count();
    assert_eq!(of(SystemCall::WRITE), 300 + 3);
    // The first line was flushed before the last was written, and not every one by itself.
    let first = calls.iter().position(|call| call.call == SystemCall::FDATASYNC).unwrap();
    let last = calls.iter().rposition(|call| call.call == SystemCall::WRITE).unwrap();
    assert!(first < last, "{first} {last}");
    let flushes = of(SystemCall::FDATASYNC);
    assert!((1..300).contains(&flushes), "{flushes}");
    assert_eq!(calls.last().unwrap().call, SystemCall::FSYNC);
}

fn a_flush_that_fails_is_reported() {
    let trees = Trees::new();
    let first = CallPattern::of(&[SystemCall::FDATASYNC]).nth(1).fails(Errno::EIO);
    let run = flushed(&trees, first).run;
    assert!(run.failed(1).contains("audit log"), "{}", run.stderr);
    assert_same_tree(&trees.source(), &trees.destination(), Compared::default());
    let log = records(&trees.from.join("log"));
    assert_ne!(log.last().unwrap()["result"], Value::Null, "it is not closed");
}

fn a_log_that_cannot_be_written_ends_the_copy_before_it_begins() {
    let trees = Trees::new();
    trees.file("file", "x");
    let run = trees.run(cp().arg("--audit").arg(trees.from.join("missing/log")));
    assert!(run.failed(1).contains("audit log"), "{}", run.stderr);
    let half = trees.from.join("half");
    fs::write(&half, "{\"schema\":1").unwrap();
    let run = trees.run(cp().arg("--audit").arg(&half));
    assert!(run.failed(1).contains("incomplete line"), "{}", run.stderr);
    assert!(!trees.destination().exists());
}

fn a_log_that_another_program_writes_is_left_alone() {
    let trees = Trees::new();
    trees.file("file", "x");
    let log = trees.from.join("log");
    let held = fs::File::create(&log).unwrap();
    held.lock().unwrap();
    let run = trees.run(cp().arg("--audit").arg(&log));
    assert!(run.failed(1).contains("another program is writing to it"), "{}", run.stderr);
    assert!(!trees.destination().exists() && held.metadata().unwrap().len() == 0);
}

fn a_log_on_a_filesystem_without_locks_says_so() {
    let trees = Trees::new();
    trees.file("file", "x");
    let first = CallPattern::of(&[SystemCall::FLOCK]).nth(1).fails(Errno::ENOLCK);
    let run = flushed(&trees, first).run;
    assert!(run.failed(1).contains("No locks available"), "{}", run.stderr);
    assert!(!trees.destination().exists());
}

/// Each flush takes at least one record that none had taken, so that there are as many as flushes have
/// ended.
fn what_was_flushed_survives_a_power_cut() {
    const FLUSHES: usize = 5;
    for filesystem in [Filesystem::Ext4, Filesystem::Xfs] {
        let mount = Mount::image(filesystem, 512);
        let trees = Trees { from: Place::Disk.scratch(), to: Scratch::new_in(mount.path()) };
        fs::create_dir(trees.source()).unwrap();
        for number in 0..2000 {
            trees.file(&format!("{number}"), "x".repeat(4096));
        }
        rustix::fs::syncfs(fs::File::open(mount.path()).unwrap()).unwrap();
        let log = trees.to.join("log");
        let program = cp().args(["-T", "--jobs=1", "--audit"]).arg(&log);
        let program = program.arg(trees.source()).arg(trees.destination());
        // Two seconds of copying: enough for these flushes on a slow disk, too.
        program.clone().arg("--max-bandwidth=4M").stop_after(SystemCall::FDATASYNC, FLUSHES).kill();
        let written = records(&log);
        mount.cut_power();
        mount.restore_power();
        let (left, is_torn) = whole_records(&log);
        assert!(left.len() >= FLUSHES, "{} of {} are left", left.len(), written.len());
        assert_eq!(left[..], written[..left.len()], "{filesystem:?}");
        assert_eq!(left[0]["audit"], "begin");
        if is_torn {
            assert!(verify(&log, &[]).failed(1).contains("was cut off"), "{filesystem:?}");
            assert!(program.run().failed(1).contains("incomplete line"), "{filesystem:?}");
            continue;
        }
        // The chain holds as far as it goes, and its end is missed.
        assert!(verify(&log, &[]).failed(1).contains("no summary"));
        assert!(program.run().status.success(), "{filesystem:?}");
        assert!(verify(&log, &[]).status.success(), "{filesystem:?}");
    }
}
