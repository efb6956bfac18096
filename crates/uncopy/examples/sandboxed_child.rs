//! A parent and a child that may open nothing itself: all it works with comes over its channel.
//!
//! `cargo run --example sandboxed_child [FILE]` has the child count the words of a file (of this
//! one, if none is named). The child gets an open file and memory for its answer, and a name for
//! neither.

use std::error::Error;
use std::fs::File;
use std::io::{IoSlice, Read};
use std::os::fd::OwnedFd;
use std::process::Command;

use seccompiler::{SeccompAction, SeccompFilter};
use uncopy::channel::{self, Channel, Deadline, Descriptor, Object, Signals, Status, Vmo};

type Outcome = Result<(), Box<dyn Error>>;

/// Starts the child with an argument that no file has.
const CHILD: &str = "--as-child";

fn main() -> Outcome {
    let this = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/sandboxed_child.rs");
    match std::env::args_os().nth(1) {
        Some(role) if role == CHILD => child(&Channel::inherited()?),
        Some(file) => parent(File::open(file)?),
        None => parent(File::open(this)?),
    }
}

fn parent(file: File) -> Outcome {
    let mut command = Command::new(std::env::current_exe()?);
    let (channel, mut child) = channel::spawn(command.arg(CHILD).env_clear())?;
    let result = Vmo::new(4096)?;
    let handles =
        vec![Descriptor::from(OwnedFd::from(file)).into(), result.duplicate(None)?.into()];
    // The first four bytes become the call's number.
    let question = [IoSlice::new(&[0; 4]), IoSlice::new(b"words")];
    let answer = channel.call(&question, handles, Deadline::INFINITE)?;
    let mut words = [0; 8];
    result.read(&mut words, 0)?;
    println!("{}: {} words", String::from_utf8_lossy(&answer[4..]), u64::from_ne_bytes(words));
    // The child ends when its channel does.
    drop(channel);
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("the child failed: {status}").into()) }
}

fn child(channel: &Channel) -> Outcome {
    close_the_door()?;
    if File::open("/etc/passwd").is_ok() {
        return Err("the sandbox does not hold".into());
    }
    loop {
        channel.wait_one(Signals::READABLE | Signals::PEER_CLOSED, Deadline::INFINITE)?;
        let mut message = match channel.read() {
            Err(Status::PeerClosed) => return Ok(()),
            other => other?,
        };
        let [file, memory] = <[_; 2]>::try_from(message.take_handles())
            .map_err(|_| "a question comes with a file and memory")?;
        let file = Descriptor::try_from(file).map_err(|_| "the first is no file")?;
        let memory = Vmo::try_from(memory).map_err(|_| "the second is no memory")?;
        let mut text = String::new();
        File::from(OwnedFd::from(file)).read_to_string(&mut text)?;
        let words = text.split_whitespace().count() as u64;
        memory.write(&words.to_ne_bytes(), 0)?;
        // An answer begins with the number of its question.
        channel.write(&[IoSlice::new(&message[..4]), IoSlice::new(b"counted")], vec![])?;
    }
}

/// System calls that open nothing, start nothing and connect to nothing: reading, writing, waiting,
/// memory, threads that exist, and the end.
const CALLS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_fcntl,
    libc::SYS_close,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockopt,
    libc::SYS_ppoll,
    libc::SYS_eventfd2,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Every other call answers `EPERM` from now on (`seccomp(2)`). Needs no privileges: new ones are
/// given up first (`PR_SET_NO_NEW_PRIVS`).
fn close_the_door() -> Outcome {
    #[cfg(target_arch = "x86_64")]
    let own: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_epoll_wait];
    #[cfg(not(target_arch = "x86_64"))]
    let own: &[libc::c_long] = &[];
    let rules = CALLS.iter().chain(own).map(|call| (*call, vec![])).collect();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let machine = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, refuse, SeccompAction::Allow, machine)?;
    let program: seccompiler::BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program).map_err(|error| {
        format!(
            "cannot install the seccomp filter: {error}; use a kernel with CONFIG_SECCOMP_FILTER, \
             or allow seccomp(2) in the container's profile"
        )
    })?;
    Ok(())
}
