//! Tests that count what the whole process holds: allocations, descriptors, memory. They run one at a
//! time, in a program of their own, because what other tests hold would count.
#![cfg(all(target_os = "linux", not(shuttle)))]

mod channel_allocations;
mod channel_hostile;
mod channel_leaks;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::thread::{Pid, gettid};

/// Thread of the test that ran last.
static ALONE: Mutex<Option<Pid>> = Mutex::new(None);

/// Lets one test run at a time. Waits until the thread of the previous one has ended: what a thread keeps for
/// itself is only freed and closed then.
fn alone() -> MutexGuard<'static, Option<Pid>> {
    let mut last = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(thread) = last.replace(gettid()).filter(|thread| *thread != gettid()) {
        let task = format!("/proc/self/task/{}", thread.as_raw_nonzero());
        while Path::new(&task).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    last
}
