//! Data connections over real sockets.
#![cfg(all(target_os = "linux", feature = "data"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod announced;
mod broken;
mod hostile;
mod streams;
mod support;
