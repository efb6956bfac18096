//! From the command line to the engine.

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::exit::Exit;
use crate::flags::{Engine, Flags};
use crate::{nats, report, slurm};

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
    let ended = match flags.engine {
        Engine::Slurm(flags) => slurm::run(&flags),
        Engine::Submit(flags) => nats::submit(&flags),
        Engine::Work(flags) => nats::work(&flags),
        Engine::Status(flags) => nats::status(&flags),
    };
    ended.unwrap_or_else(|error| {
        report::say(&error.to_string());
        error.exit()
    })
}
