//! Sessions over pipes and sockets, with real directories.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod data_session;
mod far_end;
mod far_trees;
mod hostile_callers;
mod hostile_servers;
mod listings;
mod named;
mod open_session;
mod push;
mod source;
mod support;
mod transcript;
mod versions;
