//! The doctor against real conditions: each is made, found with its evidence, and gone again; and
//! what the doctor predicts is what a sender then is told.
#![cfg(all(target_os = "linux", not(shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod files;
mod network;
mod network_rows;
mod row;

use std::process::ExitCode;

fn main() -> ExitCode {
    testbed::run(env!("CARGO_TARGET_TMPDIR"), || {
        [files::cases(), network::cases()].into_iter().flatten().collect()
    })
}
