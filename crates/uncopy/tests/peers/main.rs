//! Jobs whose source is on another machine, played by directories of this one: the copies are those of a local job,
//! whatever fails, and whatever the other machine says.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
mod guarded;
mod hostile;
mod options;
mod played;
mod questions;
mod resuming;
mod scene;
