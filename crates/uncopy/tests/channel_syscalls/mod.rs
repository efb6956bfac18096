//! System calls of operations on channels, as strace shows them. Each case runs this program again,
//! which performs the operation between two calls of `getppid(2)`.

use std::hint::black_box;
use std::io::IoSlice;
use std::time::Duration;

use testbed::witness::{Call, Strace};
use testbed::{Forbidden, GATHERED, Need, Program, SentParts, SystemCall};
use uncopy::Errno;
use uncopy::channel::{
    BatchRegion, Channel, Deadline, Disposition, Event, MAX_BYTES, Object, Signals, Status,
};

/// Environment variable with the operation of the other run.
pub(crate) const OPERATION: &str = "UNCOPY_TEST_OPERATION";

fn socket_pair() -> (Channel, Channel) {
    let (near, far) = Channel::pair();
    (near, Channel::from_fd(far.into_fd().unwrap()).unwrap())
}

/// Runs the operation once before, so that pools and caches are filled.
fn marked(mut operation: impl FnMut()) {
    operation();
    black_box(rustix::process::getppid());
    operation();
    black_box(rustix::process::getppid());
}

fn event([near, far]: &[Channel; 2], length: usize) {
    let body = vec![1; length];
    let (front, back) = body.split_at(length / 2);
    let mut out = vec![0; MAX_BYTES];
    let regions = [front, back].map(IoSlice::new);
    marked(|| {
        near.write(&regions, Vec::new()).unwrap();
        far.wait_one(Signals::READABLE, Deadline::INFINITE).unwrap();
        assert_eq!(far.read_into(&mut out, &mut []).unwrap().bytes, length);
    });
}

/// Takes each message with one call.
fn receive([near, far]: &[Channel; 2]) {
    let regions = [IoSlice::new(b"a message")];
    marked(|| {
        near.write(&regions, Vec::new()).unwrap();
        assert_eq!(&*far.receive(Deadline::INFINITE).unwrap(), b"a message");
    });
}

/// Calls, with the answer and a further message in the socket already: transaction ids are counted.
fn call([near, far]: &[Channel; 2]) {
    let past = Deadline::after(Duration::ZERO);
    near.call(&[IoSlice::new(b"txid")], Vec::new(), past).unwrap_err();
    let mut last = u32::from_ne_bytes(*far.read().unwrap().first_chunk().unwrap());
    marked(|| {
        last = last.wrapping_add(1) | 1 << 31;
        let answer = last.to_ne_bytes();
        far.write(&[IoSlice::new(&answer)], Vec::new()).unwrap();
        far.write(&[], Vec::new()).unwrap();
        let answered = near.call(&[IoSlice::new(b"txid")], Vec::new(), Deadline::INFINITE);
        assert_eq!(*answered.unwrap(), answer);
    });
}

/// Sends every message of the table by each call.
fn gather([near, far]: &[Channel; 2]) {
    let text = vec![1; MAX_BYTES];
    let event = || Disposition::moving(Event::new());
    let past = || Deadline::after(Duration::ZERO);
    let received = || drop(far.read().unwrap());
    let timed_out = |answer: Result<_, _>| assert_eq!(answer.unwrap_err(), Status::TimedOut);
    for row in GATHERED {
        let regions = row.divide(&text);
        near.write(&regions, vec![]).unwrap();
        received();
        near.write_etc(&regions, &mut [event()]).unwrap();
        received();
        timed_out(near.call(&regions, vec![], past()));
        received();
        timed_out(near.call_etc(&regions, &mut [event()], past()));
        received();
        let region = |bytes| BatchRegion { bytes, message: 0, handles: 0 };
        let flat: Vec<_> = regions.iter().map(|bytes| region(&**bytes)).collect();
        assert_eq!(near.write_batch(&flat, &mut vec![]), Ok(1));
        received();
    }
}

