//! Ctrl-C and its kin: nothing is left, and the exit status says why.

use rustix::process::Signal;
use testbed::witness::{Strace, Trace};
use testbed::{Case, Content, Need, Place, by_extent};

use crate::both::{Form, cases_over};
use crate::cp::witnessed::{Pair, WRITES};
use crate::cp::{COPY_FILE_RANGE, READ_WRITE, SENDFILE, SPLICE, cp, cp_by};

pub(crate) fn cases() -> Vec<Case> {
    cases_over![
        Form::ALL;
        [Need::Tool("strace")] interrupt_leaves_nothing,
        [Need::Tool("strace")] terminate_and_hangup_too,
        [Need::Tool("strace")] interrupt_while_verifying,
        [Need::Tool("strace")] no_piece_is_moved_after_an_interrupt,
        [Need::Tool("strace")] no_further_file_is_begun_after_an_interrupt,
        [Need::Tool("strace")] stop_and_continue_harms_nothing,
        [Need::Tool("strace")] a_long_kernel_copy_is_made_in_pieces,
        [Need::Tool("strace")] slow_pieces_are_followed_by_small_ones,
    ]
}

const LENGTH: u64 = 8 << 20;

fn interrupted_by(form: Form, signal: Signal, number: i32) {
    let methods = [
        (COPY_FILE_RANGE, &["copy_file_range"][..]),
        (SENDFILE, &["sendfile"]),
        (SPLICE, &["splice"]),
        (READ_WRITE, &WRITES),
    ];
    // In the short extent two for each signal, and each of them with a signal.
    let first = if signal == Signal::TERM { 1 } else { 0 };
    let (skipped, step) = by_extent([(first, 2), (0, 1), (0, 1)]);
    for (method, calls) in methods.into_iter().skip(skipped).step_by(step) {
        let pair = Pair::of(form, Place::Disk, &Content::dense(LENGTH));
        let stopped = pair.stopped_in(&cp_by(method), calls, 1, pair.to.path());
        let (run, _) = stopped.resume_with(signal);
        run.died_of(number);
        pair.assert_nothing_begun();
        if form == Form::NewTree {
            continue;
        }

        let old = pair.old_destination();
        let stopped = pair.stopped_in(&cp_by(method), calls, 1, pair.to.path());
        let (run, _) = stopped.resume_with(signal);
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
    let reads = ["read", "pread64", "preadv", "preadv2"];
    let stopped = pair.stopped_in(&program, &reads, 1, pair.to.path());
    let (run, _) = stopped.resume_with(Signal::TERM);
    run.died_of(15);
    pair.assert_kept(&old);
}

/// The signal is there when the call returns, so that the piece in which it came is the last.
fn no_piece_is_moved_after_an_interrupt(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(64 << 20));
    let calls = ["copy_file_range"];
    let stopped = pair.stopped_in(&cp_by(COPY_FILE_RANGE), &calls, 1, pair.to.path());
    let (run, trace) = stopped.resume_with(Signal::TERM);
    run.died_of(15);
    let moved = trace.bytes(&calls, pair.to.path());
    assert!(moved < 64 << 20, "it went on to the end");
    assert!(trace.named(&calls).len() <= 2, "it went on: {:#?}", trace.named(&calls));
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
    let stopped = Strace::new(&program).stop_after("copy_file_range", 1);
    let (run, _) = stopped.resume_with(Signal::TERM);
    run.died_of(15);
    pair.assert_nothing_begun();
}

/// A stop breaks calls off early: short counts and restarts in every mechanism.
fn stop_and_continue_harms_nothing(form: Form) {
    for (method, calls) in [
        (COPY_FILE_RANGE, "copy_file_range"),
        (SENDFILE, "sendfile"),
        (SPLICE, "splice"),
        (READ_WRITE, "pread64"),
        (READ_WRITE, "pwrite64"),
    ] {
        let pair = Pair::of(form, Place::Disk, &Content::dense(4 << 20));
        let mut stepping = Strace::new(&pair.command(cp_by(method))).stop_in_every_second(calls);
        let mut stops = 0;
        while stepping.wait() {
            stops += 1;
            stepping.go_on();
        }
        let (run, trace) = stepping.end();
        let _ = pair.receipt(&run);
        pair.assert_copied();
        assert!(stops > 0, "no {calls} in {:#?}", trace.calls);
    }
}

/// Returns the length that each call requested, in order.
fn pieces(trace: &Trace, call: &str) -> Vec<u64> {
    let calls = trace.named(&[call]);
    calls.iter().filter_map(|call| u64::try_from(call.value()?).ok()).filter(|n| *n > 0).collect()
}

/// One call of the kernel could copy all of this in one go; between pieces a wish to stop is heard.
fn a_long_kernel_copy_is_made_in_pieces(form: Form) {
    let pair = Pair::of(form, Place::Disk, &Content::dense(96 << 20));
    let (run, trace) = Strace::new(&pair.command(cp_by(COPY_FILE_RANGE))).run();
    let _ = pair.receipt(&run);
    let pieces = pieces(&trace, "copy_file_range");
    assert!(pieces[0] <= 16 << 20, "the first piece, of unknown speed: {pieces:?}");
    assert!(pieces.len() >= 3, "{pieces:?}");
}

/// Where a piece takes a second, Ctrl-C would be answered a second late, and the bar stand still.
fn slow_pieces_are_followed_by_small_ones(form: Form) {
    for (method, call) in [(COPY_FILE_RANGE, "copy_file_range"), (SENDFILE, "sendfile")] {
        let pair = Pair::of(form, Place::Disk, &Content::dense(32 << 20));
        let strace = Strace::new(&pair.command(cp_by(method)));
        let (run, trace) = strace.inject(&format!("{call}:delay_exit=1000000:when=1..2")).run();
        let _ = pair.receipt(&run);
        let pieces = pieces(&trace, call);
        assert!(pieces[1] <= pieces[0] / 4 && pieces[2] <= pieces[1] / 4, "{call}: {pieces:?}");
    }
}
