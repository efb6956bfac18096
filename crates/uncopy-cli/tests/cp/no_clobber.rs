//! `-n`: an existing file is left alone, also one that comes while the copy is being made.

use std::os::unix::fs::{MetadataExt, symlink};

use testbed::witness::Strace;
use testbed::{Case, Content, Need, Place, assert_same};

use crate::cp::leftovers::unnamed_file_call;
use crate::cp::witnessed::Pair;
use crate::cp::{SENDFILE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![
        [] an_existing_file_is_not_touched,
        [] a_new_name_is_made,
        [] any_kind_of_name_is_left_alone,
        [Need::Tool("strace")] a_file_that_comes_meanwhile_is_left_alone,
        [Need::Tool("strace")] a_file_that_comes_meanwhile_is_replaced_without_it,
        [Need::Tool("strace")] without_o_tmpfile_too,
        [] one_of_many_wins,
        [] in_place_and_no_clobber,
    ]
}

const LENGTH: u64 = 200_000;

fn an_existing_file_is_not_touched() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let before = std::fs::metadata(&pair.destination).unwrap();
    for program in [cp(), cp().arg("-p"), cp().arg("--durable"), cp_by(crate::cp::READ_WRITE)] {
        let run = pair.command(program.arg("-n")).run();
        assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
        let lines = run.receipts();
        assert_eq!(lines.len(), 1, "{}", run.stdout);
        assert_ne!(lines[0].value()["event"], "copied", "{}", run.stdout);
        pair.assert_kept(&old);
        let after = std::fs::metadata(&pair.destination).unwrap();
        assert_eq!((before.ino(), before.ctime_nsec()), (after.ino(), after.ctime_nsec()));
    }
}

fn a_new_name_is_made() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let receipt = pair.copy(cp().arg("-n"));
    assert_eq!(receipt.value()["event"], "copied");
}

fn any_kind_of_name_is_left_alone() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    symlink("nowhere", &pair.destination).unwrap();
    let run = pair.command(cp().arg("-n")).run();
    assert!(pair.destination.is_symlink() && !pair.to.join("nowhere").exists(), "{}", run.stderr);
    std::fs::remove_file(&pair.destination).unwrap();
    pair.old_destination();
    std::fs::set_permissions(
        &pair.destination,
        std::os::unix::fs::PermissionsExt::from_mode(0o000),
    )
    .unwrap();
    let run = pair.command(cp().arg("-n")).run();
    assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
}

fn a_file_that_comes_meanwhile_is_left_alone() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let program = cp_by(SENDFILE).arg("-n");
    let stopped = pair.stopped_in(&program, &["sendfile"], 1, pair.to.path());
    let old = pair.old_destination();
    let (run, _) = stopped.resume();
    assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
    assert_ne!(run.receipts()[0].value()["event"], "copied", "{}", run.stdout);
    pair.assert_kept(&old);
}

fn a_file_that_comes_meanwhile_is_replaced_without_it() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let stopped = pair.stopped_in(&cp_by(SENDFILE), &["sendfile"], 1, pair.to.path());
    pair.old_destination();
    let (run, _) = stopped.resume();
    let _ = run.receipt();
    pair.assert_copied();
}

/// A temporary name then, and RENAME_NOREPLACE.
fn without_o_tmpfile_too() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let program = cp_by(crate::cp::COPY_FILE_RANGE).arg("-n");
    let unnamed = unnamed_file_call(&pair, &program);
    std::fs::remove_file(&pair.destination).unwrap();
    let refuse = format!("{}:error=EOPNOTSUPP:when={}", unnamed.name, unnamed.nth);
    let strace = Strace::new(&pair.command(program)).inject(&refuse).and_trace("renameat2");
    let stopped = strace.stop_after("copy_file_range", 1);
    let old = pair.old_destination();
    let (run, trace) = stopped.resume();
    assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
    pair.assert_kept(&old);
    let renames = trace.named(&["renameat2"]);
    let careful = renames.iter().any(|call| call.arguments.contains("RENAME_NOREPLACE"));
    assert!(careful, "{renames:#?}");
}

/// Exactly one of many concurrent copies to one new name succeeds.
fn one_of_many_wins() {
    for _ in 0..5 {
        let pair = Pair::empty(Place::Disk, Place::Disk);
        let sources: Vec<_> = (0..12)
            .map(|seed| {
                let path = pair.from.join(format!("source-{seed}"));
                std::fs::write(&path, testbed::seeded(seed, 0, 100_000)).unwrap();
                path
            })
            .collect();
        let winners: Vec<usize> = std::thread::scope(|scope| {
            let runs: Vec<_> = sources
                .iter()
                .map(|source| {
                    let program = cp().arg("-n").arg(source).arg(&pair.destination);
                    scope.spawn(move || program.run())
                })
                .collect();
            let runs = runs.into_iter().map(|run| run.join().unwrap());
            let copied = runs.map(|run| {
                assert!(run.status.success(), "{}", run.stderr);
                run.receipts()[0].value()["event"] == "copied"
            });
            copied.enumerate().filter(|(_, copied)| *copied).map(|(index, _)| index).collect()
        });
        assert_eq!(winners.len(), 1, "{winners:?} say that they made it");
        assert_same(&sources[winners[0]], &pair.destination);
        pair.assert_no_strangers();
    }
}

fn in_place_and_no_clobber() {
    let pair = Pair::at(Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let run = pair.command(cp().args(["-n", "--in-place"])).run();
    assert_ne!(run.status.code(), Some(1), "{}", run.stderr);
    pair.assert_kept(&old);
}
