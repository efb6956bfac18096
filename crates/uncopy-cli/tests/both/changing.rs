//! A source that somebody writes to while it is copied.
//!
//! The program is stopped between two of its system calls, so that the change always comes at the
//! same place and nothing depends on time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use testbed::{Case, Content, Intercepted, Need, Place, Stopped, SystemCall, assert_same, seeded};

use crate::both::{Form, cases_of, cases_over};
use crate::cp::witnessed::{Pair, RENAME_CALLS, WRITE_CALLS};
use crate::cp::{COPY_FILE_RANGE, DIRECT, Method, READ_WRITE, REFLINK, SENDFILE, SPLICE, cp_by};

/// Each way, and the call in which to stop it: the first that touches the data.
const STOPS: [(Method, &[SystemCall]); 4] = [
    (COPY_FILE_RANGE, &[SystemCall::COPY_FILE_RANGE]),
    (SENDFILE, &[SystemCall::SENDFILE]),
    (SPLICE, &[SystemCall::SPLICE]),
    (READ_WRITE, &WRITE_CALLS),
];

const LENGTH: u64 = 2 << 20;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (change, name) in CHANGES {
        for (method, stop) in STOPS {
            let name = format!("both::changing::{name}::{}", method.name);
            let test = move |form| changed(form, change, method, stop);
            cases.extend(cases_of(&Form::ALL, &name, &[], test));
        }
    }
    for (place, on) in [
        (Place::Ext4, "ext4"),
        (Place::Xfs, "xfs"),
        (Place::Btrfs, "btrfs"),
        (Place::Tmpfs, "tmpfs"),
    ] {
        let needs = [Need::At(place)];
        for (what, test) in [
            ("replaced_by_a_rename", replaced as fn(Form, Place)),
            ("replaced_after_a_change", both),
        ] {
            let name = format!("both::changing::{what}::on_{on}");
            cases.extend(cases_of(&Form::ALL, &name, &needs, move |form| test(form, place)));
        }
    }
    cases.extend(cases_over![
        Form::ALL;
        [Need::At(Place::Xfs)] a_reflink_is_a_snapshot,
    ]);
    cases.extend(cases_over![
        Form::OVER_OLD;
        [] old_destination_survives,
        [] retry_gives_the_new_contents,
        [] retry_gives_up,
        [Need::BareDevice] mapped_source_shrinks_under_a_direct_write,
        [] a_change_after_the_copy_is_none,
    ]);
    cases
}

type Change = fn(&Path);

const CHANGES: [(Change, &str); 5] = [
    (shrink, "shrinks"),
    (grow, "grows"),
    (rewrite, "is_rewritten"),
    (rewrite_and_date_back, "is_rewritten_and_dated_back"),
    (empty, "becomes_empty"),
];

fn open(path: &Path) -> File {
    File::options().write(true).open(path).unwrap()
}

fn shrink(path: &Path) {
    open(path).set_len(LENGTH / 2 + 77).unwrap();
}

fn empty(path: &Path) {
    open(path).set_len(0).unwrap();
}

fn grow(path: &Path) {
    open(path).write_all_at(&seeded(3, 0, 100_000), LENGTH).unwrap();
}

/// Same length, other bytes.
fn rewrite(path: &Path) {
    open(path).write_all_at(&seeded(4, 0, LENGTH), 0).unwrap();
}

/// As `tar` and `rsync -t` do it: only the ctime, which nobody can set, still tells.
fn rewrite_and_date_back(path: &Path) {
    let before = std::fs::metadata(path).unwrap().modified().unwrap();
    rewrite(path);
    open(path).set_modified(before).unwrap();
}

fn stopped(pair: &Pair, method: Method, stop: &[SystemCall], switch: &str) -> Stopped {
    pair.stopped_in(&cp_by(method).arg(switch), stop, 1, pair.to.path())
}

fn changed(form: Form, change: Change, method: Method, stop: &'static [SystemCall]) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let stop_there = stopped(&pair, method, stop, "--if-changed=fail");
    change(&pair.source);
    let run = stop_there.resume().run;
    assert!(run.failed(4).contains("changed while it was copied"), "{}", run.stderr);
    pair.assert_nothing_left();

    Content::dense(LENGTH).write(&pair.source);
    let stop_there = stopped(&pair, method, stop, "--if-changed=retry");
    change(&pair.source);
    let run = stop_there.resume().run;
    let receipt = pair.receipt(&run);
    pair.assert_copied();
    assert_eq!(receipt.value()["retries"], 1, "{}", receipt.value());
    pair.remove_copy();

    Content::dense(LENGTH).write(&pair.source);
    let stop_there = stopped(&pair, method, stop, "--if-changed=accept");
    change(&pair.source);
    let run = stop_there.resume().run;
    let receipt = pair.receipt(&run);
    assert_eq!(receipt.value()["source_changed"], true, "{}", receipt.value());
    let length = std::fs::metadata(&pair.destination).unwrap().len();
    assert_eq!(receipt.bytes(), length, "the receipt counts what the destination has");
    assert!(length <= LENGTH + 100_000);
    pair.assert_no_strangers();
}

/// Changes to the names of a source while it is copied.
const NAMINGS: [fn(&Pair); 4] = [
    |pair| {
        let new = pair.from.join("new");
        std::fs::write(&new, "another file").unwrap();
        std::fs::rename(new, &pair.source).unwrap();
    },
    |pair| std::fs::remove_file(&pair.source).unwrap(),
    |pair| std::fs::hard_link(&pair.source, pair.from.join("more")).unwrap(),
    // One of two.
    |pair| std::fs::remove_file(pair.from.join("other")).unwrap(),
];

