//! The program `uncopy`: its flags, its reports and its exit codes.
//!
//! The library [`uncopy`] does the work; this crate turns a command line into calls of it, and
//! receipts into text or JSON.
#![deny(missing_docs)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]
// Code that serves subcommands of Linux alone, or copies between machines, is unused elsewhere.
#![cfg_attr(not(all(feature = "remote", target_os = "linux")), allow(dead_code))]

mod audit;
#[cfg(target_os = "linux")]
mod bench;
mod capabilities;
mod completions;
mod config;
mod cp;
#[cfg(target_os = "linux")]
mod doctor;
mod exit;
mod flags;
#[cfg(all(feature = "unit", target_os = "linux"))]
mod fleet;
mod help;
mod job_control;
mod man;
#[cfg_attr(not(target_os = "linux"), path = "manifest_portable.rs")]
mod manifest;
mod manifest_file;
mod progress;
mod question;
#[cfg_attr(not(all(feature = "remote", target_os = "linux")), path = "remote_portable.rs")]
mod remote;
mod replaced_file;
mod report;
mod stop;
#[cfg(target_os = "linux")]
mod tune;
#[cfg(all(feature = "unit", target_os = "linux"))]
mod unit;
#[cfg(target_os = "linux")]
mod verify;

use std::ffi::OsString;

use clap::{ArgMatches, FromArgMatches};

pub use completions::script as completion_script;
pub use exit::Exit;
pub use flags::command;
use flags::copy::CopyArgs;
use flags::short;
use flags::single::SingleArgs;

/// Reads a file as `uncopy tune --save` writes it; exists only with `--cfg fuzzing`, for `fuzz/`.
#[cfg(fuzzing)]
pub fn fuzz_tuned(text: &[u8]) {
    config::tuned::fuzz(text);
}

/// Runs the program with these arguments, of which the first is its name, and returns how it ended.
///
/// Prints to standard output and standard error. A signal that stops a copy ends the process.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    run_then(&arguments.into_iter().collect::<Vec<_>>(), |exit| exit)
}

/// Runs the program as [`run`] does, and ends the process with its exit code.
///
/// Frees no memory before: the system does that at once, the hundreds of descriptions of flags included.
pub fn run_and_exit(arguments: impl IntoIterator<Item = OsString>) -> ! {
    // Also flushes standard output.
    run_then(&arguments.into_iter().collect::<Vec<_>>(), |exit| {
        std::process::exit(exit.code().into())
    })
}

/// Runs the program, and calls `end` before the memory of its flags is freed.
fn run_then<T>(arguments: &[OsString], end: impl FnOnce(Exit) -> T) -> T {
    if let Err(error) = stop::survive_full_files() {
        return end(stop::failed(&error));
    }
    if let Some(flags) = CopyArgs::from_paths_only(arguments) {
        let configured = config::Configured::new(flags, None, |_| false);
        return end(exit_of(configured.and_then(|configured| cp::run(&configured, None))));
    }
    let mut command = command();
    match command.try_get_matches_from_mut(arguments) {
        Ok(matches) => end(run_parsed(&matches)),
        Err(error) => end(print_clap(&short::explained_on(arguments, error))),
    }
}

fn run_parsed(matches: &ArgMatches) -> Exit {
    match matches.subcommand() {
        Some(("cp", flags)) => {
            let configured = config::Configured::parsed(flags, None);
            exit_of(configured.and_then(|configured| cp::run(&configured, Some(flags))))
        }
        Some(("capabilities", flags)) => with_flags(flags, capabilities::run),
        #[cfg(target_os = "linux")]
        Some(("doctor", flags)) => with_flags(flags, doctor::run),
        #[cfg(target_os = "linux")]
        Some(("bench", flags)) => with_flags(flags, bench::run),
        #[cfg(target_os = "linux")]
        Some(("tune", flags)) => with_flags(flags, tune::run),
        #[cfg(target_os = "linux")]
        Some(("verify", flags)) => with_flags(flags, verify::run),
        #[cfg(all(feature = "remote", target_os = "linux"))]
        Some(("serve", flags)) => with_flags(flags, remote::serve),
        #[cfg(all(feature = "unit", target_os = "linux"))]
        Some(("unit", flags)) => exit_of(unit::run(flags)),
        #[cfg(all(feature = "unit", target_os = "linux"))]
        Some(("fleet", flags)) => with_flags(flags, fleet::run),
        Some(("audit", flags)) => with_flags(flags, audit::run),
        Some(("config", flags)) => with_flags(flags, config::show::run),
        Some(("completions", flags)) => with_flags(flags, completions::run),
        Some(("help", flags)) => with_flags(flags, help::run),
        Some(("man", flags)) => with_flags(flags, man::run),
        Some((absent, _)) => exit_of(Err(flags::absent::refusal(absent))),
        None => exit_of(SingleArgs::from_arg_matches(matches).and_then(|flags| {
            let is_given = |flag: &str| SingleArgs::is_given(matches, flag);
            let configured = config::Configured::new(flags.into_copy(), None, is_given)?;
            cp::run(&configured, None)
        })),
    }
}

/// Runs a subcommand with its flags; its error is a usage error.
fn with_flags<Flags: FromArgMatches>(
    matches: &ArgMatches,
    subcommand: fn(&Flags) -> Result<Exit, clap::Error>,
) -> Exit {
    exit_of(Flags::from_arg_matches(matches).and_then(|flags| subcommand(&flags)))
}

fn exit_of(result: Result<Exit, clap::Error>) -> Exit {
    result.unwrap_or_else(|error| print_clap(&error))
}

/// Prints help, the version or a usage error.
fn print_clap(error: &clap::Error) -> Exit {
    match (error.print(), error.use_stderr()) {
        (_, true) => Exit::Usage,
        (Ok(()), false) => Exit::Success,
        (Err(error), false) => report::output_failed(&error),
    }
}
