//! Leftovers of a killed run: the next run removes its own, and no others.

use std::fs::File;
use std::os::unix::fs::chown;

use testbed::{Case, Content, Need, Place, SystemCall, assert_same};

use crate::both::metadata::set_mode;
use crate::both::{Form, cases_over};
use crate::cp::leftovers::{leave_one, leave_one_with_a_record, temporaries};
use crate::cp::witnessed::Pair;
use crate::cp::{NOBODY, cp, cp_as_nobody};

pub(crate) fn cases() -> Vec<Case> {
    cases_over![
        Form::OVER_OLD;
        [] a_leftover_with_a_record_is_removed_by_the_next_run,
        [] a_locked_temporary_file_is_left_alone,
        [Need::Root] a_leftover_of_another_user_is_left_alone,
    ]
}

const LENGTH: u64 = 300_001;

fn a_leftover_with_a_record_is_removed_by_the_next_run(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let left = leave_one_with_a_record(&pair);
    assert!(std::fs::read(&pair.destination).unwrap() == old);
    pair.copy(cp());
    assert!(!left.exists());
}

/// Two runs to one destination at once: the one that is stopped holds its lock.
fn a_locked_temporary_file_is_left_alone(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    pair.old_destination();
    // A tree links its record first.
    let nth = if form.is_tree() { 2 } else { 1 };
    let stopped = pair.stopped_in(&cp(), &[SystemCall::LINKAT], nth, pair.to.path());
    let first = temporaries(pair.to.path());
    assert_eq!(first.len(), 1, "a temporary name between link and rename");
    let _ = pair.succeed(cp());
    assert_same(&pair.source, &pair.destination);
    assert_eq!(temporaries(pair.to.path()), first, "another run's file was taken away");
    let run = stopped.resume().run;
    let _ = pair.receipt(&run);
    pair.assert_copied();
}

/// Nobody makes root remove files that look like leftovers and are not root's to judge; and an
/// unreadable leftover does not keep a copy from succeeding.
fn a_leftover_of_another_user_is_left_alone(form: Form) {
    // In the first the kernel would keep nobody from removing it.
    for directory_mode in [0o777, 0o1777] {
        let pair = Pair::of(form, Place::Tmpfs, &Content::dense(LENGTH));
        pair.old_destination();
        let left = leave_one(&pair);
        set_mode(pair.to.path(), directory_mode);
        set_mode(&pair.destination, 0o666);
        set_mode(&left, 0o644);
        chown(&pair.destination, Some(NOBODY), None).unwrap();
        let _ = pair.succeed(cp_as_nobody());
        assert_same(&pair.source, &pair.destination);
        assert!(left.exists() && File::open(&left).is_ok());
    }
}