/// Sleeps until its time is over, in each way.
fn sleep([near, far]: &[Channel; 2]) {
    // Later than a traced program on an emulated processor comes to its wait.
    let soon = || Deadline::after(Duration::from_millis(100));
    marked(|| {
        assert_eq!(far.wait_one(Signals::READABLE, soon()), Err(Status::TimedOut));
        assert_eq!(far.receive(soon()).unwrap_err(), Status::TimedOut);
        let unanswered = near.call(&[IoSlice::new(b"txid")], Vec::new(), soon());
        assert_eq!(unanswered.unwrap_err(), Status::TimedOut);
        drop(far.read().unwrap());
    });
}

fn batch([near, _far]: &[Channel; 2]) {
    let regions: Vec<_> = (0..130)
        .map(|message| BatchRegion { bytes: b"one of many", message, handles: 0 })
        .collect();
    marked(|| assert_eq!(near.write_batch(&regions, &mut Vec::new()), Ok(130)));
}

/// Waits for a signal that is set, and for one that is not.
fn look(channel: &Channel) {
    let signals = Signals::WRITABLE | Signals::PEER_CLOSED | Signals::READABLE;
    marked(|| assert!(channel.wait_one(signals, Deadline::INFINITE).is_ok()));
}

/// Looks until its time is over.
fn spin(channel: &Channel) {
    let time = Duration::from_millis(20);
    marked(|| {
        let deadline = Deadline::after(time).spinning(time);
        assert_eq!(channel.wait_one(Signals::READABLE, deadline), Err(Status::TimedOut));
    });
}

pub(crate) fn operate(name: &str) {
    match name {
        "local spin" => spin(&Channel::pair().0),
        "spin" => spin(&socket_pair().0),
        "local event" => event(&Channel::pair().into(), 1000),
        "small event" => event(&socket_pair().into(), 1000),
        "third event" => {
            let (near, far) = socket_pair();
            near.write(&[], vec![]).unwrap();
            far.wait_one(Signals::READABLE, Deadline::INFINITE).unwrap();
            far.read().unwrap();
            event(&[near, far], 1000);
        }
        "large event" => event(&socket_pair().into(), 20_000),
        "local receive" => receive(&Channel::pair().into()),
        "receive" => receive(&socket_pair().into()),
        "call" => call(&socket_pair().into()),
        "gather" => gather(&socket_pair().into()),
        "sleep" => sleep(&socket_pair().into()),
        "sleep after a thread" => {
            std::thread::spawn(|| ()).join().unwrap();
            sleep(&socket_pair().into());
        }
        "local batch" => batch(&Channel::pair().into()),
        "batch" => batch(&socket_pair().into()),
        "local look" => look(&Channel::pair().0),
        "look" => look(&socket_pair().0),
        "look at a closed one" => {
            let (near, far) = socket_pair();
            far.write(&[], vec![]).unwrap();
            drop(far);
            look(&near);
        }
        other => panic!("no operation {other}"),
    }
}

fn program(operation: &str) -> Program {
    Program::new(std::env::current_exe().unwrap()).env(OPERATION, operation)
}

/// Returns the calls between the marks, except those that look at a clock: they are calls only where the kernel
/// lends no clock that can be read without (`vdso(7)`), as on some virtual machines.
fn calls(operation: &str) -> Vec<String> {
    names_of(&program(operation))
}

fn names_of(program: &Program) -> Vec<String> {
    calls_of(program).into_iter().map(|call| call.name).collect()
}

fn calls_of(program: &Program) -> Vec<Call> {
    let (run, trace) = Strace::new(program).run();
    assert!(run.status.success(), "{}", run.stderr);
    let is_mark = |call: &Call| call.name == "getppid";
    let behind_mark = trace.calls.into_iter().skip_while(|call| !is_mark(call)).skip(1);
    let calls = behind_mark.take_while(|call| !is_mark(call));
    calls.filter(|call| call.name != "clock_gettime").collect()
}

/// Returns the number of descriptors of each poll(2) between the marks.
fn polled(operation: &str) -> Vec<usize> {
    let calls = calls_of(&program(operation));
    let polls = calls.iter().filter(|call| call.name.ends_with("poll"));
    polls.map(|call| call.arguments.matches("{fd=").count()).collect()
}

fn one_process_needs_no_system_call() {
    assert_eq!(calls("local event"), [""; 0]);
    assert_eq!(calls("local batch"), [""; 0]);
    assert_eq!(calls("local look"), [""; 0]);
    assert_eq!(calls("local receive"), [""; 0]);
}

