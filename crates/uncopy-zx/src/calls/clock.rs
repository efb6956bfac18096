//! Time, in nanoseconds.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use uncopy_channel::{Deadline, Status, wait_many};

use crate::abi::{ZX_TIME_INFINITE, zx_duration_t, zx_status_t, zx_time_t};
use crate::sys::boundary::{exported, exported_value};

/// Returns the time of a clock in nanoseconds; 292 years fit.
fn now(clock: ClockId) -> zx_time_t {
    let time = clock_gettime(clock);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Returns the deadline at a time of the monotonic clock.
pub(crate) fn deadline_at(time: zx_time_t) -> Deadline {
    if time == ZX_TIME_INFINITE {
        return Deadline::INFINITE;
    }
    let left = time.saturating_sub(now(ClockId::Monotonic));
    Deadline::after(Duration::from_nanos(u64::try_from(left).unwrap_or(0)))
}

exported_value! {
    /// Returns the time since boot without suspend.
    fn zx_clock_get_monotonic() -> zx_time_t {
        now(ClockId::Monotonic)
    }

    /// Returns the time since boot including suspend.
    fn zx_clock_get_boot() -> zx_time_t {
        now(ClockId::Boottime)
    }

    /// Returns the time `nanoseconds` from now, saturated at the ends of the range.
    fn zx_deadline_after(nanoseconds: zx_duration_t) -> zx_time_t {
        now(ClockId::Monotonic).saturating_add(nanoseconds)
    }

    /// Returns the ticks, which are nanoseconds of the monotonic clock.
    fn zx_ticks_get() -> i64 {
        now(ClockId::Monotonic)
    }

    /// Returns the ticks including suspend.
    fn zx_ticks_get_boot() -> i64 {
        now(ClockId::Boottime)
    }

    /// Returns the number of ticks in a second.
    fn zx_ticks_per_second() -> i64 {
        1_000_000_000
    }

    /// Returns the page size in bytes.
    fn zx_system_get_page_size() -> u32 {
        u32::try_from(rustix::param::page_size()).unwrap_or(4096)
    }

    /// Returns the name of a status, a string that is never freed.
    fn zx_status_get_string(status: zx_status_t) -> *const std::ffi::c_char {
        super::status::name(status).as_ptr()
    }
}

exported! {
    /// Sleeps until a time.
    fn zx_nanosleep(deadline: zx_time_t) {
        match wait_many(&mut [], deadline_at(deadline)) {
            Err(Status::TimedOut) => Ok(()),
            other => other,
        }
    }
}
