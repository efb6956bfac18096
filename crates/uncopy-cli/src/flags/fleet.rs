//! `uncopy fleet`: words for another program.

use std::ffi::OsString;

use clap::{Args as _, Command};

/// Shown below the arguments.
const EXAMPLES: &str = "\
Examples:
  uncopy fleet --help                                show what the program uncopy-fleet takes
  uncopy fleet slurm plan -- --partition=io          submit the units of a plan as an array job
  uncopy fleet work plan --server nats://queue       do units from a queue

The program uncopy-fleet is looked for beside uncopy, and then in PATH.";

/// Give units of work to Slurm or NATS, by the program uncopy-fleet
#[derive(Debug, clap::Args)]
pub(crate) struct FleetArgs {
    /// Words for the program uncopy-fleet
    #[arg(value_name = "WORDS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// Adds the words. All of them are the other program's, also `--help`.
pub(crate) fn augment(command: Command) -> Command {
    FleetArgs::augment_args(command).disable_help_flag(true).after_help(EXAMPLES)
}