fn stopped_with_two_names(
    form: Form,
    place: Place,
    method: Method,
    stop: &[SystemCall],
    switch: &str,
    naming: usize,
) -> (Pair, Stopped) {
    let pair = Pair::of(form, place, &Content::dense(LENGTH));
    if naming == 3 {
        std::fs::hard_link(&pair.source, pair.from.join("other")).unwrap();
    }
    // So that no page is dirty in the one that is written to.
    File::open(&pair.source).unwrap().sync_all().unwrap();
    let stopped = stopped(&pair, method, stop, switch);
    (pair, stopped)
}

/// The bytes are those of the file that was opened.
fn replaced(form: Form, place: Place) {
    for (method, stop) in STOPS {
        for (naming, name) in NAMINGS.into_iter().enumerate() {
            for switch in ["--if-changed=fail", "--if-changed=retry"] {
                let (pair, stop_there) =
                    stopped_with_two_names(form, place, method, stop, switch, naming);
                name(&pair);
                let run = stop_there.resume().run;
                let context = format!("{} {naming} {switch}", method.name);
                assert!(run.status.success(), "{context}: {}", run.stderr);
                let receipt = pair.receipt(&run);
                assert_eq!(receipt.value()["source_changed"], false, "{context}");
                assert_eq!(receipt.value()["retries"], 0, "{context}");
                Content::dense(LENGTH).write(&pair.from.join("expected"));
                assert_same(&pair.from.join("expected"), &pair.destination);
            }
        }
    }
}

/// A change of contents is one, whatever became of the names.
fn both(form: Form, place: Place) {
    let (method, stop) = STOPS[0];
    for (change, what) in CHANGES {
        // Dated back only the ctime tells, which the names explain; and pages that became dirty, where
        // those are counted.
        if what == "is_rewritten_and_dated_back" && place == Place::Tmpfs {
            continue;
        }
        for (naming, name) in NAMINGS.into_iter().enumerate() {
            let once = || {
                let (pair, stop_there) =
                    stopped_with_two_names(form, place, method, stop, "--if-changed=fail", naming);
                change(&pair.source);
                name(&pair);
                (stop_there.resume().run, pair)
            };
            let (mut run, mut pair) = once();
            // Only pages that are dirty tell, and a busy system may write them back before anybody looks.
            for _ in 0..4 {
                if what != "is_rewritten_and_dated_back" || !run.status.success() {
                    break;
                }
                (run, pair) = once();
            }
            assert!(run.failed(4).contains("changed while it was copied"), "{what} {naming}");
            pair.assert_nothing_left();
        }
    }
}

fn old_destination_survives(form: Form) {
    for change in [shrink, grow, rewrite] {
        let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
        let old = pair.old_destination();
        let stop_there =
            stopped(&pair, COPY_FILE_RANGE, &[SystemCall::COPY_FILE_RANGE], "--if-changed=fail");
        change(&pair.source);
        let run = stop_there.resume().run;
        run.failed(4);
        pair.assert_kept(&old);
    }
}

fn retry_gives_the_new_contents(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    let stop_there = stopped(&pair, READ_WRITE, &WRITE_CALLS, "--if-changed=retry");
    std::fs::write(&pair.source, b"short").unwrap();
    let run = stop_there.resume().run;
    assert_eq!(pair.receipt(&run).bytes(), 5, "{}", run.stdout);
    pair.assert_copied();
}

/// A source that changes in every round: four copies, then an error.
fn retry_gives_up(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let program = pair.command(cp_by(READ_WRITE).arg("--if-changed=retry"));
    // Several in each round.
    let mut stop_there = Intercepted::new(&program).stop_in_every_second(&[SystemCall::PREAD64]);
    let mut rounds = 0;
    while stop_there.wait() {
        rounds += 1;
        open(&pair.source).write_all_at(&seeded(rounds, 0, 10), 0).unwrap();
        stop_there.go_on();
        assert!(rounds < 1000, "it never gives up");
    }
    let run = stop_there.end().run;
    run.failed(4);
    assert!(rounds >= 4, "{rounds}");
    pair.assert_kept(&old);
}

/// The mapping's pages are gone when the write wants them: EFAULT to the program, and no SIGBUS.
fn mapped_source_shrinks_under_a_direct_write(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let stop_there = pair.stopped_in(&cp_by(DIRECT), &[SystemCall::MMAP], 1, pair.from.path());
    shrink(&pair.source);
    let run = stop_there.resume().run;
    assert!(run.failed(4).contains("changed"), "{}", run.stderr);
    pair.assert_kept(&old);
}

fn a_reflink_is_a_snapshot(form: Form) {
    let pair = Pair::of(form, Place::Xfs, &Content::dense(LENGTH));
    let stop_there = pair.stopped_in(&cp_by(REFLINK), &[SystemCall::IOCTL], 1, pair.to.path());
    rewrite(&pair.source);
    let run = stop_there.resume().run;
    let receipt = pair.receipt(&run);
    assert_eq!(receipt.at("shared"), LENGTH, "{}", receipt.value());
    assert!(receipt.value()["source_changed"] != true, "{}", receipt.value());
    Content::dense(LENGTH).write(&pair.source);
    assert_same(&pair.source, &pair.destination);
}

/// Once the new file is in place, nothing that happens to the source matters.
fn a_change_after_the_copy_is_none(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    let stop_there = pair.stopped_in(&cp_by(COPY_FILE_RANGE), &RENAME_CALLS, 1, pair.to.path());
    empty(&pair.source);
    let run = stop_there.resume().run;
    assert_eq!(pair.receipt(&run).bytes(), LENGTH);
    Content::dense(LENGTH).write(&pair.source);
    assert_same(&pair.source, &pair.destination);
}
