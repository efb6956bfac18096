//! `uncopy help`.

use clap::builder::{PossibleValue, PossibleValuesParser};

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

/// Names of topics and commands, which completions offer. Commands that people do not type are understood.
fn names() -> PossibleValuesParser {
    let topics = TOPICS.iter().map(|topic| PossibleValue::new(topic.name).help(topic.about));
    let commands = super::SUBCOMMANDS.iter().map(|subcommand| {
        let value = PossibleValue::new(subcommand.name).help(subcommand.about);
        value.hide(!subcommand.is_listed)
    });
    PossibleValuesParser::new(topics.chain(commands).collect::<Vec<_>>())
}
