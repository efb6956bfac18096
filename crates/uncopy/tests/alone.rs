//! Tests that count what the whole process holds: allocations, descriptors, memory. They run one at a
//! time, in a program of their own, because what other tests hold would count.
#![cfg(all(target_os = "linux", not(shuttle)))]

mod channel_allocations;
mod channel_hostile;
mod channel_leaks;

use std::sync::Mutex;

/// One test at a time.
static ALONE: Mutex<()> = Mutex::new(());
