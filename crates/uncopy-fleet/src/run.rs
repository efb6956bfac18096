//! From the command line to the engine.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser as _;
use clap::error::ErrorKind;
use signal_hook::consts::signal::SIGXFSZ;
use signal_hook::flag;

use crate::exit::Exit;
use crate::flags::{Flags, FleetCommand};
use crate::{nats, report, slurm, texts};

/// Runs the program.
pub(crate) fn run() -> Exit {
    if let Err(error) = survive_full_files() {
        let next_step = "check which seccomp filter forbids sigaction(2)";
        report::say(&format!("cannot listen to signals: {error}; {next_step}"));
        return Exit::Failure;
    }
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) => {
            let printed = error.print();
            return match (error.kind(), printed) {
                (ErrorKind::DisplayHelp | ErrorKind::DisplayVersion, Ok(())) => Exit::Success,
                (ErrorKind::DisplayHelp | ErrorKind::DisplayVersion, Err(_)) => Exit::Failure,
                _ => Exit::Usage,
            };
        }
    };
    let ended = match flags.command {
        FleetCommand::Slurm(flags) => slurm::run(&flags),
        FleetCommand::Submit(flags) => nats::submit(&flags),
        FleetCommand::Work(flags) => nats::work(&flags),
        FleetCommand::Status(flags) => nats::status(&flags),
        FleetCommand::Completions(flags) => texts::completions(&flags),
        FleetCommand::Man(flags) => texts::manual(&flags),
    };
    ended.unwrap_or_else(|error| {
        report::say(&error.to_string());
        error.exit()
    })
}

/// Lets a write beyond `ulimit -f` fail with EFBIG (setrlimit(2)): without a handler the signal kills. The one of `uncopy`
/// ends with its program.
fn survive_full_files() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}
