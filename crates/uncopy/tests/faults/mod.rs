//! Every system call of an operation of the library fails, one at a time, in a process of its own:
//! the operation ends, well or with an error, leaves no descriptor, thread, memory or buffer that was
//! lent behind, says what really happened, and goes well when it is done again.
//!
//! The process does the operation twice before, so that what is kept for good is there, and then
//! between two calls of `getppid(2)`. A short run fails the first call of every second kind;
//! `UNCOPY_TEST_FULL=1` fails all of them, and `UNCOPY_TEST_FULL=soak` by every error at every place.

mod held;
pub(crate) mod roles;
mod sends;

use std::any::Any;
use std::panic::catch_unwind;

use testbed::{
    CallPattern, Case, CountingAllocator, Fault, Forbidden, Intercept, Intercepted, Place, Program,
    SystemCall, by_extent,
};
use uncopy::Errno;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

const MARK: SystemCall = SystemCall::GETPPID;

fn program(role: &str, directory: &std::path::Path) -> Program {
    Program::new(std::env::current_exe().unwrap())
        .env(roles::ROLE, role)
        .env(roles::DIRECTORY, directory)
        .env("RUST_BACKTRACE", "0")
}

/// Which of its errors a call fails by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tried {
    /// One, in turn.
    One,
    /// All of them in the first call of its kind, and one in each other.
    AllAtFirst,
    All,
}

