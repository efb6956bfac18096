//! From the command line to the engine.

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::exit::Exit;
use crate::flags::{Flags, FleetCommand};
use crate::{nats, report, slurm, texts};

/// Runs the program.
pub(crate) fn run() -> Exit {
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
