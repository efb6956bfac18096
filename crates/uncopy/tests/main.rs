//! The library as programs use it: files, sends, channels between processes, what fails, and why
//! bytes are copied. Some tests start this program again in another role.
#![cfg(all(target_os = "linux", not(shuttle)))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "channel")]
mod channel_processes;
#[cfg(feature = "channel")]
mod channel_syscalls;
mod copy;
#[cfg(all(feature = "doctor", feature = "send"))]
mod doctor;
#[cfg(all(feature = "channel", feature = "send", feature = "trees"))]
mod faults;
#[cfg(feature = "send")]
mod send;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(directory) = std::env::var_os(copy::descriptors::CHILD) {
        return copy::descriptors::child(directory.as_ref());
    }
    #[cfg(all(feature = "channel", feature = "send", feature = "trees"))]
    if let Ok(role) = std::env::var(faults::roles::ROLE) {
        return faults::roles::play(&role);
    }
    #[cfg(feature = "channel")]
    {
        if let Ok(role) = std::env::var(channel_processes::roles::VARIABLE) {
            return channel_processes::roles::play(&role);
        }
        if let Some(operation) = std::env::var_os(channel_syscalls::OPERATION) {
            channel_syscalls::operate(&operation.to_string_lossy());
            return ExitCode::SUCCESS;
        }
    }
    testbed::run(env!("CARGO_TARGET_TMPDIR"), || {
        let cases = [
            #[cfg(feature = "channel")]
            channel_processes::cases(),
            #[cfg(feature = "channel")]
            channel_syscalls::cases(),
            copy::cases(),
            #[cfg(all(feature = "doctor", feature = "send"))]
            doctor::cases(),
            #[cfg(all(feature = "channel", feature = "send", feature = "trees"))]
            faults::cases(),
            #[cfg(feature = "send")]
            send::cases(),
        ];
        cases.into_iter().flatten().collect()
    })
}