/// Every call of this operation fails, at most `most` of each kind.
fn each(role: &str, most: usize) {
    let directory = Place::Disk.scratch();
    std::fs::write(directory.join("source"), vec![3; 3 << 20]).unwrap();
    let intercepted = Intercepted::new(&program(role, directory.path())).between_marks(MARK);
    let (run, calls) = intercepted.count();
    assert!(run.status.success(), "{run:?}");
    assert!(calls.len() >= 5, "{calls:?}");
    let (short, full, soak) = ((1, Tried::One), (most, Tried::AllAtFirst), (most, Tried::All));
    let (most, tried) = by_extent([short, full, soak]);
    let mut wrong = Vec::new();
    // Not the same ones for each role.
    let step = by_extent([2, 1, 1]);
    let begin = calls.len() % step;
    for call in calls.into_keys().skip(begin).step_by(step) {
        let errnos = call.errnos();
        for nth in 1..=most {
            let in_turn = errnos.get((nth - 1) % errnos.len().max(1)).copied();
            let all = tried == Tried::All || nth == 1 && tried == Tried::AllAtFirst;
            let mut happened = false;
            for errno in if all { errnos } else { in_turn.as_slice() } {
                let fault = CallPattern::of(&[call]).nth(nth).fails(*errno);
                match catch_unwind(|| intercepted.clone().inject(fault.clone()).run()) {
                    Ok(intercept) => {
                        happened |= intercept.hits > 0;
                        wrong.extend(what_is_wrong(&intercept, &fault));
                    }
                    Err(panic) => {
                        happened = true;
                        wrong.extend(unexpected_panic(&panic, &fault));
                    }
                }
            }
            if !happened {
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} faults did harm:\n{}", wrong.len(), wrong.join("\n"));
}

/// Describes a panic, unless Rust's standard library raises it for an error that it considers
/// impossible: no memory for a thread's signal stack, or a failed pipe to a started program.
fn unexpected_panic(panic: &Box<dyn Any + Send>, fault: &Fault) -> Option<String> {
    let text = panic.downcast_ref::<String>().map_or("no text", String::as_str);
    let inherent = text.contains("failed to allocate an alternative stack")
        || text.contains("failed to set up alternative stack guard page")
        || text.contains("the CLOEXEC pipe failed");
    (!inherent).then(|| format!("{fault}: {text}"))
}

fn what_is_wrong(intercept: &Intercept, fault: &Fault) -> Option<String> {
    let run = &intercept.run;
    let memory = [SystemCall::MMAP, SystemCall::MREMAP, SystemCall::MPROTECT];
    let aborted = memory.contains(&fault.call()) && run.stderr.contains("memory allocation of");
    // A descriptor whose `close` did not happen is open.
    let not_closed = fault.call() == SystemCall::CLOSE && run.stdout.starts_with("descriptors");
    let well = run.status.success() && (intercept.hits > 0 || run.stdout.starts_with("done"));
    if well || aborted || not_closed {
        return None;
    }
    Some(format!("{fault}: {} {}{}", run.status, run.stdout, run.stderr))
}

/// Spills the table of hard links from memory to a file and reads it back.
fn links_are_remembered_on_disk() {
    let directory = Place::Disk.scratch();
    let intercepted = Intercepted::new(&program("links", directory.path())).between_marks(MARK);
    let (run, calls) = intercepted.count();
    assert!(run.stdout.starts_with("done"), "{run:?}");
    // A record and its place for each, and its last name; and the name that the new tree is built under,
    // before it is there and when it is, in a record that says which file it is itself.
    let written = calls.get(&SystemCall::PWRITE64).copied();
    assert_eq!(written, Some(3 * 3 + 3), "{calls:?}");
}

/// Fails the system calls that containers forbid, with both errors that they return; in the short
/// extent with one of them, in turn.
fn forbidden() {
    let directory = Place::Disk.scratch();
    std::fs::write(directory.join("source"), vec![3; 3 << 20]).unwrap();
    let sets: &[&[SystemCall]] = &[
        &[SystemCall::IO_URING_SETUP, SystemCall::IO_URING_ENTER, SystemCall::IO_URING_REGISTER],
        &[SystemCall::COPY_FILE_RANGE],
        &[SystemCall::USERFAULTFD],
        &[SystemCall::SPLICE, SystemCall::SENDFILE, SystemCall::COPY_FILE_RANGE],
        &[SystemCall::STATX],
        &[SystemCall::OPENAT2],
        &[SystemCall::PRLIMIT64],
    ];
    for set in sets {
        let calls: Vec<_> = set.iter().map(|call| Forbidden::Call(*call)).collect();
        every_role_works(&directory, &calls);
    }
    // SO_ZEROCOPY (include/uapi/asm-generic/socket.h).
    every_role_works(&directory, &[Forbidden::SocketOption(60)]);
}

fn every_role_works(directory: &std::path::Path, calls: &[Forbidden]) {
    let errnos = [Errno::EPERM, Errno::ENOSYS];
    for (number, role) in roles::NAMES.into_iter().enumerate() {
        let turn = number % errnos.len();
        for &errno in by_extent([&errnos[turn..=turn], &errnos, &errnos]) {
            let run = program(role, directory).forbidding(calls, errno).run();
            let context = format!("{role} without {calls:?} ({errno})");
            assert!(run.status.success(), "{context}: {run:?}");
            assert!(run.stdout.starts_with("done"), "{context}: {run:?}");
        }
    }
}

/// Memory and shared events need `memfd_create(2)`: without it they answer with a status, and
/// messages, files and sends go on.
fn without_memory_files() {
    let directory = Place::Disk.scratch();
    std::fs::write(directory.join("source"), vec![3; 3 << 20]).unwrap();
    let calls = [Forbidden::Call(SystemCall::MEMFD_CREATE)];
    for errno in [Errno::EPERM, Errno::ENOSYS] {
        for role in roles::NAMES {
            let run = program(role, directory.path()).forbidding(&calls, errno).run();
            assert!(run.status.success(), "{role}: {run:?}");
            let refused = run.stdout.starts_with("failed: memory: ");
            assert!(run.stdout.starts_with("done") || refused, "{role}: {run:?}");
        }
    }
}

pub(crate) fn cases() -> Vec<testbed::Case> {
    let mut cases = testbed::cases![
        [] forbidden,
        [] without_memory_files,
        [] links_are_remembered_on_disk,
    ];
    let of = |role: &'static str, most| {
        Case::new(format!("faults::each_call::{role}"), &[], move || each(role, most))
    };
    cases.extend([
        of("copy", usize::MAX),
        of("tree", usize::MAX),
        of("links", 10),
        of("channel", 40),
        of("objects", 40),
        of("lend", 20),
        of("ring", 20),
    ]);
    cases
}
