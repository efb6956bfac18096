//! Data connections over real sockets.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod announced;
mod broken;
mod hostile;
mod open;
mod streams;
mod support;
