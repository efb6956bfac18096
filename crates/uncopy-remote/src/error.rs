//! Errors of sessions, and notes about them.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use crate::WhyNoData;
use crate::data::KeyError;
use uncopy_core::{Errno, NextStep};
use uncopy_wire::{MAX_PAYLOAD_BYTES, MIN_VERSION, Refusal, VERSION, Violation};

/// Reason why a session failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// An address that a remote shell could take for something else.
    #[error("{what} {:?} cannot be used: {why}", .given)]
    BadAddress {
        /// Part of the address.
        what: &'static str,
        /// Its value.
        given: OsString,
        /// Reason.
        why: &'static str,
    },
    /// The words of a remote shell or program cannot be taken apart.
    #[error(
        "{given:?} cannot be split into words: close its quotes, and write no control characters"
    )]
    BadWords {
        /// The words.
        given: OsString,
    },
    /// The remote shell could not be started.
    #[error("cannot start {program:?}: {}; {}", .errno.message(), start_step(*.errno))]
    Start {
        /// The program.
        program: OsString,
        /// Error of the system.
        errno: Errno,
    },
    /// The other machine has no such program.
    #[error(
        "there is no program {program:?} on {host:?}: install uncopy there, or name where it is"
    )]
    FarMissing {
        /// The machine.
        host: OsString,
        /// Words that were run there.
        program: String,
    },
    /// The other machine may not run the program.
    #[error(
        "the program {program:?} on {host:?} cannot be run: let this user run it, or name another one"
    )]
    FarNotRunnable {
        /// The machine.
        host: OsString,
        /// Words that were run there.
        program: String,
    },
    /// The remote shell ended before the other machine answered, as `ssh` does that reaches no machine.
    #[error(
        "cannot reach {host:?}: the remote shell ended with status {status}: try it by hand, as in \
         \"{command}\""
    )]
    Unreachable {
        /// The machine.
        host: OsString,
        /// Its exit status.
        status: i32,
        /// The words of the remote shell, quoted, with a program that does nothing.
        command: String,
    },
    /// The remote shell ended before the other end greeted, for a reason that its status does not name.
    #[error(
        "the remote shell to {host:?} {ended} before uncopy answered there{}: {}",
        shown_text(.shown), .ended.next_step()
    )]
    ShellEnded {
        /// The machine.
        host: OsString,
        /// How it ended.
        ended: ShellEnd,
        /// Beginning of what it printed.
        shown: Vec<u8>,
    },
    /// The stream of the other end ended before its greeting.
    #[error("the other end ended before it greeted{}", shown_text(.shown))]
    NoGreeting {
        /// Beginning of what came.
        shown: Vec<u8>,
    },
    /// The other end is no uncopy that serves, or is too old to know how.
    #[error(
        "the other end does not speak the protocol of uncopy{}: install the same version of uncopy there, and let \
         its login shell print nothing", shown_text(.shown)
    )]
    NotUncopy {
        /// Beginning of what it printed.
        shown: Vec<u8>,
    },
    /// The other end speaks other versions of the protocol.
    #[error(
        "the other end is uncopy {program} and speaks versions {min} to {max} of the protocol, this one versions \
         {MIN_VERSION} to {VERSION}: install the same version of uncopy at both ends"
    )]
    Versions {
        /// Version of the program there.
        program: String,
        /// Lowest version of the protocol.
        min: u16,
        /// Highest version of the protocol.
        max: u16,
    },
    /// The far end refused the job.
    #[error("{}", refusal_text(.0))]
    Refused(Refusal),
    /// There are more names and arguments than a job takes.
    #[error(
        "the names, options and patterns of a copy take at most {MAX_PAYLOAD_BYTES} bytes together: name a directory that \
         holds the files, exclude by fewer patterns, or copy in several parts"
    )]
    TooManyNames,
    /// There is no data connection, without which the job is not to begin.
    #[error("no data connection stands: {why}; copy through the remote shell alone")]
    NoData {
        /// Reason.
        why: WhyNoData,
    },
    /// Data connections cannot be secured.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The session was given up before the other end took the job.
    #[error("stopped before the other end took the job")]
    Stopped,
    /// The other end was there, and did not say what a session begins with.
    #[error(
        "the other end has sent no {awaited} for {} s: let nothing but uncopy cp start it, and see what a login \
         script on the way waits for",
        .silence.as_secs_f32()
    )]
    Silent {
        /// Part of the beginning that it was to send.
        awaited: &'static str,
        /// Time for which nothing came.
        silence: Duration,
    },
    /// The other end is alive, and has not taken the job.
    #[error(
        "the other end lives and has not begun the copy for {} s: see whether the filesystems there answer",
        .limit.as_secs_f32()
    )]
    NotTaken {
        /// Time that it had.
        limit: Duration,
    },
    /// The connection ended, or nothing came over it for too long.
    #[error("the connection to the other end is lost: {what}")]
    Lost {
        /// Description.
        what: String,
    },
    /// The other end did something that no end of this protocol does.
    #[error("the other end breaks the protocol: {0}")]
    Violation(#[from] Violation),
    /// A system call failed here.
    #[error("cannot {what}: {}; {}", .errno.message(), system_step(*.errno))]
    System {
        /// The operation.
        what: &'static str,
        /// Error of the system.
        errno: Errno,
    },
}

