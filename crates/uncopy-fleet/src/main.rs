//! The program `uncopy-fleet`, which `uncopy fleet` runs: gives units of work to engines that distribute work.
//!
//! Engines are adapters: Slurm in `slurm`, NATS with JetStream in `nats`. The ledger at the destination says what is done;
//! whatever a queue says is a hint.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]
#![cfg_attr(not(target_os = "linux"), allow(unused))]

#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod exit;
#[cfg(target_os = "linux")]
mod flags;
#[cfg(target_os = "linux")]
mod ledger_there;
#[cfg(target_os = "linux")]
mod nats;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod slurm;
#[cfg(target_os = "linux")]
mod texts;
#[cfg(target_os = "linux")]
mod verdict;

#[cfg(target_os = "linux")]
fn main() {
    std::process::exit(run::run().code().into())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("uncopy fleet: units of work are not there on this system; run it on Linux");
    std::process::exit(2)
}
