//! `-n`: an existing file is left alone, also one that comes while the copy is being made.

use std::os::unix::fs::{MetadataExt, symlink};

use testbed::{CallPattern, Case, Content, Intercept, Intercepted, Place, SystemCall, assert_same};
use uncopy::Errno;

use crate::both::{Form, cases_over};
use crate::cp::leftovers::no_unnamed_files;
use crate::cp::witnessed::Pair;
use crate::cp::{SENDFILE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases_over![Form::ALL; [] a_new_name_is_made];
    cases.extend(cases_over![[Form::File]; [] in_place_and_no_clobber]);
    cases.extend(cases_over![
        Form::OVER_OLD;
        [] an_existing_file_is_not_touched,
        [] any_kind_of_name_is_left_alone,
        [] a_file_that_comes_meanwhile_is_left_alone,
        [] a_file_that_comes_meanwhile_is_replaced_without_it,
        [] without_o_tmpfile_too,
        [] one_of_many_wins,
    ]);
    cases
}

const LENGTH: u64 = 200_000;

fn an_existing_file_is_not_touched(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let before = std::fs::metadata(&pair.destination).unwrap();
    for program in [cp(), cp().arg("-p"), cp().arg("--durable"), cp_by(crate::cp::READ_WRITE)] {
        let run = pair.command(program.arg("-n")).run();
        assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
        assert_ne!(pair.event(&run).value()["event"], "copied", "{}", run.stdout);
        pair.assert_kept(&old);
        let after = std::fs::metadata(&pair.destination).unwrap();
        assert_eq!((before.ino(), before.ctime_nsec()), (after.ino(), after.ctime_nsec()));
    }
}

fn a_new_name_is_made(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let receipt = pair.copy(cp().arg("-n"));
    assert_eq!(receipt.value()["event"], "copied");
}

fn any_kind_of_name_is_left_alone(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    symlink("nowhere", &pair.destination).unwrap();
    let run = pair.command(cp().arg("-n")).run();
    assert!(pair.destination.is_symlink() && !pair.to.join("nowhere").exists(), "{}", run.stderr);
    pair.remove_copy();
    pair.old_destination();
    std::fs::set_permissions(
        &pair.destination,
        std::os::unix::fs::PermissionsExt::from_mode(0o000),
    )
    .unwrap();
    let run = pair.command(cp().arg("-n")).run();
    assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
}

fn a_file_that_comes_meanwhile_is_left_alone(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let program = cp_by(SENDFILE).arg("-n");
    let stopped = pair.stopped_in(&program, &[SystemCall::SENDFILE], 1, pair.to.path());
    let old = pair.old_destination();
    let run = stopped.resume().run;
    assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
    assert_ne!(pair.event(&run).value()["event"], "copied", "{}", run.stdout);
    pair.assert_kept(&old);
}

fn a_file_that_comes_meanwhile_is_replaced_without_it(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let stopped = pair.stopped_in(&cp_by(SENDFILE), &[SystemCall::SENDFILE], 1, pair.to.path());
    pair.old_destination();
    let run = stopped.resume().run;
    let _ = pair.receipt(&run);
    pair.assert_copied();
}

/// A temporary name then, and RENAME_NOREPLACE.
fn without_o_tmpfile_too(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let program = cp_by(crate::cp::COPY_FILE_RANGE).arg("-n");
    let intercepted = Intercepted::new(&pair.command(program))
        .inject(no_unnamed_files(Errno::EOPNOTSUPP))
        .watch(&[SystemCall::RENAMEAT2]);
    let stopped = intercepted.stop_in(CallPattern::of(&[SystemCall::COPY_FILE_RANGE]).nth(1));
    let old = pair.old_destination();
    let Intercept { run, log, .. } = stopped.resume();
    assert_eq!(run.status.code(), Some(0), "{}", run.stderr);
    pair.assert_kept(&old);
    let careful = rustix::fs::RenameFlags::NOREPLACE.bits();
    let mut renames = log.iter().filter(|call| call.call == SystemCall::RENAMEAT2);
    assert!(renames.any(|call| call.has_flags(4, careful)), "{log:#?}");
}

/// Exactly one of many concurrent copies to one new name succeeds.
fn one_of_many_wins(form: Form) {
    for _ in 0..5 {
        let pair = Pair::empty_of(form, Place::Disk, Place::Disk);
        let sources: Vec<_> = (0..12)
            .map(|seed| {
                let path = pair.another_source(&format!("source-{seed}"));
                std::fs::write(&path, testbed::seeded(seed, 0, 100_000)).unwrap();
                path
            })
            .collect();
        let winners: Vec<usize> = std::thread::scope(|scope| {
            let runs: Vec<_> = sources
                .iter()
                .map(|source| {
                    let program = pair.command_from(cp().arg("-n"), source);
                    scope.spawn(move || program.run())
                })
                .collect();
            let runs = runs.into_iter().map(|run| run.join().unwrap());
            let copied = runs.map(|run| {
                assert!(run.status.success(), "{}", run.stderr);
                run.receipts().iter().any(|event| event.value()["event"] == "copied")
            });
            copied.enumerate().filter(|(_, copied)| *copied).map(|(index, _)| index).collect()
        });
        assert_eq!(winners.len(), 1, "{winners:?} say that they made it");
        assert_same(&sources[winners[0]], &pair.destination);
        pair.assert_no_strangers();
    }
}

fn in_place_and_no_clobber(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let run = pair.command(cp().args(["-n", "--in-place"])).run();
    assert_ne!(run.status.code(), Some(1), "{}", run.stderr);
    pair.assert_kept(&old);
}
