//! System calls of operations on channels, as strace shows them. Each case runs this program again,
//! which performs the operation between two calls of `getppid(2)`.

use std::hint::black_box;
use std::io::IoSlice;
use std::time::Duration;

use testbed::witness::Strace;
use testbed::{Forbidden, Need, Program, SystemCall};
use uncopy::Errno;
use uncopy::channel::{BatchRegion, Channel, Deadline, MAX_BYTES, Object, Signals, Status};

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

/// Returns the calls between the marks.
fn calls(operation: &str) -> Vec<String> {
    calls_of(&program(operation))
}

fn calls_of(program: &Program) -> Vec<String> {
    let (run, trace) = Strace::new(program).run();
    assert!(run.status.success(), "{}", run.stderr);
    let names = trace.calls.into_iter().map(|call| call.name);
    names
        .skip_while(|name| name != "getppid")
        .skip(1)
        .take_while(|name| name != "getppid")
        .collect()
}

fn one_process_needs_no_system_call() {
    assert_eq!(calls("local event"), [""; 0]);
    assert_eq!(calls("local batch"), [""; 0]);
    assert_eq!(calls("local look"), [""; 0]);
}

fn a_message_over_a_socket_is_one_call_to_send_and_one_to_receive() {
    for (operation, send) in [("small event", "sendto"), ("large event", "sendmsg")] {
        // The receiving call also shows that there is no more, so that the wait reports everything.
        assert_eq!(calls(operation), [send, "recvmmsg"]);
    }
}

/// As under a filter of system calls that does not know recvmmsg.
fn without_recvmmsg_messages_are_received_one_by_one() {
    for errno in [Errno::EPERM, Errno::ENOSYS, Errno::EACCES] {
        let refused = |operation: &str| {
            let refused = [Forbidden::Call(SystemCall::RECVMMSG)];
            calls_of(&program(operation).forbidding(&refused, errno))
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
        [Need::Tool("strace")] without_recvmmsg_messages_are_received_one_by_one,
        [Need::Tool("strace")] a_wait_for_a_signal_that_is_set_looks_once_and_only_at_a_socket,
        [Need::Tool("strace")] a_wait_that_spins_does_not_sleep,
        [Need::Tool("strace")] a_batch_is_one_call_for_each_64_messages,
    ]
}