fn a_message_over_a_socket_is_one_call_to_send_and_one_to_receive() {
    for (operation, send) in [("small event", "sendto"), ("large event", "sendmsg")] {
        // The receiving call also shows that there is no more, so that the wait reports everything.
        assert_eq!(calls(operation), [send, "recvmmsg"]);
    }
}

/// No call shows whether there is more, because none of these returns signals.
fn a_message_that_is_received_or_answers_a_call_is_one_call_to_receive() {
    assert_eq!(calls("receive"), ["sendto", "recvmsg"]);
    let calls = calls("call");
    assert_eq!(calls[..3], ["sendto"; 3]);
    assert!(calls[3].ends_with("poll"), "{calls:?}");
    // The message behind the first answer, and the second answer.
    assert_eq!(calls[4..], ["recvmsg"; 2]);
}

fn only_a_process_that_had_threads_polls_for_the_wake_up_of_another() {
    assert_eq!(polled("sleep"), [1; 3]);
    assert_eq!(polled("sleep after a thread"), [2; 3]);
}

/// Each region of each call is passed to the kernel where it lies, or copied with its neighbours.
fn every_call_passes_large_regions_where_they_lie() {
    let (run, trace) = Strace::new(&program("gather")).run();
    assert!(run.status.success(), "{}", run.stderr);
    let found = SentParts::of(&trace);
    assert_eq!(found.len(), 5 * GATHERED.len());
    for (row, found) in GATHERED.iter().zip(found.chunks(5)) {
        let calls = [(false, false), (false, true), (true, false), (true, true), (false, false)];
        let expected = calls.map(|(is_call, has_handle)| row.parts(is_call, has_handle));
        assert_eq!(found, expected, "{row:?}");
    }
}

/// As under a filter of system calls that does not know recvmmsg.
fn without_recvmmsg_messages_are_received_one_by_one() {
    for errno in [Errno::EPERM, Errno::ENOSYS, Errno::EACCES] {
        let refused = |operation: &str| {
            let refused = [Forbidden::Call(SystemCall::RECVMMSG)];
            names_of(&program(operation).forbidding(&refused, errno))
        };
        assert_eq!(refused("small event"), ["sendto", "recvmmsg", "recvmsg", "recvmsg"], "{errno}");
        // recvmmsg is not tried again.
        assert_eq!(refused("third event"), ["sendto", "recvmsg", "recvmsg"], "{errno}");
    }
}

fn a_wait_for_a_signal_that_is_set_looks_once_and_only_at_a_socket() {
    // Nothing has come yet: a backlog would come first.
    assert_eq!(calls("look"), ["recvmsg"]);
    assert_eq!(calls("look at a closed one"), [""; 0]);
}

fn a_wait_that_spins_does_not_sleep() {
    assert_eq!(calls("local spin"), [""; 0]);
    let looks = calls("spin");
    assert!(looks.len() > 2 && looks.iter().all(|call| call.starts_with("recv")), "{looks:?}");
}

fn a_batch_is_one_call_for_each_64_messages() {
    assert_eq!(calls("batch"), ["sendmmsg"; 3]);
}

pub(crate) fn cases() -> Vec<testbed::Case> {
    testbed::cases![
        [Need::Tool("strace")] one_process_needs_no_system_call,
        [Need::Tool("strace")] a_message_over_a_socket_is_one_call_to_send_and_one_to_receive,
        [Need::Tool("strace")] a_message_that_is_received_or_answers_a_call_is_one_call_to_receive,
        [Need::Tool("strace")] only_a_process_that_had_threads_polls_for_the_wake_up_of_another,
        [Need::Tool("strace")] every_call_passes_large_regions_where_they_lie,
        [Need::Tool("strace")] without_recvmmsg_messages_are_received_one_by_one,
        [Need::Tool("strace")] a_wait_for_a_signal_that_is_set_looks_once_and_only_at_a_socket,
        [Need::Tool("strace")] a_wait_that_spins_does_not_sleep,
        [Need::Tool("strace")] a_batch_is_one_call_for_each_64_messages,
    ]
}
