//! `uncopy bench`: measures the gain of sending without copying on a path.

mod outcome;
mod receive;
mod send;

use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::exit::Exit;
use crate::flags::bench::{BenchArgs, PathArgs, Task};
use crate::report::{self, Failure};

/// Runs one end.
pub(crate) fn run(flags: &BenchArgs) -> Result<Exit, clap::Error> {
    let measured = match &flags.task {
        Task::Send(flags) => send::run(flags),
        Task::Recv(flags) => receive::run(flags),
    };
    Ok(match measured {
        Ok(text) => match report::print(&text) {
            Ok(()) => Exit::Success,
            Err(error) => report::output_failed(&error),
        },
        Err(failure) => {
            report::say(&failure.to_string());
            failure.exit
        }
    })
}

/// Makes a failure that is not an error of the library.
fn failure(
    operation: &'static str,
    subject: impl std::fmt::Display,
    reason: impl std::fmt::Display,
    next_step: &'static str,
) -> Failure {
    Failure {
        kind: "network",
        code: None,
        operation,
        subject: PathBuf::from(subject.to_string()).into(),
        errno: None,
        os_error: None,
        reason: reason.to_string().into(),
        next_step: Some(next_step.into()),
        is_at_destination: false,
        exit: Exit::Failure,
    }
}

/// Maximum duration of a run: a year, which can be added to every clock.
const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Returns the duration of the run.
fn duration(flags: &PathArgs) -> Result<Duration, Failure> {
    let next_step = "pass a number of seconds above zero, up to a year";
    Duration::try_from_secs_f64(flags.seconds)
        .ok()
        .filter(|time| !time.is_zero() && *time <= MAX_DURATION)
        .ok_or_else(|| failure("run for", flags.seconds, "it is not a valid time", next_step))
}

/// Pins the process to the CPU of the flags.
fn pin(flags: &PathArgs) -> Result<(), Failure> {
    let Some(processor) = flags.processor else { return Ok(()) };
    let next_step = "pass the number of a CPU of this machine (nproc)";
    let refused = |reason: String| failure("run on CPU", processor, reason, next_step);
    let mut set = rustix::thread::CpuSet::new();
    if processor >= rustix::thread::CpuSet::MAX_CPU {
        return Err(refused("the kernel supports fewer CPUs".to_owned()));
    }
    set.set(processor);
    rustix::thread::sched_setaffinity(None, &set).map_err(|errno| refused(errno.to_string()))
}

/// Returns the CPU time that this process has used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
