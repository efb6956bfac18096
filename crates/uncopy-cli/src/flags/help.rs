//! `uncopy help`.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Command};

use super::{SUBCOMMANDS, Subcommand};
use crate::help::TOPICS;

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy help receipts
  uncopy help unit plan
  PAGER=cat uncopy help trees";

/// Show a page about a topic, or the help of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct HelpArgs {
    /// Topic, or command whose help is shown; without it, a list of both
    #[arg(value_name = "TOPIC|COMMAND", value_parser = names())]
    pub name: Option<String>,
    /// Subcommand of that command
    #[arg(value_name = "SUBCOMMAND")]
    pub subcommands: Vec<String>,
}

/// Defines the flags for completions: with the names that people type. Scripts of some shells offer hidden ones too.
pub(crate) fn completed(command: Command) -> Command {
    HelpArgs::augment_args(command).mut_args(|argument| match argument.get_id() == "name" {
        true => argument.value_parser(names_of(|subcommand| subcommand.is_listed)),
        false => argument,
    })
}

/// Names of topics and commands. Commands that people do not type are understood.
fn names() -> PossibleValuesParser {
    names_of(|_| true)
}

fn names_of(is_wanted: fn(&Subcommand) -> bool) -> PossibleValuesParser {
    let topics = TOPICS.iter().map(|topic| PossibleValue::new(topic.name).help(topic.about));
    let commands = SUBCOMMANDS.iter().filter(|subcommand| is_wanted(subcommand));
    let commands = commands.map(|subcommand| {
        let value = PossibleValue::new(subcommand.name).help(subcommand.about);
        value.hide(!subcommand.is_listed)
    });
    PossibleValuesParser::new(topics.chain(commands).collect::<Vec<_>>())
}
