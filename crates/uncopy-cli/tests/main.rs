//! The program `uncopy`, as a black box.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod both;
mod cmd;
#[cfg(feature = "compress")]
mod compress;
mod config;
mod cp;
mod doctor;
mod faults;
#[cfg(feature = "unit")]
mod fleet;
mod process;
mod quick_start;
#[cfg(feature = "remote")]
mod remote;
mod tree;
mod tune;
#[cfg(feature = "unit")]
mod unit;
mod verify;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Some tests start this program again in another role.
    if let Some(allowed) = std::env::var_os(cp::racing::reader::ROLE) {
        return cp::racing::reader::play(allowed.as_ref());
    }
    if let Some(what) = std::env::var_os(tree::given_away::ROLE) {
        return tree::given_away::attack(&what);
    }
    if let Ok(role) = std::env::var(doctor::channel::ROLE) {
        return doctor::channel::play(&role);
    }
    testbed::run(env!("CARGO_TARGET_TMPDIR"), || {
        let cases = [
            bench::cases(),
            both::cases(),
            cmd::cases(),
            #[cfg(feature = "compress")]
            compress::cases(),
            config::cases(),
            cp::cases(),
            doctor::cases(),
            faults::cases(),
            #[cfg(feature = "unit")]
            fleet::cases(),
            process::cases(),
            quick_start::cases(),
            #[cfg(feature = "remote")]
            remote::cases(),
            tree::cases(),
            tree::audit_stats::cases(),
            tune::cases(),
            #[cfg(feature = "unit")]
            unit::cases(),
            verify::cases(),
        ];
        cases.into_iter().flatten().collect()
    })
}
