//! Clocks of the kernel (`clock_gettime(2)`).

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Timeout of zero, for polling without waiting.
pub const ZERO: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

fn now(clock: ClockId) -> Duration {
    let t = clock_gettime(clock);
    let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// Returns the time since boot, without suspend (`CLOCK_MONOTONIC`).
pub fn monotonic() -> Duration {
    now(ClockId::Monotonic)
}

/// Returns the time since boot at the last tick, some milliseconds ago; cheaper than [`monotonic`]
/// (`CLOCK_MONOTONIC_COARSE`).
pub fn coarse() -> Duration {
    now(ClockId::MonotonicCoarse)
}

/// Returns the time since the epoch at the last tick. A file that is changed later does not get an earlier
/// time (`CLOCK_REALTIME_COARSE`; `fs/inode.c`, `inode_set_ctime_current`).
pub fn realtime() -> Duration {
    now(ClockId::RealtimeCoarse)
}

/// Returns the CPU time of this thread (`CLOCK_THREAD_CPUTIME_ID`).
pub fn thread() -> Duration {
    now(ClockId::ThreadCPUTime)
}

/// Returns the time since boot, including suspend (`CLOCK_BOOTTIME`).
pub fn boot() -> Duration {
    now(ClockId::Boottime)
}
