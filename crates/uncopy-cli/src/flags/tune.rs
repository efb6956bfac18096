//! `uncopy tune`.

use std::path::PathBuf;

use super::operand::here_parser;

/// Next step for a path on another machine.
const THERE: &str = "run `uncopy tune PATH` there by ssh";

/// Shown below the flags.
pub(crate) const EXAMPLES: &str = "\
Examples:
  uncopy tune /srv           measure the filesystem of /srv, and print a table
  uncopy tune --save /srv    also save the results, for all later copies to it
  uncopy config show /srv    show the settings of copies to it, and their origins";

/// Measure which mechanism is fastest at which size on a filesystem, and with how many workers.
///
/// Takes less than a minute, and up to 256 MiB in a hidden directory in PATH, which is removed
/// afterwards. A built-in value is replaced only by one that is clearly faster.
#[derive(Debug, clap::Args)]
pub(crate) struct TuneArgs {
    /// Directory on the filesystem to measure [default: the current directory]
    #[arg(
        value_name = "PATH",
        value_parser = here_parser(THERE),
        default_value = ".",
        hide_default_value = true
    )]
    pub path: PathBuf,

    /// Save the results for copies to this filesystem (in tuned.toml in the usual directory)
    #[arg(long)]
    pub save: bool,

    /// Print one JSON object instead of a table (`uncopy help json`)
    #[arg(long)]
    pub json: bool,
}