/// End of a remote shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShellEnd {
    /// It exited with this status.
    Exited(i32),
    /// A signal of this number killed it.
    Killed(i32),
    /// It closed its output, and went on.
    Closed,
}

impl ShellEnd {
    fn next_step(self) -> &'static str {
        match self {
            ShellEnd::Exited(_) => {
                "see what it printed, install the same version of uncopy there, and let its login shell run what it is \
                 given"
            }
            ShellEnd::Killed(_) => "copy again, and see what killed it if that happens again",
            ShellEnd::Closed => "let it leave its output to the program that it runs",
        }
    }
}

impl fmt::Display for ShellEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShellEnd::Exited(status) => write!(f, "ended with status {status}"),
            ShellEnd::Killed(signal) => write!(f, "was killed by signal {signal}"),
            ShellEnd::Closed => f.write_str("closed its output"),
        }
    }
}

/// Returns what can be done about a program that does not start.
fn start_step(errno: Errno) -> &'static str {
    match errno {
        Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES => {
            "install it, or name another remote shell"
        }
        other => system_step(other),
    }
}

/// Returns what can be done about a system call of a session that fails.
fn system_step(errno: Errno) -> &'static str {
    match errno {
        Errno::EMFILE | Errno::ENFILE => NextStep::RaiseOpenFiles.text(),
        Errno::EAGAIN => "raise the limit on processes and threads (ulimit -u, a control group's)",
        Errno::ENOMEM => NextStep::RaiseMemory.text(),
        Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES => NextStep::CheckPermissions.text(),
        Errno::EPERM | Errno::ENOSYS => "see which seccomp filter or security module forbids it",
        _ => "try again, and see the kernel log (dmesg) if it fails again",
    }
}

fn shown_text(shown: &[u8]) -> String {
    let text = String::from_utf8_lossy(shown);
    match text.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => {
            let line: String = line.chars().filter(|c| !c.is_control()).take(100).collect();
            format!(" (it printed {line:?})")
        }
        None => String::new(),
    }
}

/// Describes a refusal, with what can be done about it.
pub(crate) fn refusal_text(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Outside { path } => format!(
            "{:?} leads out of the directory that this login may use: name a path in it",
            String::from_utf8_lossy(path)
        ),
        Refusal::ReadOnly => "this login may read and not write".to_owned(),
        Refusal::NotConfined => {
            "this login is restricted to a directory, and the kernel there has no Landlock to \
            confine the program to it: use Linux 5.19 or later there"
                .to_owned()
        }
        Refusal::Arguments { message } => format!("the other end refuses: {message}"),
        Refusal::JournalOutside { path } => format!(
            "the journal of a copy to {:?} that can be resumed would lie beside it, out of the directory that this \
             login may use: copy so that it cannot be resumed, or to a directory in it",
            String::from_utf8_lossy(path)
        ),
        _ => "the other end refuses the job".to_owned(),
    }
}

/// Fact about a session that is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The kernel here has no Landlock that confines the serving threads to the sources.
    NearNotConfined,
    /// The kernel there has no Landlock that confines the far end to the paths of the job.
    FarNotConfined,
    /// Bytes go through the remote shell, though data connections were wanted.
    NoData(WhyNoData),
}
