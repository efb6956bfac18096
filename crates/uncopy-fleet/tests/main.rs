//! The program `uncopy-fleet`, as a black box, with real servers of NATS and a real cluster of Slurm.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod engines;
mod nats;
mod slurm;
mod texts;
mod work;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Tests start this program by another name: then it is `uncopy`.
    let name = std::env::args_os().next().unwrap_or_default();
    if Path::new(&name).file_name() == Some(work::UNCOPY.as_ref()) {
        uncopy_cli::run_and_exit(std::env::args_os());
    }
    testbed::run(env!("CARGO_TARGET_TMPDIR"), || {
        [engines::cases(), nats::cases(), slurm::cases(), texts::cases()]
            .into_iter()
            .flatten()
            .collect()
    })
}
