//! Ctrl-C and its kin: nothing is left, and the exit status says why.

use rustix::process::Signal;
use std::time::Duration;
use testbed::{CallPattern, Case, Content, Intercept, Intercepted, Place, SystemCall, by_extent};

use crate::both::{Form, cases_over};
use crate::cp::witnessed::{Pair, WRITE_CALLS};
use crate::cp::{COPY_FILE_RANGE, READ_WRITE, SENDFILE, SPLICE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    cases_over![
        Form::ALL;
        [] interrupt_leaves_nothing,
        [] terminate_and_hangup_too,
        [] interrupt_while_verifying,
        [] no_piece_is_moved_after_an_interrupt,
        [] no_further_file_is_begun_after_an_interrupt,
        [] stop_and_continue_harms_nothing,
        [] a_long_kernel_copy_is_made_in_pieces,
        [] slow_pieces_are_followed_by_small_ones,
    ]
}

const LENGTH: u64 = 8 << 20;

fn interrupted_by(form: Form, signal: Signal, number: i32) {
    let methods = [
        (COPY_FILE_RANGE, &[SystemCall::COPY_FILE_RANGE][..]),
        (SENDFILE, &[SystemCall::SENDFILE]),
        (SPLICE, &[SystemCall::SPLICE]),
        (READ_WRITE, &WRITE_CALLS),
    ];
    // In the short extent two for each signal, and each of them with a signal.
    let first = if signal == Signal::TERM { 1 } else { 0 };
    let (skipped, step) = by_extent([(first, 2), (0, 1), (0, 1)]);
    for (method, calls) in methods.into_iter().skip(skipped).step_by(step) {
        let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
        let stopped = pair.stopped_in(&cp_by(method), calls, 1, pair.to.path());
        let run = stopped.resume_with(signal).run;
        run.died_of(number);
        pair.assert_nothing_begun();
        if form == Form::NewTree {
            continue;
        }

        let old = pair.old_destination();
        let stopped = pair.stopped_in(&cp_by(method), calls, 1, pair.to.path());
        let run = stopped.resume_with(signal).run;
        run.died_of(number);
        pair.assert_kept(&old);
    }
}

fn interrupt_leaves_nothing(form: Form) {
    interrupted_by(form, Signal::INT, 2);
}

fn terminate_and_hangup_too(form: Form) {
    interrupted_by(form, Signal::TERM, 15);
    interrupted_by(form, Signal::HUP, 1);
}

fn interrupt_while_verifying(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let old = pair.old_destination();
    let program = cp().arg("--verify");
    let reads = [SystemCall::READ, SystemCall::PREAD64, SystemCall::PREADV, SystemCall::PREADV2];
    let stopped = pair.stopped_in(&program, &reads, 1, pair.to.path());
    let run = stopped.resume_with(Signal::TERM).run;
    run.died_of(15);
    pair.assert_kept(&old);
}

/// The signal is there when the call returns, so that the piece in which it came is the last.
fn no_piece_is_moved_after_an_interrupt(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(64 << 20));
    let calls = [SystemCall::COPY_FILE_RANGE];
    let stopped = pair.stopped_in(&cp_by(COPY_FILE_RANGE), &calls, 1, pair.to.path());
    let intercept = stopped.resume_with(Signal::TERM);
    intercept.run.died_of(15);
    let begun = intercept.log.iter().filter(|call| calls.contains(&call.call));
    let pieces: Vec<u64> = begun.map(|call| call.arguments[4]).collect();
    assert!(pieces.len() <= 2 && pieces.iter().sum::<u64>() < 64 << 20, "it went on: {pieces:?}");
}

fn no_further_file_is_begun_after_an_interrupt(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
    let second = pair.source.with_file_name("second");
    Content::dense(100).write(&second);
    let program = cp_by(COPY_FILE_RANGE);
    let program = match form {
        Form::File => program.arg(&pair.source).arg(&second).arg(pair.to.path()),
        _ => pair.command(program),
    };
    let stopped = program.stop_after(SystemCall::COPY_FILE_RANGE, 1);
    let run = stopped.resume_with(Signal::TERM).run;
    run.died_of(15);
    pair.assert_nothing_begun();
}

/// A stop breaks calls off early: short counts and restarts in every mechanism.
fn stop_and_continue_harms_nothing(form: Form) {
    for (method, calls) in [
        (COPY_FILE_RANGE, SystemCall::COPY_FILE_RANGE),
        (SENDFILE, SystemCall::SENDFILE),
        (SPLICE, SystemCall::SPLICE),
        (READ_WRITE, SystemCall::PREAD64),
        (READ_WRITE, SystemCall::PWRITE64),
    ] {
        let pair = Pair::of(form, Place::Disk, &Content::dense(4 << 20));
        let mut stepping =
            Intercepted::new(&pair.command(cp_by(method))).stop_in_every_second(&[calls]);
        let mut stops = 0;
        while stepping.wait() {
            stops += 1;
            stepping.go_on();
        }
        let _ = pair.receipt(&stepping.end().run);
        pair.assert_copied();
        assert!(stops > 0, "no {}", calls.name());
    }
}

/// Returns the length that each call requested, in order, and which argument it is.
fn pieces(intercept: &Intercept, call: SystemCall, argument: usize) -> Vec<u64> {
    let calls = intercept.log.iter().filter(|made| made.call == call);
    calls.map(|call| call.arguments[argument]).collect()
}

/// One call of the kernel could copy all of this in one go; between pieces a wish to stop is heard.
fn a_long_kernel_copy_is_made_in_pieces(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(96 << 20));
    let program = pair.command(cp_by(COPY_FILE_RANGE));
    let intercept = Intercepted::new(&program).watch(&[SystemCall::COPY_FILE_RANGE]).run();
    let _ = pair.receipt(&intercept.run);
    let pieces = pieces(&intercept, SystemCall::COPY_FILE_RANGE, 4);
    assert!(pieces[0] <= 16 << 20, "the first piece, of unknown speed: {pieces:?}");
    assert!(pieces.len() >= 3, "{pieces:?}");
}

/// Where a piece takes long, Ctrl-C would be answered as late, and the bar stand still.
fn slow_pieces_are_followed_by_small_ones(form: Form) {
    let each = Duration::from_millis(by_extent([400, 1000, 1000]));
    for (method, call, argument) in
        [(COPY_FILE_RANGE, SystemCall::COPY_FILE_RANGE, 4), (SENDFILE, SystemCall::SENDFILE, 3)]
    {
        let pair = Pair::of(form, Place::Disk, &Content::dense(32 << 20));
        let slow = CallPattern::of(&[call]).between(1, 2).delayed(each);
        let intercept = pair.command(cp_by(method)).run_with([slow]);
        let _ = pair.receipt(&intercept.run);
        let pieces = pieces(&intercept, call, argument);
        let (first, second, third) = (pieces[0], pieces[1], pieces[2]);
        assert!(second <= first / 4 && third <= second / 4, "{}: {pieces:?}", call.name());
    }
}
