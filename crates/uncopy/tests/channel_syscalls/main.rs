//! How many system calls an operation on a channel makes, as strace sees them. Each case runs this
//! program again, which does the operation between two calls of `getppid(2)`.

use std::hint::black_box;
use std::io::IoSlice;
use std::process::ExitCode;

use testbed::witness::Strace;
use testbed::{Forbidden, Need, Program, SystemCall};
use uncopy::Errno;
use uncopy::channel::{BatchRegion, Channel, Deadline, MAX_BYTES, Object, Signals};

/// Names the operation in the environment of the other run.
const OPERATION: &str = "UNCOPY_TEST_OPERATION";

fn socket_pair() -> (Channel, Channel) {
    let (near, far) = Channel::pair();
    (near, Channel::from_fd(far.into_fd().unwrap()).unwrap())
}

/// Runs it once before, so that pools and caches are what they stay.
fn marked(mut operation: impl FnMut()) {
    operation();
    black_box(rustix::process::getppid());
    operation();
    black_box(rustix::process::getppid());
}

fn event(pair: &(Channel, Channel), length: usize) {
    let body = vec![1; length];
    let (front, back) = body.split_at(length / 2);
    let mut out = vec![0; MAX_BYTES];
    let regions = [front, back].map(IoSlice::new);
    marked(|| {
        pair.0.write(&regions, Vec::new()).unwrap();
        pair.1.wait_one(Signals::READABLE, Deadline::INFINITE).unwrap();
        assert_eq!(pair.1.read_into(&mut out, &mut []).unwrap().bytes, length);
    });
}

fn batch(pair: &(Channel, Channel)) {
    let regions: Vec<_> = (0..130)
        .map(|message| BatchRegion { bytes: b"one of many", message, handles: 0 })
        .collect();
    marked(|| assert_eq!(pair.0.write_batch(&regions, &mut Vec::new()), Ok(130)));
}

/// A wait for one signal that is set, and one that is not.
fn look(channel: &Channel) {
    let signals = Signals::WRITABLE | Signals::PEER_CLOSED | Signals::READABLE;
    marked(|| assert!(channel.wait_one(signals, Deadline::INFINITE).is_ok()));
}

fn operate(name: &str) {
    match name {
        "local event" => event(&Channel::pair(), 1000),
        "small event" => event(&socket_pair(), 1000),
        "third event" => {
            let pair = socket_pair();
            pair.0.write(&[], vec![]).unwrap();
            pair.1.wait_one(Signals::READABLE, Deadline::INFINITE).unwrap();
            pair.1.read().unwrap();
            event(&pair, 1000);
        }
        "large event" => event(&socket_pair(), 20_000),
        "local batch" => batch(&Channel::pair()),
        "batch" => batch(&socket_pair()),
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

/// The calls between the marks.
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
        // The one that receives also says that there is no more: the wait tells of all that has come.
        assert_eq!(calls(operation), [send, "recvmmsg"]);
    }
}

/// As where a filter of system calls was written before that one was needed.
fn without_recvmmsg_messages_are_received_one_by_one() {
    for errno in [Errno::EPERM, Errno::ENOSYS, Errno::EACCES] {
        let refused = |operation: &str| {
            let refused = [Forbidden::Call(SystemCall::RECVMMSG)];
            calls_of(&program(operation).forbidding(&refused, errno))
        };
        assert_eq!(refused("small event"), ["sendto", "recvmmsg", "recvmsg", "recvmsg"], "{errno}");
        // It is not tried again.
        assert_eq!(refused("third event"), ["sendto", "recvmsg", "recvmsg"], "{errno}");
    }
}

fn a_wait_for_what_is_set_looks_once_and_only_where_something_can_come() {
    // Nothing has come yet: a backlog would be the first.
    assert_eq!(calls("look"), ["recvmsg"]);
    assert_eq!(calls("look at a closed one"), [""; 0]);
}

fn a_batch_is_one_call_for_each_64_messages() {
    assert_eq!(calls("batch"), ["sendmmsg"; 3]);
}

fn main() -> ExitCode {
    if let Some(operation) = std::env::var_os(OPERATION) {
        operate(&operation.to_string_lossy());
        return ExitCode::SUCCESS;
    }
    testbed::run(env!("CARGO_TARGET_TMPDIR"), || {
        testbed::cases![
            [Need::Tool("strace")] one_process_needs_no_system_call,
            [Need::Tool("strace")] a_message_over_a_socket_is_one_call_to_send_and_one_to_receive,
            [Need::Tool("strace")] without_recvmmsg_messages_are_received_one_by_one,
            [Need::Tool("strace")] a_wait_for_what_is_set_looks_once_and_only_where_something_can_come,
            [Need::Tool("strace")] a_batch_is_one_call_for_each_64_messages,
        ]
    })
}
