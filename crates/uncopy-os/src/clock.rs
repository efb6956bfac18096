//! Time as the kernel counts it.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// No time: to look, and not to wait.
pub const ZERO: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

fn now(clock: ClockId) -> Duration {
    let t = clock_gettime(clock);
    let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// Time since boot without sleep (`CLOCK_MONOTONIC`).
pub fn monotonic() -> Duration {
    now(ClockId::Monotonic)
}

/// The same as of the last tick, some milliseconds ago, for less (`CLOCK_MONOTONIC_COARSE`).
pub fn coarse() -> Duration {
    now(ClockId::MonotonicCoarse)
}

/// Time since the epoch as of the last tick: no file that is changed from now on gets an earlier time
/// (`CLOCK_REALTIME_COARSE`; `fs/inode.c`, `inode_set_ctime_current`).
pub fn realtime() -> Duration {
    now(ClockId::RealtimeCoarse)
}

/// Processor time of this thread (`CLOCK_THREAD_CPUTIME_ID`).
pub fn thread() -> Duration {
    now(ClockId::ThreadCPUTime)
}

/// Time since boot with sleep (`CLOCK_BOOTTIME`).
pub fn boot() -> Duration {
    now(ClockId::Boottime)
}
