//! Public types and functions that need neither privileges nor another process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(not(shuttle))]
mod auto_traits;
#[cfg(all(target_os = "linux", feature = "channel"))]
mod channel;
#[cfg(all(target_os = "linux", not(shuttle), feature = "channel", feature = "tokio"))]
mod channel_async;
#[cfg(all(target_os = "linux", not(shuttle), feature = "tokio"))]
mod copy_async;
#[cfg(all(target_os = "linux", not(shuttle), feature = "send", feature = "tokio"))]
mod send_async;
